"""Backfills into a real PostgreSQL: what users do, and what servers do to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import psycopg
import pytest

from tests.program import Program, aged

ROWS = 30_000


@pytest.fixture
def program(postgres_url: str, tmp_path: Path) -> Program:
    """The program in an empty directory, with an empty PostgreSQL database."""
    return Program(tmp_path, postgres_url)


def exports(program: Program, files: int, rows: int = ROWS) -> None:
    """Write exports with ids 0, 1, ... over all files; about 90 bytes a row."""
    for number in range(files):
        lines = [f"{n},{'x' * 60},{n % 97}.50,2026-11-01T00:00:00Z" for n in range(number * rows, (number + 1) * rows)]
        aged(program.write(f"drop/orders-{number}.csv", "id,text,amount,at\n" + "\n".join(lines) + "\n"))


def is_exact(program: Program, files: int, rows: int = ROWS) -> None:
    """Fail unless every row is there once, and every invariant holds."""
    total = files * rows
    assert program.ask("SELECT count(*), count(DISTINCT id), sum(id) FROM orders") == [
        (total, total, total * (total - 1) // 2)
    ]
    program.check()


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and not yet lost."""
    try:
        listed = [path.read_text().split() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(one) for some in listed for one in some]


class Running:
    """A backfill that runs while the test does things to it; it does not outlive the test."""

    started: ClassVar[list[subprocess.Popen[str]]] = []

    def __init__(self, program: Program, *words: str) -> None:
        command = [sys.executable, "-m", "filecollect", "backfill", "drop", "--db", program.database, *words]
        self.process = subprocess.Popen(
            command,
            cwd=program.directory,
            env=program.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(self.process)

    def workers(self) -> list[int]:
        """Return the processes that do the work: children of the command's fork server."""
        return [one for below in children(self.process.pid) for one in children(below)]

    def end(self) -> str:
        """Wait for its end, which must be good; return what it said."""
        said, _ = self.process.communicate(timeout=100)
        assert self.process.returncode == 0, said
        return said


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    for process in Running.started:
        process.kill()
        process.communicate()
    Running.started.clear()


def until(program: Program, query: str, running: Running) -> bool:
    """Wait until a query returns a true value; False when the backfill has ended before."""
    deadline = time.monotonic() + 60
    while running.process.poll() is None:
        try:
            if program.ask(query)[0][0]:
                return True
        except (psycopg.Error, IndexError):
            pass
        assert time.monotonic() < deadline, query
        time.sleep(0.02)
    return False


COMMITS = "SELECT count(*) > {} FROM committed_batch"


def test_terminated_backends_cost_nothing(program: Program) -> None:
    """All connections are cut again and again, around COMMIT too: the backfill goes on and is exact."""
    exports(program, 4)
    running = Running(program, "--workers", "2", "--batch-rows", "2000")
    cuts = 0
    assert until(program, COMMITS.format(1), running)
    while running.process.poll() is None and cuts < 12:
        killed = program.ask(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid != pg_backend_pid()"
        )[0][0]
        cuts += killed > 0
        commits = program.ask("SELECT count(*) FROM committed_batch")[0][0]
        until(program, COMMITS.format(commits), running)
    running.end()
    assert cuts >= 3
    is_exact(program, 4)
    assert program.ask("SELECT DISTINCT status FROM collection_task") == [("succeeded",)]
    assert program.ask("SELECT count(*) FROM file_event WHERE kind = 'fenced'") == [(0,)]


def test_a_server_that_restarts_is_waited_for(program: Program, postgres_restart: Callable[[], None]) -> None:
    """An immediate restart in the middle: the backfill resumes by itself."""
    exports(program, 4)
    running = Running(program, "--workers", "2", "--batch-rows", "2000")
    assert until(program, COMMITS.format(3), running)
    postgres_restart()
    running.end()
    is_exact(program, 4)


def test_killed_workers_are_replaced(program: Program) -> None:
    """SIGKILL hits workers at any moment; their tasks are taken over at once, rows are exact."""
    exports(program, 6)
    running = Running(program, "--workers", "3", "--batch-rows", "1000")
    kills = 0
    for commits in (2, 10, 30):
        if until(program, COMMITS.format(commits), running):
            workers = running.workers()
            if workers:
                os.kill(workers[commits % len(workers)], signal.SIGKILL)
                kills += 1
    running.end()
    assert kills >= 2
    is_exact(program, 6)
    assert program.ask("SELECT count(*) > 0 FROM file_event WHERE kind = 'takeover'") == [(True,)]


def test_a_worker_that_sleeps_past_its_lease_is_refused_when_it_wakes(program: Program) -> None:
    """SIGSTOP, takeover, SIGCONT: the stale commit is refused, counted and told; rows are exact."""
    program.write("filecollect.toml", "[worker]\nlease_s = 2\nheartbeat_s = 0.5\n")
    exports(program, 4, 60_000)
    running = Running(program, "--workers", "2", "--batch-rows", "500")
    assert until(program, COMMITS.format(4), running)
    ((sleeper,),) = program.ask(
        "SELECT pid FROM worker JOIN collection_task USING (owner_id) WHERE status = 'running' LIMIT 1"
    )
    os.kill(sleeper, signal.SIGSTOP)
    try:
        assert until(program, "SELECT count(*) > 0 FROM file_event WHERE kind = 'takeover'", running)
    finally:
        os.kill(sleeper, signal.SIGCONT)
    running.end()
    is_exact(program, 4, 60_000)
    assert program.ask("SELECT count(*) > 0 FROM file_event WHERE kind = 'fenced'") == [(True,)]


def test_a_full_disk_is_waited_for(program: Program) -> None:
    """The server says that its disk is full; when there is room again the backfill goes on."""
    exports(program, 1)
    assert program("backfill", "drop", "--db", program.database).code == 0
    program.ask(
        "CREATE FUNCTION disk_full() RETURNS trigger AS $$ "
        "BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$ LANGUAGE plpgsql"
    )
    program.ask("CREATE TRIGGER full_disk BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION disk_full()")
    more = "".join(f"{n},x,1.50,2026-11-01T00:00:00Z\n" for n in range(ROWS, ROWS + 10))
    with (program.directory / "drop/orders-0.csv").open("a") as file:
        file.write(more)

    running = Running(program)
    stopped = threading.Event()
    assert until(program, "SELECT count(*) > 0 FROM collection_task WHERE status = 'running'", running)
    stopped.wait(0.5)
    assert running.process.poll() is None
    program.ask("DROP TRIGGER full_disk ON orders")

    running.end()
    assert program.ask("SELECT count(*), count(DISTINCT id) FROM orders") == [(ROWS + 10, ROWS + 10)]
    assert program.ask("SELECT count(*) FROM quarantined_item") == [(0,)]
    program.check()


def test_a_key_updates_rows_and_a_replaced_drop_replaces_them(program: Program) -> None:
    """The two ways in which a new export changes what is there."""
    aged(program.write("drop/people.csv", "id,name\n1,a\n2,b\n"), 200)
    assert program("backfill", "drop/people.csv", "--db", program.database, "--key", "id").code == 0
    aged(program.write("drop/people.csv", "id,name\n2,B\n3,C\n"), 100)
    assert program("backfill", "drop/people.csv", "--db", program.database).code == 0
    assert program.ask("SELECT id, name FROM people ORDER BY id") == [(1, "a"), (2, "B"), (3, "C")]

    aged(program.write("drop/sales.csv", "id,name\n1,a\n2,b\n"), 200)
    assert program("backfill", "drop/sales.csv", "--db", program.database).code == 0
    aged(program.write("drop/sales.csv", "id,name\n7,other\n"), 100)
    assert program("backfill", "drop/sales.csv", "--db", program.database).code == 0
    assert program.ask("SELECT id, name FROM sales") == [(7, "other")]
    assert program.ask("SELECT count(*) FROM file_event WHERE kind = 'superseded'") == [(1,)]


def test_quarantine_retry_replay_trace_and_status(program: Program) -> None:
    """The commands that follow a backfill say and do the same as on SQLite."""
    config = '[source.orders]\npaths = ["drop/*.csv"]\nfollow = false\ncolumns = { n = "integer" }\n'
    program.write("filecollect.toml", f'database = "{program.database}"\n{config}')
    aged(program.write("drop/a.csv", "n,name\n1,one\nx,two\n3,three\n"))
    assert program("backfill").code == 1
    assert program.ask("SELECT n FROM orders ORDER BY n") == [(1,), (3,)]
    assert program.ask("SELECT reason, raw FROM quarantined_item") == [("misfit", b"x,two\n")]
    assert program("quarantine", "retry", "--all").code == 1

    traced = program("trace", "orders", "--where", "n = 3", "--json").json["rows"]
    assert [(row["line"], row["raw"]) for row in traced] == [(4, "3,three")]
    (source,) = program("status", "--json").json["sources"]
    assert (source["rows"], source["quarantined"], source["tasks"]) == (2, 1, {"succeeded": 1})

    assert program("replay", "orders").code == 0
    assert program.ask("SELECT count(*) FROM orders") == [(0,)]
    assert program("backfill").code == 1
    assert program.ask("SELECT n FROM orders ORDER BY n") == [(1,), (3,)]


def test_nul_anywhere_costs_no_more_than_its_record(program: Program) -> None:
    """In a header it is kept where names are remembered; in a tree the column keeps text; in a text it is refused."""
    aged(program.write("drop/head.csv", "id,na\0me\n1,a\n"))
    aged(program.write("drop/tree.jsonl", '{"id":1,"t":{"a":"x\\u0000y"}}\n{"id":2,"t":{"n":1.10}}\n'))
    aged(program.write("drop/text.csv", "id,v\n1,a\n2,b\0c\n3,d\n"))
    words = ("backfill", "drop", "--db", program.database)

    assert program(*words).code == 1
    assert program(*words).code == 0

    assert program.ask("SELECT id, na_me FROM head") == [(1, "a")]
    assert program.ask("SELECT id, t::text FROM tree ORDER BY id") == [(1, '{"a":"x\\u0000y"}'), (2, '{"n":1.10}')]
    assert program.ask("SELECT id FROM text ORDER BY id") == [(1,), (3,)]
    assert program.ask("SELECT raw FROM quarantined_item") == [(b"2,b\0c\n",)]


def test_retried_records_become_rows(program: Program) -> None:
    """A record that the table refused is put in when the table takes it."""
    aged(program.write("drop/orders.csv", "id,name\n1,short\n2,far too long\n"))
    program.ask("CREATE TABLE orders (id bigint, name varchar(5))")
    words = ("backfill", "drop", "--db", program.database, "--table", "orders", "--alter")
    assert program(*words).code == 1
    assert program.ask("SELECT id FROM orders") == [(1,)]
    assert program("quarantine", "retry", "--all", "--db", program.database).code != 0
    program.ask("ALTER TABLE orders ALTER COLUMN name TYPE text")
    assert program("quarantine", "retry", "--all", "--db", program.database).code == 0
    assert program.ask("SELECT id, name FROM orders ORDER BY id") == [(1, "short"), (2, "far too long")]


def test_everything_lives_in_the_schema_of_the_config(postgres_url: str, tmp_path: Path) -> None:
    """`schema` is for our tables and for those that name none; `schema.orders` says its own."""
    program = Program(tmp_path, postgres_url, schema="log data")
    program.write(
        "filecollect.toml",
        f'database = "{postgres_url}"\nschema = "log data"\n'
        '[source.a]\npaths = ["a.csv"]\nfollow = false\n'
        '[source.b]\npaths = ["b.csv"]\nfollow = false\ntable = "sales.orders"\nkey = ["id"]\n',
    )
    with psycopg.connect(postgres_url, autocommit=True) as conn:
        conn.execute("CREATE TABLE a (not_ours int)")
    aged(program.write("a.csv", "id,v\n1,x\n"))
    aged(program.write("b.csv", "id,v\n1,x\n2,y\n"))

    assert program("backfill").code == 0
    assert program("backfill", "--workers", "2").code == 0

    with psycopg.connect(postgres_url) as conn:
        found = conn.execute("SELECT schemaname, tablename FROM pg_tables WHERE tableowner = current_user").fetchall()
        assert conn.execute("SELECT count(*) FROM a").fetchone() == (0,)
    ours = {name for schema, name in found if schema == "log data"}
    assert {"a", "collection_task", "worker", "filecollect_version"} <= ours
    assert ("sales", "orders") in found
    assert {name for schema, name in found if schema == "public"} == {"a"}
    assert program.ask("SELECT count(*) FROM sales.orders") == [(2,)]
    (a, b) = program("status", "--json").json["sources"]
    assert (a["rows"], b["table"], b["rows"]) == (1, "sales.orders", 2)
    assert program("trace", "sales.orders", "--where", "id = 2", "--json").json["rows"][0]["line"] == 3


def test_tasks_carry_their_host(program: Program) -> None:
    """The config's name, else the environment's, else the machine's."""
    aged(program.write("drop/a.csv", "id\n1\n"))
    words = ("backfill", "drop", "--db", program.database)
    assert program(*words, env={"FILECOLLECT_HOST": "web-1"}).code == 0
    assert program.ask("SELECT host FROM collection_task") == [("web-1",)]
    assert program.ask("SELECT DISTINCT host FROM worker") == [("web-1",)]


def test_the_same_path_on_two_hosts_is_two_files(program: Program) -> None:
    """Each host's file has its own task and its own rows in the one table."""
    aged(program.write("drop/a.csv", "id\n1\n"), 200)
    words = ("backfill", "drop", "--db", program.database)
    assert program(*words, env={"FILECOLLECT_HOST": "one"}).code == 0
    aged(program.write("drop/a.csv", "id\n2\n3\n"), 100)
    assert program(*words, env={"FILECOLLECT_HOST": "two"}).code == 0
    assert program.ask("SELECT host, status FROM collection_task ORDER BY id") == [
        ("one", "succeeded"),
        ("two", "succeeded"),
    ]
    assert program.ask("SELECT id FROM a ORDER BY id") == [(1,), (2,), (3,)]


@pytest.fixture
def no_machine_id() -> list[str]:
    """Return a command before which /etc/machine-id is empty, where that can be arranged."""
    wrapper = ["unshare", "--mount", "--fork", "sh", "-c", 'mount --bind /dev/null /etc/machine-id && exec "$@"', "sh"]
    if os.geteuid() or subprocess.run([*wrapper, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root and mount namespaces")
    return wrapper


def test_a_host_without_a_name_is_refused_in_one_sentence(program: Program, no_machine_id: list[str]) -> None:
    """A container has to say who it is, on a database that others share; nothing is touched."""
    aged(program.write("drop/a.csv", "id\n1\n"))
    done = subprocess.run(
        [*no_machine_id, sys.executable, "-m", "filecollect", "backfill", "drop", "--db", program.database],
        cwd=program.directory,
        env=program.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "FILECOLLECT_HOST" in done.stderr
    assert program.ask("SELECT to_regclass('collection_task')") == [(None,)]
