"""A backfill that is asked to stop, or whose disk is full, keeps what stands; the next run completes it."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.daemon import PATIENCE_S, wait_until
from tests.invariants import check
from tests.program import Program, aged

ROWS = 5000
BIG_ENOUGH_FOR_TWO_PROCESSES = "x" * 900


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program in an empty directory."""
    return Program(tmp_path)


def two_files(program: Program) -> None:
    """Write two files of 5,000 records and 4.6 MB each."""
    for number, directory in enumerate("ab"):
        ids = range(number * ROWS, (number + 1) * ROWS)
        lines = (f'{{"id":{n},"text":"{BIG_ENOUGH_FOR_TWO_PROCESSES}"}}\n' for n in ids)
        aged(program.write(f"{directory}/app.jsonl", "".join(lines)))


def rows(program: Program) -> int:
    """Return how many rows stand, while others write."""
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(program.directory / "o.db", timeout=30)) as conn:
        return int(conn.execute("SELECT count(*) FROM app").fetchone()[0])
    return 0


def stop_in_the_middle(program: Program, workers: str, number: signal.Signals, *, group: bool) -> int:
    """Start a backfill, send a signal when two batches stand, return the exit code."""
    running = program.start(
        *("backfill", "a", "b", "--db", "o.db", "--batch-rows", "100", "--workers", workers),
        failpoints="after_commit@2=pause:1",
    )
    try:
        wait_until(lambda: rows(program) >= 200, what="the second batch")
        (os.killpg if group else os.kill)(running.pid, number)
        return running.wait(PATIENCE_S)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(
    ("number", "group", "code"),
    [(signal.SIGINT, True, 130), (signal.SIGINT, False, 130), (signal.SIGTERM, False, 143)],
)
def test_a_signal_in_the_middle_stops_at_a_batch_boundary(
    program: Program, workers: str, number: signal.Signals, group: bool, code: int
) -> None:
    """130 or 143, checkpoints kept, nothing marked succeeded; the next run reads exactly the rest."""
    two_files(program)

    assert stop_in_the_middle(program, workers, number, group=group) == code
    said = (program.directory / "started.txt").read_text()
    assert "Traceback" not in said

    check(program.directory / "o.db")
    stood = rows(program)
    assert 200 <= stood < 2 * ROWS
    assert stood % 100 == 0
    tasks = program.sql("o.db", "SELECT status, owner_id, lease_until FROM collection_task")
    assert tasks == [("pending", None, None)] * 2
    ledger = program.sql("o.db", "SELECT sum(row_count) FROM committed_batch")
    assert ledger == [(stood,)]
    assert sorted(path.name for path in program.directory.glob("o.db*")) == ["o.db"]

    rest = program("backfill", "a", "b", "--db", "o.db", "--json")

    assert rest.code == 0, rest.err
    assert rest.json["rows"]["inserted"] == 2 * ROWS - stood
    assert program.sql("o.db", "SELECT count(*), sum(id) FROM app") == [(2 * ROWS, ROWS * (2 * ROWS - 1))]
    assert program.sql("o.db", "SELECT DISTINCT status FROM collection_task") == [("succeeded",)]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_second_interrupt_ends_the_command_and_its_workers_at_once(program: Program, workers: str) -> None:
    """Even while a batch stands still; what was committed stays, and the next run need not wait for a lease."""
    two_files(program)
    running = program.start(
        *("backfill", "a", "b", "--db", "o.db", "--batch-rows", "100", "--workers", workers),
        failpoints="after_commit@2=pause:500",
    )
    try:
        wait_until(lambda: rows(program) >= 200, what="the second batch")
        started = time.monotonic()
        while running.poll() is None:
            assert time.monotonic() - started < PATIENCE_S
            os.killpg(running.pid, signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                running.wait(0.2)
        assert running.returncode == 130
        wait_until(lambda: not alive(running.pid), what="the workers' end")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)

    check(program.directory / "o.db")
    rest = program("backfill", "a", "b", "--db", "o.db")

    assert rest.code == 0, rest.err
    assert program.sql("o.db", "SELECT count(*), sum(id) FROM app") == [(2 * ROWS, ROWS * (2 * ROWS - 1))]


def alive(group: int) -> bool:
    """Return whether a process of a group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


CONFIG = """database = "{database}"
[worker]
database_patience_s = 0.3
[source.app]
paths = ["a/app.jsonl"]
batch_rows = 100
"""


def resumes_with_room(program: Program, database: str) -> None:
    """The rows that stood agree with the checkpoint; the next run brings the rest."""
    check(program.directory / database)
    stood = program.sql(database, "SELECT count(*) FROM app")[0][0]
    assert 0 < stood < ROWS
    assert program.sql(database, "SELECT sum(row_count) FROM committed_batch") == [(stood,)]


def test_a_database_that_may_not_grow_ends_the_run_with_3_and_the_next_one_resumes(program: Program) -> None:
    """A file-size limit stands for a full disk."""
    two_files(program)
    program.write("filecollect.toml", CONFIG.format(database="o.db"))

    done = subprocess.run(
        [sys.executable, "-m", "filecollect", "backfill", "--workers", "1"],
        cwd=program.directory,
        env=program.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000)),
    )

    assert done.returncode == 3, done.stderr
    assert "Traceback" not in done.stderr
    resumes_with_room(program, "o.db")
    assert program("backfill").code == 0
    assert program.sql("o.db", "SELECT count(*), sum(id) FROM app") == [(ROWS, ROWS * (ROWS - 1) // 2)]


@pytest.fixture
def small_disk(program: Program) -> Iterator[Path]:
    """A file system of 2 MB."""
    place = program.directory / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if os.geteuid() or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("mounting needs more rights than there are here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_ends_the_run_with_3_and_with_room_the_next_one_resumes(program: Program, small_disk: Path) -> None:
    """The sentence says what to do; nothing is lost or doubled."""
    two_files(program)
    program.write("filecollect.toml", CONFIG.format(database="disk/o.db"))

    done = program.run("backfill", "--workers", "1")

    assert done.code == 3, done.err
    assert "free some space on its disk" in done.err
    resumes_with_room(program, "disk/o.db")
    subprocess.run(["mount", "-o", "remount,size=40m", str(small_disk)], check=True)
    assert program.run("backfill").code == 0
    check(small_disk / "o.db")
    assert program.sql("disk/o.db", "SELECT count(*), sum(id) FROM app") == [(ROWS, ROWS * (ROWS - 1) // 2)]
