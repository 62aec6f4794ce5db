"""Pause, resume, cancel and retry on stored tasks and sources: what changes, what is refused, who is stopped."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from sqlalchemy import Engine

from filecollect.domain.columns import Column
from filecollect.domain.lease import Lease
from filecollect.domain.states import CHANGES, VERBS, Verb
from filecollect.errors import UsageError
from filecollect.store.claim import any_claimable, claim
from filecollect.store.engine import reading, transaction
from filecollect.store.sources import StoredSource, add_source
from filecollect.store.tasks import add_task, give_back, renew
from filecollect.store.types import DatabaseNow
from filecollect.store.verbs import change_all, change_named, pause_source, resume_source
from tests.daemon import wait_until

STATES = ["pending", "running", "delivering", "succeeded", "failed", "paused", "cancelled", "skipped", "gone"]
# For each verb and each state in STATES: the new state, "=" for left as it is, "." for refused.
EXPECTED: dict[Verb, str] = {
    "pause": "paused paused paused . . = . . .",
    "resume": "= = . . . pending . . .",
    "cancel": "cancelled cancelled cancelled . cancelled cancelled = . .",
    "retry": "pending = . . pending . pending pending .",
}


def add(engine: Engine, status: str, **values: Any) -> int:
    """Record a task in a state; a running one has an owner with a good lease."""
    if status == "running":
        values = {"owner_id": "w", "lease_until": DatabaseNow(60)} | values
    with transaction(engine) as conn:
        return add_task(conn, **{"source_key": "s", "status": status, "path": f"/{status}", "head_length": 64} | values)


def rows(engine: Engine, columns: str = "id, status, version") -> list[tuple[Any, ...]]:
    """Return all tasks."""
    with reading(engine) as conn:
        return [tuple(row) for row in conn.exec_driver_sql(f"SELECT {columns} FROM collection_task ORDER BY id")]


def events(engine: Engine) -> list[tuple[Any, ...]]:
    """Return task and kind of all events."""
    with reading(engine) as conn:
        return [tuple(row) for row in conn.exec_driver_sql("SELECT task_id, kind FROM file_event ORDER BY id")]


def source(engine: Engine, key: str = "s") -> None:
    """Store a source."""
    with transaction(engine) as conn:
        add_source(conn, StoredSource(key, key, "lines", {}, (Column("line", "line", "text"),)))


def test_every_change_of_a_verb_is_one_of_the_state_machine() -> None:
    """A verb knows no way of its own."""
    for new, old in VERBS.values():
        assert {state for state in old if state != new and new not in CHANGES[state]} == set()


@pytest.mark.parametrize("verb", list(EXPECTED))
def test_what_a_verb_makes_of_every_state(database: Engine, verb: Verb) -> None:
    """The whole table: changed with version + 1 and no owner, left as it is, or refused with nothing touched."""
    for number, (state, wanted) in enumerate(zip(STATES, EXPECTED[verb].split(), strict=True), 1):
        add(database, state, attempt_count=3, last_error="e", content_offset=7)
        before = rows(database, "status, version, owner_id, content_offset")[-1]
        if wanted == ".":
            with pytest.raises(UsageError, match=f"cannot {verb} task {number}: expected .*it is {state}"):
                change_named(database, verb, [str(number)], None)
        else:
            done = change_named(database, verb, [str(number)], None)
            assert [(one.id, one.old, one.new) for one in done] == ([] if wanted == "=" else [(number, state, wanted)])
        after = rows(database, "status, version, owner_id, content_offset")[-1]
        assert after == (before if wanted in "=." else (wanted, 1, None, 7))
        if wanted == "pending":
            assert rows(database, "attempt_count, last_error, next_run_at IS NULL")[-1] == (0, None, False)


def test_several_names_are_all_or_none(database: Engine) -> None:
    """One that is refused, or that nobody knows, leaves the others untouched."""
    good, done = add(database, "pending"), add(database, "succeeded")
    for bad, said in ((str(done), "it is succeeded"), ("99", "no task 99"), ("/x", "no task has the path /x")):
        with pytest.raises(UsageError, match=said):
            change_named(database, "pause", [str(good), bad], None)
    with pytest.raises(UsageError, match=f"no task {good} in source other"):
        change_named(database, "pause", [str(good)], "other")
    assert rows(database) == [(good, "pending", 0), (done, "succeeded", 0)]
    assert events(database) == []


def test_a_path_means_its_newest_generation_on_every_host(database: Engine) -> None:
    """Earlier generations stay as they are."""
    old = add(database, "failed", path="/a", host="one")
    new, other = add(database, "failed", path="/a", host="one"), add(database, "failed", path="/a", host="two")
    assert [one.id for one in change_named(database, "retry", ["/a"], None)] == [new, other]
    assert [status for _, status, _ in rows(database)] == ["failed", "pending", "pending"]
    assert events(database) == [(new, "retried"), (other, "retried")]
    assert old < new


def test_all_takes_what_waits_for_the_verb(database: Engine) -> None:
    """A retry of everything takes failures and waits, never what was cancelled, skipped or is at rest."""
    failed, waits = add(database, "failed"), add(database, "pending", next_run_at=DatabaseNow(600))
    for state in ("succeeded", "cancelled", "skipped", "gone", "paused", "running"):
        add(database, state)
    rest = add(database, "pending", next_run_at=None)
    elsewhere = add(database, "failed", source_key="t")

    assert [one.id for one in change_all(database, "retry", "s")] == [failed, waits]
    assert [one.id for one in change_all(database, "retry", None)] == [elsewhere]
    paused = [one.id for one in change_all(database, "pause", "s")]
    assert {failed, waits, rest} < set(paused)
    assert {status for _, status, _ in rows(database)} == {"succeeded", "cancelled", "skipped", "gone", "paused"} | {
        "pending"
    }


def test_more_tasks_than_one_transaction_holds(database: Engine) -> None:
    """Every one is changed, once."""
    with transaction(database) as conn:
        for number in range(1203):
            add_task(conn, source_key="s", status="pending", path=f"/{number}")
    assert len(list(change_all(database, "pause", None))) == 1203
    assert set(rows(database, "status, version")) == {("paused", 1)}


def test_a_superseded_generation_is_not_revived(database: Engine) -> None:
    """Its rows have gone."""
    one = add(database, "skipped", last_error="superseded by task 9")
    with pytest.raises(UsageError, match="superseded by task 9"):
        change_named(database, "retry", [str(one)], None)


def test_the_holder_of_a_stopped_task_is_refused(database: Engine) -> None:
    """Neither renewal nor release goes through; what the operator wrote stands."""
    one = add(database, "running")
    lease = Lease(one, "w", 0)
    change_named(database, "cancel", [str(one)], None)
    with transaction(database) as conn:
        assert renew(conn, owner="w", leases=[lease], lease_s=60) == set()
        assert not give_back(conn, lease, status="succeeded")
    assert rows(database) == [(one, "cancelled", 1)]


def test_nothing_of_a_paused_source_is_claimed(database: Engine) -> None:
    """Its running tasks are stopped, its due ones wait; other sources go on; resuming undoes it."""
    for key in ("s", "t"):
        source(database, key)
    held, due = add(database, "running"), add(database, "pending", next_run_at=DatabaseNow())
    other = add(database, "pending", source_key="t", next_run_at=DatabaseNow())

    assert pause_source(database, "s", "full disk") == (True, 1)
    assert pause_source(database, "s", "again") == (False, 0)
    with transaction(database) as conn:
        assert claim(conn, owner="x", among=[held, due], limit=9, lease_s=60, dead=("w",)) == []
        assert not any_claimable(conn, ["s"], ("w",))
        got = claim(conn, owner="x", among=None, limit=9, lease_s=60, dead=())
    assert [task.id for task, _ in got] == [other]
    assert rows(database)[0] == (held, "pending", 1)

    assert resume_source(database, "s") is True
    assert resume_source(database, "s") is False
    with transaction(database) as conn:
        got = claim(conn, owner="x", among=None, limit=9, lease_s=60, dead=())
    assert sorted(task.id for task, _ in got) == [held, due]
    with reading(database) as conn:
        told = conn.exec_driver_sql("SELECT source_key, kind FROM file_event WHERE task_id IS NULL ORDER BY id").all()
    assert [tuple(row) for row in told] == [("s", "paused"), ("s", "resumed")]


def test_an_unknown_source_is_refused(database: Engine) -> None:
    """By name, for both verbs."""
    for verb in (lambda: pause_source(database, "x", None), lambda: resume_source(database, "x")):
        with pytest.raises(UsageError, match="no source 'x'"):
            verb()


def test_a_claim_that_is_under_way_is_seen_by_the_pause(postgresql: Engine) -> None:
    """The pause waits for the claim's COMMIT and then stops what it took."""
    source(postgresql)
    one = add(postgresql, "pending", next_run_at=DatabaseNow())
    outcome: list[tuple[bool, int]] = []
    pausing = threading.Thread(target=lambda: outcome.append(pause_source(postgresql, "s", None)))
    with transaction(postgresql) as conn:
        assert len(claim(conn, owner="w", among=None, limit=1, lease_s=60, dead=())) == 1
        pausing.start()
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE "
        waiting += "datname = current_database())"

        def waits() -> bool:
            with reading(postgresql) as look:
                return bool(look.exec_driver_sql(waiting).scalar())

        wait_until(waits)
    pausing.join(30)
    assert outcome == [(True, 1)]
    assert rows(postgresql) == [(one, "pending", 2)]


def test_a_claim_waits_for_no_pause(postgresql: Engine) -> None:
    """A source that is just being paused is passed over, so nobody waits in a circle."""
    for key in ("s", "t"):
        source(postgresql, key)
    add(postgresql, "pending", next_run_at=DatabaseNow())
    other = add(postgresql, "pending", source_key="t", next_run_at=DatabaseNow())
    with transaction(postgresql) as pausing:
        pausing.exec_driver_sql("SELECT 1 FROM collection_source WHERE source_key = 's' FOR UPDATE")
        with transaction(postgresql) as conn:
            conn.exec_driver_sql("SET LOCAL lock_timeout = '2s'")
            got = claim(conn, owner="w", among=None, limit=9, lease_s=60, dead=())
    assert [task.id for task, _ in got] == [other]
