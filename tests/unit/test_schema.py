"""The tables: DDL files, metadata and migrations are one; types keep values; operators' queries run."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, insert, select, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import StatementError

from filecollect.store.ddl import render
from filecollect.store.engine import close, open_engine, reading, transaction
from filecollect.store.migrate import HEAD, current, run_migrations, upgrade
from filecollect.store.schema import (
    OUR_TABLES,
    VERSION_TABLE,
    collected_item,
    collection_source,
    collection_task,
    committed_batch,
    file_event,
    metadata,
    quarantined_item,
)
from filecollect.store.types import Unsigned64, instant_text

SQL = Path(__file__).parents[2] / "sql"
QUERIES = sorted(path.name for path in SQL.glob("*.sql") if path.stem not in {"sqlite", "postgresql"})
CHECKPOINT = {"v": 1, "offset": 0}
DIGEST = "0" * 32


@pytest.fixture(params=["sqlite", "postgresql"])
def new_engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Engine]]:
    """Return a function that opens an empty database, on SQLite and on PostgreSQL."""
    opened: list[Engine] = []
    numbers = itertools.count()

    def open_empty() -> Engine:
        if request.param == "sqlite":
            engine = open_engine(str(tmp_path / f"{next(numbers)}.db"), create=True)
        else:
            server = request.getfixturevalue("postgres_url")
            name = f"{make_url(server).database}_{next(numbers)}"
            with psycopg.connect(server, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            engine = open_engine(make_url(server).set(database=name, drivername="postgresql+psycopg"))
        opened.append(engine)
        return engine

    yield open_empty
    for engine in opened:
        close(engine, truncate=False)


@pytest.fixture
def engine(new_engine: Callable[[], Engine]) -> Engine:
    """Return a database with our tables."""
    engine = new_engine()
    upgrade(engine)
    return engine


def describe(conn: Connection) -> dict[str, Any]:
    """Return everything the database itself says about its tables, columns, defaults and indexes."""
    if conn.dialect.name == "sqlite":
        objects = conn.execute(text("SELECT name, sql FROM sqlite_master ORDER BY name")).all()
        described: dict[str, Any] = {name: " ".join((sql or "").split()) for name, sql in objects}
        for (name,) in conn.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'")).all():
            described[f"{name} columns"] = conn.exec_driver_sql(f"PRAGMA table_xinfo('{name}')").all()
            indexes = conn.exec_driver_sql(f"PRAGMA index_list('{name}')").all()
            described[f"{name} indexes"] = sorted(
                (index, unique, tuple(conn.exec_driver_sql(f"PRAGMA index_xinfo('{index}')").all()))
                for _, index, unique, *_ in indexes
            )
        return described
    columns = (
        "SELECT table_name, ordinal_position, column_name, data_type, character_maximum_length, is_nullable,"
        " column_default FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2"
    )
    indexes_of = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1"
    constraints = (
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = current_schema()::regnamespace ORDER BY 1, 2"
    )
    return {query: conn.execute(text(query.replace(":", r"\:"))).all() for query in (columns, indexes_of, constraints)}


def described(engine: Engine) -> dict[str, Any]:
    """Describe a database in a snapshot of its own."""
    with reading(engine) as conn:
        return describe(conn)


def add_task(conn: Connection, **values: Any) -> int:
    """Record a task with as few columns as the tables ask for, and `values`."""
    row = {"generation": DIGEST, "source_key": "app", "checkpoint_json": CHECKPOINT, "path": "/a.log"} | values
    task_id = conn.scalar(insert(collection_task).values(**row).returning(collection_task.c.id))
    assert isinstance(task_id, int)
    return task_id


def span(task_id: int, seq: int, start: int, end: int, **values: Any) -> dict[str, Any]:
    """Return a ledger row of a task."""
    row = {"task_id": task_id, "seq": seq, "start_offset": start, "end_offset": end, "start_line": 1, "row_count": 1}
    return row | {"digest": DIGEST, "owner_id": "o", "version": 1} | values


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_rendered_ddl_is_the_file_in_sql(dialect: str) -> None:
    """`sql/` is what the program renders; `filecollect db ddl` renders it again after a change."""
    assert (SQL / f"{dialect}.sql").read_text(encoding="utf-8") == render(dialect)


def test_ddl_migrations_and_metadata_make_the_same_database(new_engine: Callable[[], Engine]) -> None:
    """A database is the same whether a DBA, Alembic or the quick way made it."""
    quick, migrated, by_hand = new_engine(), new_engine(), new_engine()
    upgrade(quick)
    with transaction(migrated) as conn:
        run_migrations(conn)
    ddl = render(by_hand.dialect.name)
    if by_hand.dialect.name == "sqlite":
        raw = sqlite3.connect(by_hand.url.database or "")
        raw.executescript(ddl)
        raw.close()
    else:
        with transaction(by_hand) as conn:
            conn.exec_driver_sql(ddl)

    assert "collection_task" in str(described(quick))
    assert described(migrated) == described(quick)
    assert described(by_hand) == described(quick)
    assert [current(engine) for engine in (quick, migrated, by_hand)] == [HEAD, HEAD, HEAD]


def test_our_tables_are_all_tables_of_the_metadata() -> None:
    """No table is forgotten when names are refused or tables are rendered."""
    assert set(metadata.tables) == {VERSION_TABLE, *OUR_TABLES}


def test_a_new_task_gets_the_documented_defaults(engine: Engine) -> None:
    """A task starts pending at 0, dormant, with ten attempts, stamped by the database's clock."""
    with transaction(engine) as conn:
        add_task(conn)
        row = conn.execute(select(collection_task)).one()
    assert (row.status, row.start_offset, row.content_offset, row.raw_offset) == ("pending", 0, 0, 0)
    assert (row.attempt_count, row.max_attempts, row.version, row.next_run_at) == (0, 10, 0, None)
    assert row.checkpoint_json == CHECKPOINT
    assert row.snapshot_json is None
    assert row.created_at.tzinfo is UTC


