"""Stopping work and letting it go on, as an operator does: `tasks` and `sources` pause, resume, cancel, retry."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import Daemon, daemon, wait_until
from tests.program import Program, aged

ROWS = 4000


@pytest.fixture
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    """The program in an empty directory, with an empty database."""
    served = getattr(request, "param", "sqlite") == "postgresql"
    return Program(tmp_path, request.getfixturevalue("postgres_url") if served else "o.db")


on_both = pytest.mark.parametrize("program", ["sqlite", "postgresql"], indirect=True)
on_postgresql = pytest.mark.parametrize("program", ["postgresql"], indirect=True)


def export(program: Program, name: str = "orders") -> None:
    """Write an export with ids 0, 1, ..."""
    aged(program.write(f"{name}.csv", "id,text\n" + "".join(f"{n},{'x' * 40}\n" for n in range(ROWS))))


def stopped_by(program: Program, *verb: str) -> tuple[int, str]:
    """Run a verb while a backfill sleeps between two commits; return its exit code and what it said."""
    words = ("backfill", "orders.csv", "--db", program.database, "--batch-rows", "500", "--workers", "1")
    running = program.start(*words, failpoints="after_commit@3=pause:8")
    try:
        wait_until(lambda: program.databases() and committed(program) >= 3)
        began = time.monotonic()
        assert program.run(*verb, "--db", program.database).code == 0
        assert time.monotonic() - began < 7, "the backfill had woken before"
        code = running.wait(60)
    finally:
        running.kill()
        running.wait()
    return code, (program.directory / "started.txt").read_text()


def committed(program: Program) -> int:
    """Return how many batches are committed, 0 before there are tables."""
    there = {
        True: "SELECT count(*) FROM pg_tables WHERE tablename = 'committed_batch'",
        False: "SELECT count(*) FROM sqlite_master WHERE name = 'committed_batch'",
    }
    if not program.ask(there[program.is_served])[0][0]:
        return 0
    return int(program.ask("SELECT count(*) FROM committed_batch")[0][0])


def is_whole(program: Program) -> None:
    """Fail unless every row is there once."""
    assert program.ask("SELECT count(*), count(DISTINCT id), sum(id) FROM orders") == [
        (ROWS, ROWS, ROWS * (ROWS - 1) // 2)
    ]


@on_both
def test_a_paused_task_stops_at_a_batch_boundary_and_goes_on_where_it_stopped(program: Program) -> None:
    """The stale commit is refused, the checkpoint stays, rounds leave the file behind until it is resumed."""
    export(program)
    code, said = stopped_by(program, "tasks", "pause", "orders.csv")

    assert code == 1, said
    assert "task 1 is paused; `filecollect tasks resume 1` lets it go on" in said
    program.check()
    assert program.ask("SELECT count(*) FROM orders") == [(1500,)]
    assert program.ask("SELECT status, version, owner_id FROM collection_task") == [("paused", 2, None)]
    assert program.ask("SELECT count(*) FROM file_event WHERE kind = 'fenced'") == [(1,)]

    words = ("backfill", "orders.csv", "--db", program.database)
    left = program(*words, "--json")
    assert left.code == 1
    assert [(one["outcome"], one["reason"]) for one in left.json["files"]] == [("failed", "paused")]

    done = program("tasks", "resume", "1", "--db", program.database, "--json").json
    assert done["command"] == "tasks resume"
    assert done["tasks"] == [
        {
            "id": 1,
            "source": "orders",
            "path": str(program.directory / "orders.csv"),
            "from": "paused",
            "to": "pending",
        }
    ]
    assert program(*words).code == 0
    is_whole(program)
    assert program.ask("SELECT kind FROM file_event WHERE kind IN ('paused', 'resumed') ORDER BY id") == [
        ("paused",),
        ("resumed",),
    ]


def test_a_cancelled_task_is_not_made_again_until_it_is_retried(program: Program) -> None:
    """Never marked as succeeded; its rows stay; rounds pass it over without complaint; a retry reads the rest."""
    export(program)
    code, said = stopped_by(program, "tasks", "cancel", "--source", "orders")

    assert code == 0, said
    assert program.ask("SELECT status FROM collection_task") == [("cancelled",)]
    assert program.ask("SELECT count(*) FROM orders") == [(1500,)]
    words = ("backfill", "orders.csv", "--db", program.database)
    passed = program(*words, "--json")
    assert (passed.code, passed.json["files"][0]["outcome"], passed.json["files"][0]["reason"]) == (
        0,
        "skipped",
        "cancelled",
    )
    assert program(*words, "--strict").code == 1

    assert program("tasks", "retry", "1", "--db", program.database).out.startswith("1 ")
    assert program(*words).code == 0
    is_whole(program)
    assert program.ask("SELECT count(*) FROM collection_task") == [(1,)]


@on_postgresql
def test_a_paused_source_is_left_behind_by_name(program: Program) -> None:
    """Its running task is stopped, its files are neither looked at nor read; another source goes on."""
    export(program)
    export(program, "people")
    code, said = stopped_by(program, "sources", "pause", "orders", "--reason", "moving house")

    assert code == 1, said
    assert "source orders is paused (moving house); `filecollect sources resume orders` lets it go on" in said
    assert program.ask("SELECT count(*) FROM orders") == [(1500,)]
    assert program.ask("SELECT status FROM collection_task") == [("pending",)]
    both = ("backfill", "orders.csv", "people.csv", "--db", program.database)
    again = program(*both, "--json")
    assert again.code == 1
    assert [(one["source"], one["outcome"], one["reason"]) for one in again.json["files"]] == [
        ("orders", "failed", "paused"),
        ("people", "loaded", None),
    ]
    listed = program("sources", "list", "--json", "--db", program.database).json["sources"]
    assert [(one["status"], one["paused_reason"]) for one in listed] == [("paused", "moving house"), ("active", None)]

    assert program("sources", "resume", "orders", "--db", program.database).code == 0
    assert program(*both).code == 0
    is_whole(program)


@on_both
def test_a_renamed_or_copied_file_of_a_cancelled_task(program: Program) -> None:
    """Renamed it is still the one that was given up; a copy under another name is a file of its own."""
    content = "".join(f'{{"id": {n}}}\n' for n in range(50))
    # From the future, so that its last line counts as just being written.
    file = aged(program.write("in/a.jsonl", content + '{"id": '), -3600)
    words = ("backfill", "in", "--table", "rows", "--db", program.database)
    assert program(*words).code == 1
    assert program("tasks", "cancel", "1", "--db", program.database).code == 0
    file.rename(program.directory / "in/b.jsonl")
    assert program(*words).code == 0
    assert program.ask("SELECT id, status FROM collection_task") == [(1, "cancelled")]
    assert program.ask("SELECT path FROM collection_task") == [(str(program.directory / "in/b.jsonl"),)]

    aged(program.write("in/c.jsonl", content + '{"id": 50}\n'))
    assert program(*words).code == 0
    assert program.ask("SELECT id, status FROM collection_task ORDER BY id") == [(1, "cancelled"), (2, "succeeded")]


def test_a_duplicate_is_read_after_all(program: Program) -> None:
    """What was passed over is revived by a retry."""
    for name in ("a", "b"):
        aged(program.write(f"in/{name}.csv", "id,text\n" + "".join(f"{n},{'x' * 20}\n" for n in range(9))))
    words = ("backfill", "in", "--table", "rows", "--db", program.database)
    assert program(*words).code == 0
    assert program.ask("SELECT count(*) FROM rows") == [(9,)]
    assert program("tasks", "retry", "in/b.csv", "--db", program.database).code == 0
    assert program(*words).code == 0
    assert program.ask("SELECT count(*) FROM rows") == [(18,)]
    assert program.ask("SELECT DISTINCT status FROM collection_task") == [("succeeded",)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tasks", "pause"), "say which tasks"),
        (("tasks", "pause", "7"), "no task 7"),
        (("tasks", "cancel", "x.csv"), "no task has the path"),
        (("tasks", "retry", "1"), "expected a task that is cancelled, failed, pending, skipped, it is succeeded"),
        (("tasks", "pause", "1", "--all"), "--all means every task"),
        (("tasks", "resume", "--source", "x"), "no source 'x'"),
        (("sources", "pause", "x"), "no source 'x'"),
        (("sources", "resume"), "Missing argument 'SOURCE'"),
    ],
)
def test_wrong_calls_touch_nothing(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    """One sentence, exit 2, in text and as a document."""
    program = Program(tmp_path)
    aged(program.write("a.csv", "id\n1\n"))
    assert program("backfill", "a.csv", "--db", "o.db").code == 0
    before = program.ask("SELECT * FROM collection_task"), program.ask("SELECT count(*) FROM file_event")
    ended = program(*words, "--db", "o.db")
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert said in program(*words, "--db", "o.db", "--json").json["error"]["message"]
    assert (program.ask("SELECT * FROM collection_task"), program.ask("SELECT count(*) FROM file_event")) == before


# -- beside the daemon -----------------------------------------------------------------------------


@pytest.fixture
def tail(noun: str, tmp_path: Path) -> Iterator[Daemon]:
    """A running daemon that has collected ten lines."""
    with daemon(tmp_path, workers=2 if noun == "sources" else 1) as one:
        one.config('[source.app]\npaths = ["app.log"]\nformat = "lines"\n')
        append(tmp_path, 0, 10)
        one.start()
        one.wait_for("app", 10)
        yield one


def append(directory: Path, first: int, last: int) -> None:
    """Append numbered lines."""
    with (directory / "app.log").open("a") as file:
        file.writelines(f"line {number}\n" for number in range(first, last))


@pytest.mark.parametrize("noun", ["tasks", "sources"])
def test_a_running_daemon_lets_go_and_goes_on(tail: Daemon, tmp_path: Path, noun: str) -> None:
    """Lines written meanwhile are refused by the fence and come after the resume, each once."""
    which = "app.log" if noun == "tasks" else "app"
    program = Program(tmp_path)
    assert program.run(noun, "pause", which, "--db", "o.db").code == 0
    append(tmp_path, 10, 20)
    wait_until(lambda: "app.log: the lease is over" in tail.said())
    assert tail.count("app") == 10
    assert program.run(noun, "resume", which, "--db", "o.db").code == 0
    tail.wait_for("app", 20)
    append(tmp_path, 20, 30)
    tail.wait_for("app", 30)
    tail.stop()
    assert tail.sql("SELECT count(*), count(DISTINCT line) FROM app") == [(30, 30)]
