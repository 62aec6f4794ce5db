"""A claim costs the same whatever the number of tasks: its plans use the indexes, its time stays flat.

The normal run makes 20,000 tasks; FILECOLLECT_TEST_TASKS=1000000 makes a million (about a minute).
"""

from __future__ import annotations

import os
import re
import statistics
import time

from sqlalchemy import Connection, Engine, event, text

from filecollect.store.claim import any_claimable, claim
from filecollect.store.engine import reading, transaction
from filecollect.store.tasks import owners_of_running

TASKS = int(os.environ.get("FILECOLLECT_TEST_TASKS", "20000"))
SOURCES = 50


def fill(engine: Engine, first: int, last: int) -> None:
    """Make tasks as a long-lived database has them: most done, many dormant, some held, many due.

    Two hosts, shared storage, fifty sources.
    """
    with transaction(engine) as conn:
        conn.execute(
            text(
                """
                INSERT INTO collection_task (id, generation, source_key, status, checkpoint_json, path, host,
                                             next_run_at, owner_id, lease_until, size, head_length, head_digest)
                SELECT n, md5(n::text), 's' || n % :sources, kind, '{}', '/var/log/' || n,
                       (ARRAY['here', 'there', NULL])[n % 3 + 1],
                       CASE WHEN kind = 'pending' AND n % 7 < 4 THEN clock_timestamp() - interval '1 hour'
                            WHEN kind = 'pending' AND n % 7 = 4 THEN clock_timestamp() + interval '1 day' END,
                       CASE WHEN kind = 'running' THEN 'w' || n % 20 END,
                       CASE WHEN kind = 'running' THEN clock_timestamp() + interval '1 hour' END,
                       1000, 64, md5(n::text)
                FROM (SELECT n, (ARRAY['succeeded', 'succeeded', 'pending', 'pending', 'running'])[n / 100 % 5 + 1]
                             AS kind FROM generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS n) AS made
                """
            ),
            {"first": first, "last": last, "sources": SOURCES},
        )
        conn.exec_driver_sql("SELECT setval('collection_task_id_seq', (SELECT max(id) FROM collection_task))")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.exec_driver_sql("VACUUM ANALYZE collection_task")


def claims(engine: Engine, count: int) -> float:
    """Claim a few tasks many times; return the median time in seconds."""
    took = []
    for _ in range(count):
        began = time.perf_counter()
        with transaction(engine) as conn:
            got = claim(conn, owner="me", among=None, limit=32, lease_s=60, dead=(), host="here")
        took.append(time.perf_counter() - began)
        assert len(got) == 32
    return statistics.median(took)


def plans(engine: Engine) -> list[str]:
    """Return the plan of every statement of a claim."""
    found: list[str] = []

    def explain(conn: Connection, _cursor: object, statement: str, values: object, *_rest: object) -> None:
        if statement.lstrip().startswith(("SELECT", "WITH", "UPDATE")):
            found.append("\n".join(row[0] for row in conn.exec_driver_sql(f"EXPLAIN {statement}", values)))  # type: ignore[arg-type]

    event.listen(engine, "before_cursor_execute", explain)
    try:
        with transaction(engine) as conn:
            claim(conn, owner="me", among=None, limit=32, lease_s=60, dead=(), host="here")
            claim(conn, owner="me", among=None, limit=2, lease_s=60, dead=("w1",), host="here")
            claim(conn, owner="me", among=list(range(500)), limit=2, lease_s=60, dead=("w1",), host="here")
        with reading(engine) as conn:
            any_claimable(conn, ["s1", "s2"], (), "here")
            any_claimable(conn, ["s1", "s2"], ("w1",), "here")
            owners_of_running(conn)
    finally:
        event.remove(engine, "before_cursor_execute", explain)
    return found


def test_a_claim_costs_the_same_with_a_thousand_times_the_tasks(postgresql: Engine) -> None:
    """Every plan looks tasks up by an index, and the time hardly grows."""
    fill(postgresql, 1, 5000)
    claims(postgresql, 5)
    few = claims(postgresql, 10)
    fill(postgresql, 5001, TASKS)
    claims(postgresql, 5)
    many = claims(postgresql, 10)

    found = plans(postgresql)
    print(f"claim of 32 tasks: {few * 1000:.1f} ms among 5,000, {many * 1000:.1f} ms among {TASKS:,}")
    print("\n\n".join(dict.fromkeys(found)))
    assert len(found) > 4
    assert [plan for plan in found if re.search(r"Seq Scan on (\S+\.)?collection_task", plan)] == []
    assert any("ix_collection_task_due" in plan for plan in found)
    assert any("ix_collection_task_lease" in plan for plan in found)
    assert many < 5 * few + 0.01