@pytest.mark.parametrize("table", [collection_task, quarantined_item, file_event], ids=lambda table: table.name)
def test_an_id_is_never_used_again(engine: Engine, table: Any) -> None:
    """After the newest row is deleted the next one still gets a higher id: id order is age order."""
    needed: dict[str, dict[str, Any]] = {
        "collection_task": {"generation": DIGEST, "source_key": "s", "checkpoint_json": {}, "path": "/p"},
        "quarantined_item": {
            "task_id": 1,
            "source_key": "s",
            "start_offset": 0,
            "length": 1,
            "line": 1,
            "raw": b"x",
            "reason": "r",
            "message": "m",
            "parser_json": {},
        },
        "file_event": {"path": "/p", "kind": "gone", "detail": {}},
    }
    with transaction(engine) as conn:
        statement = insert(table).values(**needed[table.name]).returning(table.c.id)
        first = conn.scalar(statement)
        conn.execute(table.delete())
        second = conn.scalar(statement)
    assert (first, second) == (1, 2)


def test_an_instant_is_stored_with_three_digits_and_comes_back_in_utc(engine: Engine) -> None:
    """14:00:00.5 in a zone two hours east is 12:00:00.500 UTC."""
    east = datetime(2026, 11, 1, 14, 0, 0, 500_000, tzinfo=timezone(timedelta(hours=2)))
    with transaction(engine) as conn:
        add_task(conn, lease_until=east)
        back = conn.scalar(select(collection_task.c.lease_until))
        stored = conn.exec_driver_sql("SELECT CAST(lease_until AS TEXT) FROM collection_task").scalar()
    assert back == datetime(2026, 11, 1, 12, 0, 0, 500_000, tzinfo=UTC)
    assert back.tzinfo is UTC
    assert stored == ("2026-11-01 12:00:00.500" if engine.dialect.name == "sqlite" else "2026-11-01 12:00:00.5+00")


def test_an_instant_without_a_zone_is_refused(engine: Engine) -> None:
    """The machine's own zone never gets into the database by accident."""
    with pytest.raises(StatementError, match="time zone"), transaction(engine) as conn:
        add_task(conn, lease_until=datetime(2026, 11, 1))


@given(st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.just(UTC)), st.datetimes(timezones=st.just(UTC)))
def test_instants_as_text_sort_as_they_follow_each_other(one: datetime, other: datetime) -> None:
    """SQLite compares leases as text, so text order must be time order."""
    other = max(other, datetime(1000, 1, 1, tzinfo=UTC))
    earlier, later = sorted([one, other])
    assert instant_text(earlier) <= instant_text(later)
    assert len(instant_text(one)) == len("2026-11-01 12:00:00.500")


