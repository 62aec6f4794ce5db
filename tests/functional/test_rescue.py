"""Second tries and ways back: one bad record or one busy worker spoils nothing else."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.program import Program, aged

PATIENCE_S = 60.0


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program in an empty directory."""
    return Program(tmp_path)


def wait_until(happened: Callable[[], bool]) -> None:
    """Wait for a condition; fail after some patience."""
    until = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.05)


def with_two_refused_records(program: Program) -> None:
    """Leave in quarantine a record (1) that a rule of the table refused, and one (2) whose key is taken."""
    aged(program.write("drop/orders-1.csv", "id,code\n1,x\n"))
    call = ("backfill", "drop", "--db", "o.db", "--key", "id", "--set", 'on_conflict="quarantine"')
    assert program(*call).code == 0
    program.sql("o.db", "CREATE UNIQUE INDEX one_code ON orders (code)")
    aged(program.write("drop/orders-2.csv", "id,code\n1,y\n2,x\n3,z\n"))
    assert program(*call).code == 1
    reasons = program.sql("o.db", "SELECT id, reason FROM quarantined_item ORDER BY id")
    assert reasons == [(1, "database"), (2, "key_conflict")]
    program.sql("o.db", "DROP INDEX one_code")


def test_one_bad_record_does_not_end_a_retry(program: Program) -> None:
    """It stays open with its reason told; the others go in; the exit code says that something is left."""
    with_two_refused_records(program)

    ended = program("quarantine", "retry", "--all", "--db", "o.db")

    assert ended.code == 1
    path = program.directory / "drop/orders-2.csv"
    assert ended.out == f"2 {path}:2: a record with this key is there already\n1 retried, 1 still bad\n"
    assert program.sql("o.db", "SELECT id, state FROM quarantined_item ORDER BY id") == [(1, "retried"), (2, "open")]
    assert program.sql("o.db", "SELECT id, code FROM orders ORDER BY id") == [(1, "x"), (2, "x"), (3, "z")]
    assert program.sql("o.db", "SELECT count(*) FROM file_event WHERE kind = 'retried'") == [(1,)]


def test_a_retry_that_fails_at_its_end_leaves_that_record_open(program: Program) -> None:
    """Its transaction rolls back: state, row and event."""
    with_two_refused_records(program)

    ended = program("quarantine", "retry", "1", "--db", "o.db", failpoints="before_rescue=error")

    assert (ended.code, ended.out.splitlines()[-1]) == (1, "0 retried, 1 still bad")
    assert program.sql("o.db", "SELECT state FROM quarantined_item WHERE id = 1") == [("open",)]
    assert program.sql("o.db", "SELECT id FROM orders ORDER BY id") == [(1,), (3,)]
    assert program.sql("o.db", "SELECT count(*) FROM file_event WHERE kind = 'retried'") == [(0,)]


@pytest.mark.parametrize("settings", [(), ("--set", 'null=["x"]')])
def test_a_replay_touches_nothing_while_a_worker_reads_a_file_of_the_source(
    settings: tuple[str, ...], program: Program
) -> None:
    """It names the worker; once that is dead, which can be proven, it goes ahead at once."""
    aged(program.write("drop/orders-1.csv", "id,code\n1,x\n2,y\n"))
    assert program("backfill", "drop", "--db", "o.db").code == 0
    aged(program.write("drop/orders-2.csv", "id,code\n3,x\n4,y\n"))
    running = program.start("backfill", "drop", "--db", "o.db", "--workers", "1", failpoints="after_fetch=pause:500")
    try:
        wait_until(lambda: program.sql("o.db", "SELECT 1 FROM collection_task WHERE status = 'running'") != [])
        before = program.sql("o.db", "SELECT id, content_offset, version FROM collection_task ORDER BY id")

        refused = program("replay", "orders", "--db", "o.db", *settings)

        assert refused.code == 2
        assert f"(process {running.pid} on " in refused.err
        assert str(program.directory / "drop/orders-2.csv") in refused.err
        after = program.sql("o.db", "SELECT id, content_offset, version FROM collection_task ORDER BY id")
        assert after == before
        assert program.sql("o.db", "SELECT count(*) FROM orders") == [(2,)]
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait(PATIENCE_S)

    assert program("replay", "orders", "--db", "o.db", *settings).code == 0
    assert program.sql("o.db", "SELECT count(*) FROM orders") == [(0,)]
    assert program("backfill", "drop", "--db", "o.db").code == 0
    assert program.sql("o.db", "SELECT id FROM orders ORDER BY id") == [(1,), (2,), (3,), (4,)]