@pytest.mark.parametrize("payload", ["007", 1.10, [], {"a": None}, "1e5", "é\U0001f600", 2**60, False])
def test_a_json_payload_comes_back_as_it_was(engine: Engine, payload: Any) -> None:
    """Type affinity must not make a number of a text or shorten a number."""
    with transaction(engine) as conn:
        values = {"source_key": "s", "source_item_id": "1", "payload": payload, "_task_id": 1, "_offset": 0}
        conn.execute(insert(collected_item).values(values))
        back = conn.scalar(select(collected_item.c.payload))
    assert back == payload
    assert type(back) is type(payload)


def test_the_text_of_json_on_sqlite_is_not_touched_by_affinity(tmp_path: Path) -> None:
    """`1.10` written as JSON text is still `1.10`, not the number 1.1."""
    engine = open_engine(str(tmp_path / "o.db"), create=True)
    upgrade(engine)
    with transaction(engine) as conn:
        columns = "(source_key, source_item_id, payload, _task_id, _offset)"
        conn.exec_driver_sql(f"INSERT INTO collected_item {columns} VALUES ('s', '1', '1.10', 1, 0)")
        stored = conn.exec_driver_sql("SELECT typeof(payload), payload FROM collected_item").one()
    close(engine, truncate=True)
    assert tuple(stored) == ("text", "1.10")


@pytest.mark.parametrize("number", [0, 1, 2**63 - 1, 2**63, 2**64 - 1])
def test_inodes_of_64_bits_fit(engine: Engine, number: int) -> None:
    """Some file systems use the upper half of the unsigned numbers."""
    with transaction(engine) as conn:
        add_task(conn, inode=number, device=number)
        found = conn.scalar(select(collection_task.c.inode).where(collection_task.c.device == number))
    assert found == number


@given(st.integers(0, 2**64 - 1))
def test_folding_unsigned_numbers_loses_nothing(number: int) -> None:
    """What is bound fits in 64 signed bits and unfolds to the same number."""
    folding: Any = Unsigned64()
    bound = folding.process_bind_param(number, None)
    assert -(2**63) <= bound < 2**63
    assert folding.process_result_value(bound, None) == number


@pytest.mark.parametrize(
    ("where", "index"),
    [
        ("source_key = 's' AND head_length = 64 AND head_digest = 'x'", "ix_collection_task_head"),
        ("path = '/a'", "ix_collection_task_path"),
        ("source_key = 's' AND path = '/a'", "ix_collection_task_source_path"),
        ("status = 'pending' AND next_run_at <= '2026' ORDER BY next_run_at, id", "ix_collection_task_ready"),
        ("owner_id = 'o'", "ix_collection_task_owner"),
    ],
)
def test_look_ups_of_tasks_use_an_index(tmp_path: Path, where: str, index: str) -> None:
    """A hundred thousand files must not mean a scan for each look-up."""
    engine = open_engine(str(tmp_path / "o.db"), create=True)
    upgrade(engine)
    with reading(engine) as conn:
        # Two indexes serve (source_key, path): which one is taken when there are no statistics is SQLite's choice.
        plan = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN SELECT id FROM collection_task WHERE {where}").all()
    close(engine, truncate=True)
    assert "SCAN" not in str(plan)
    assert index in str(plan) or "ix_collection_task_path" in str(plan)


def run_query(conn: Connection, name: str) -> list[dict[str, Any]]:
    """Run one of the operators' queries and return its rows."""
    rows = conn.exec_driver_sql((SQL / name).read_text(encoding="utf-8")).mappings()
    return [dict(row) for row in rows]


@pytest.mark.parametrize("name", QUERIES)
def test_operators_queries_run_on_an_empty_database(engine: Engine, name: str) -> None:
    """Each query in `sql/` is valid on both databases and says what it is for."""
    assert (SQL / name).read_text(encoding="utf-8").startswith("-- ")
    with reading(engine) as conn:
        assert run_query(conn, name) == []


def test_reconcile_is_silent_where_ledger_and_checkpoint_agree(engine: Engine) -> None:
    """Spans that tile from start_offset to content_offset are no difference, nor is a task just begun."""
    with transaction(engine) as conn:
        task = add_task(conn, start_offset=5, content_offset=30)
        conn.execute(insert(committed_batch), [span(task, 1, 5, 10), span(task, 2, 10, 30)])
        add_task(conn)
        assert run_query(conn, "reconcile.sql") == []


@pytest.mark.parametrize(
    ("spans", "content_offset", "expected"),
    [
        ([(0, 10), (12, 20)], 20, ("gap", 10, 12)),
        ([(0, 10), (8, 20)], 20, ("overlap", 10, 8)),
        ([(3, 10)], 10, ("start", 0, 3)),
        ([(0, 10)], 11, ("end", 11, 10)),
        ([], 7, ("end", 7, 0)),
    ],
    ids=["gap", "overlap", "late start", "early end", "no ledger"],
)
def test_reconcile_names_each_difference(
    engine: Engine, spans: list[tuple[int, int]], content_offset: int, expected: tuple[str, int, int]
) -> None:
    """A gap, an overlap and spans that end elsewhere than the checkpoint are each one row."""
    with transaction(engine) as conn:
        task = add_task(conn, content_offset=content_offset)
        for seq, (start, end) in enumerate(spans, 1):
            conn.execute(insert(committed_batch).values(span(task, seq, start, end)))
        rows = run_query(conn, "reconcile.sql")
    assert [(row["task_id"], row["kind"], row["expected"], row["got"]) for row in rows] == [(task, *expected)]


def test_lag_and_sources_count_what_is_left_and_what_came_in(engine: Engine) -> None:
    """Of 100 bytes 60 are committed: 40 behind; a cancelled file is not behind."""
    with transaction(engine) as conn:
        conn.execute(
            insert(collection_source).values(
                source_key="app", table_name="app", format="jsonl", config_json={}, columns_json=[]
            )
        )
        task = add_task(conn, size=100, raw_offset=60, content_offset=60)
        add_task(conn, size=50, status="cancelled")
        ledger = [span(task, 1, 0, 20, row_count=3), span(task, 2, 20, 60, row_count=4, quarantined_count=1)]
        conn.execute(insert(committed_batch), [row | {"quarantined_count": 0} | row for row in ledger])
        lag = run_query(conn, "lag.sql")
        sources = run_query(conn, "sources.sql")
        sizes = run_query(conn, "commit_sizes.sql")
    assert [(row["path"], row["lag_bytes"], row["percent"]) for row in lag] == [("/a.log", 40, 60)]
    assert [(row["files"], row["lag_bytes"], row["row_count"], row["quarantined_count"]) for row in sources] == [
        (2, 40, 7, 1)
    ]
    assert [(row["commits"], row["row_count"], row["content_bytes"]) for row in sizes] == [(2, 7, 60)]


def test_stuck_tasks_names_failed_retried_and_expired_ones(engine: Engine) -> None:
    """A lease in the past, a failed task and a retried one show; a healthy one does not."""
    with transaction(engine) as conn:
        add_task(conn, path="/expired", status="running", lease_until=datetime(2020, 1, 1, tzinfo=UTC))
        add_task(conn, path="/healthy", status="running", lease_until=datetime(2999, 1, 1, tzinfo=UTC))
        add_task(conn, path="/failed", status="failed", attempt_count=10)
        add_task(conn, path="/retried", status="pending", attempt_count=2)
        paths = [row["path"] for row in run_query(conn, "stuck_tasks.sql")]
    assert paths == ["/failed", "/retried", "/expired"]


def test_quarantine_by_reason_counts_open_records(engine: Engine) -> None:
    """Two open records of one reason are one row; a retried one does not count."""
    with transaction(engine) as conn:
        for offset, state in ((0, "open"), (10, "open"), (20, "retried")):
            conn.execute(
                insert(quarantined_item).values(
                    task_id=1,
                    source_key="app",
                    start_offset=offset,
                    length=10,
                    line=1,
                    raw=b"\x00\xff",
                    reason="ragged",
                    message="5 fields instead of 4",
                    parser_json={},
                    state=state,
                )
            )
        rows = run_query(conn, "quarantine_by_reason.sql")
    assert [(row["source_key"], row["reason"], row["records"], row["files"]) for row in rows] == [
        ("app", "ragged", 2, 1)
    ]
