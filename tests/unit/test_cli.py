"""The command line: what it says, what it exits with, and that looking changes nothing."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
import xxhash
from click.testing import CliRunner

from filecollect.cli import main as entry
from filecollect.cli.main import COMMANDS, GROUPS, program
from filecollect.cli.render import aligned, cell, harmless, human_size, human_time
from filecollect.domain.columns import Column
from filecollect.errors import ConfigError, DatabaseUnavailable, FilecollectError, UsageError
from filecollect.parse.spec import Spec
from filecollect.store.engine import close, open_engine, transaction
from filecollect.store.migrate import upgrade
from filecollect.store.schema import (
    collection_source,
    collection_task,
    committed_batch,
    file_event,
    outbox_message,
    quarantined_item,
    worker,
)
from filecollect.store.types import DatabaseNow

REPOSITORY = Path(__file__).resolve().parents[2]
CONTENT = b'id,note\n1,plain\n2,"two\nlines"\n3,last\n'
#          0       8       16            30      37
POSITION = {
    "v": 1,
    "offset": 37,
    "records": 3,
    "lines": 5,
    "codec": "plain",
    "block": None,
    "guard": {"length": 0, "digest": ""},
    "raw_guard": None,
    "open_record": None,
    "parser": {"format": "csv", "encoding": "utf-8", "dialect": None, "header": ["id", "note"]},
    "digest": {"blocks": 0, "chain": ""},
}


def digest(data: bytes) -> str:
    """Return the ledger's digest of a span."""
    return xxhash.xxh3_128_hexdigest(data)


def task_row(task_id: int, path: str, **more: Any) -> dict[str, Any]:
    """Return a finished task of source `orders`."""
    return {
        "id": task_id,
        "generation": f"{task_id:032x}",
        "source_key": "orders",
        "status": "succeeded",
        "path": path,
        "content_offset": 37,
        "raw_offset": 37,
        "size": 37,
        "checkpoint_json": POSITION,
        **more,
    }


def batch_row(task_id: int, seq: int, start: int, end: int, start_line: int, rows: int, **more: Any) -> dict[str, Any]:
    """Return a ledger row."""
    return {
        "task_id": task_id,
        "seq": seq,
        "start_offset": start,
        "end_offset": end,
        "start_line": start_line,
        "row_count": rows,
        "digest": digest(CONTENT[start:end]),
        "owner_id": "w1",
        "version": 1,
        **more,
    }


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with `orders.csv` and a database `o.db` in which it and other files are known.

    Task 1 is orders.csv, loaded in two batches (1 row; 2 rows and 1 skipped). Task 2 was superseded.
    Task 3 has failed with 60 of 100 bytes unread. Two records are in quarantine, one of them discarded.
    """
    for name in ("FILECOLLECT_DB", "FILECOLLECT_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.csv").write_bytes(CONTENT)
    engine = open_engine(str(tmp_path / "o.db"), create=True, checkpointer=True)
    upgrade(engine)
    item = {"source_key": "orders", "length": 4, "reason": "bad_csv", "message": "2 fields, expected 3"}
    with transaction(engine) as conn:
        conn.execute(
            collection_source.insert(),
            {
                "source_key": "orders",
                "table_name": "orders",
                "format": "csv",
                "config_json": {
                    "settings": {"paths": ["."]},
                    "spec": Spec("csv", delimiter=",", header=True).to_json(),
                    "inferred": True,
                },
                "columns_json": [
                    Column("id", "id", "integer").to_json(),
                    Column("note", "note", "text").to_json(),
                ],
            },
        )
        for row in (
            task_row(1, f"{tmp_path}/orders.csv"),
            task_row(2, f"{tmp_path}/old.csv", status="skipped", last_error="superseded by task 1"),
            task_row(
                3, f"{tmp_path}/sub/bad.csv", status="failed", size=100, raw_offset=40, last_error="no permission"
            ),
        ):
            conn.execute(collection_task.insert(), row)
        for row in (
            batch_row(1, 1, 0, 16, 1, 1, committed_at=DatabaseNow(-7200)),
            batch_row(1, 2, 16, 37, 3, 2, skipped_count=1, committed_at=DatabaseNow(-3600)),
            batch_row(2, 1, 0, 37, 1, 50, committed_at=DatabaseNow(-9000)),
        ):
            conn.execute(committed_batch.insert().values(**row))
        for row in (
            {"path": f"{tmp_path}/old.csv", "kind": "superseded", "task_id": 2, "detail": {"by": 1}, "ago": 7200},
            {"path": f"{tmp_path}/orders.csv", "kind": "truncated", "task_id": 1, "detail": {}, "ago": 60},
            {"path": f"{tmp_path}/orders.csv", "kind": "lost_bytes", "task_id": 1, "detail": {"bytes": 12}, "ago": 60},
        ):
            ago = row.pop("ago")
            conn.execute(file_event.insert().values(source_key="orders", at=DatabaseNow(-float(str(ago))), **row))
        for number, (task_id, raw, state) in enumerate([(3, b"a,b\n", "open"), (3, b"\xff,b\n", "open")]):
            conn.execute(
                quarantined_item.insert(),
                item
                | {"task_id": task_id, "raw": raw, "state": state, "start_offset": 8 + 4 * number, "line": 2 + number}
                | {"parser_json": {}},
            )
        conn.execute(
            quarantined_item.insert(),
            item | {"task_id": 1, "raw": b"x", "state": "discarded", "start_offset": 0, "line": 1, "parser_json": {}},
        )
        conn.exec_driver_sql('CREATE TABLE orders ("id" INTEGER, "note" TEXT, "_task_id" INTEGER, "_offset" INTEGER)')
        conn.exec_driver_sql("INSERT INTO orders VALUES (1,'plain',1,8),(2,'two\nlines',1,16),(3,'last',1,30)")
        conn.exec_driver_sql("CREATE TABLE theirs (a TEXT)")
    close(engine, truncate=True)
    return tmp_path


def call(*words: str) -> str:
    """Run a command in this process and return its standard output; errors are raised."""
    done = CliRunner().invoke(program, list(words), standalone_mode=False)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def said(*words: str) -> Any:
    """Run a command with --json on o.db and return its document."""
    return json.loads(call(*words, "--db", "o.db", "--json"))


def shell(directory: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FILECOLLECT_")}
    return subprocess.run(
        [sys.executable, "-m", "filecollect", *words],
        cwd=directory,
        env=clean | {"PYTHONPATH": str(REPOSITORY)} | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# -- the entry point -----------------------------------------------------------------------------


def test_help_lists_every_command_and_imports_none(tmp_path: Path) -> None:
    """All names with their line of help are there, at the cost of click alone."""
    script = (
        "import sys\n"
        "from filecollect.cli.main import program\n"
        "program.main(['--help'], prog_name='filecollect', standalone_mode=False)\n"
        "heavy = {'sqlalchemy', 'rich', 'pydantic', 'alembic', 'watchdog', 'psutil'}\n"
        "print(sorted(n for n in sys.modules if n.partition('.')[0] in heavy or n.startswith('filecollect.')))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    )
    *text, loaded = done.stdout.splitlines()
    assert loaded == "['filecollect.cli', 'filecollect.cli.main', 'filecollect.errors']"
    for name, (_, line) in COMMANDS.items():
        assert re.search(rf"^  {name} +{re.escape(line)}$", "\n".join(text), re.MULTILINE), name


@pytest.mark.parametrize("group", sorted(GROUPS))
def test_help_of_a_group_lists_its_commands(group: str) -> None:
    """A group is as lazy as the whole."""
    shown = call(group, "-h")
    for name in GROUPS[group]:
        assert f"  {name} " in shown


def test_every_command_is_there_and_has_the_common_options() -> None:
    """No entry of the table leads nowhere, and -c --db --json -v -q -h work everywhere."""
    context = click.Context(program)
    found: dict[str, click.Command | None] = {}
    for name, (place, _) in COMMANDS.items():
        command = program.get_command(context, name)
        if place:
            found[name] = command
        else:
            assert isinstance(command, click.Group)
            found |= {f"{name} {one}": command.get_command(context, one) for one in command.list_commands(context)}
    assert len(found) == 30
    for name, command in found.items():
        assert command is not None, name
        options = {word for parameter in command.get_params(click.Context(command)) for word in parameter.opts}
        assert options >= {"-c", "--config", "--db", "--json", "-v", "-q", "-h", "--help"}, name


def test_version_is_told() -> None:
    """`--version` names program and version."""
    from filecollect import __version__

    assert call("--version") == f"filecollect, version {__version__}\n"


def run_main(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """Run the entry point as the console script does and return the exit code."""
    monkeypatch.setattr(sys, "argv", ["filecollect", *words])
    with pytest.raises(SystemExit) as ended:
        entry.main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    "words", [("nothing",), ("status", "--nothing"), ("tasks", "show"), ("tasks", "list", "--limit", "0")]
)
def test_a_wrong_call_is_exit_2_in_one_sentence_with_a_hint(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """click's own mistakes look like ours."""
    assert run_main(monkeypatch, *words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    first, second = err.splitlines()
    assert first.startswith("filecollect: ")
    assert re.fullmatch(r"hint: filecollect.* -h", second)


def test_a_wrong_call_under_json_is_a_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error has the four fields of the contract, on standard output."""
    assert run_main(monkeypatch, "tasks", "show", "--json") == 2
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == {
        "error": {
            "code": "usage",
            "message": "Missing argument 'ID|PATH'.",
            "path": None,
            "hint": "filecollect tasks show -h",
        }
    }


def test_a_group_without_a_command_shows_its_help(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`filecollect tasks` says what it can do, and is a wrong call."""
    assert run_main(monkeypatch, "tasks") == 2
    assert "Show one task with its ledger." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("problem", "code", "text"),
    [
        (UsageError("no such thing", path="/a", hint="try b"), 2, "filecollect: /a: no such thing\nhint: try b\n"),
        (DatabaseUnavailable("it is away"), 3, "filecollect: it is away\n"),
        (FilecollectError("it failed"), 1, "filecollect: it failed\n"),
        (ConfigError(["a:1: one", "a:2: two"]), 2, "filecollect: a:1: one\nfilecollect: a:2: two\n"),
        (KeyboardInterrupt(), 130, ""),
        (
            ZeroDivisionError("no"),
            1,
            "filecollect: this is a fault in filecollect: ZeroDivisionError: no\n"
            "hint: -v shows where; please report it\n",
        ),
    ],
)
def test_every_error_is_a_sentence_and_an_exit_code(
    problem: BaseException, code: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error's own code, or 130 for Ctrl-C, or 1 for a fault, whose traceback needs -v."""

    def failing(*_: Any, **__: Any) -> None:
        raise problem

    monkeypatch.setattr(program, "main", failing)
    assert run_main(monkeypatch, "status") == code
    assert capsys.readouterr() == ("", text)


def test_a_fault_shows_its_traceback_only_with_v(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-v` is for whoever mends it."""

    def failing(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("no")

    monkeypatch.setattr(program, "main", failing)
    assert run_main(monkeypatch, "status", "-qv") == 1
    assert "Traceback" in capsys.readouterr().err


def test_a_command_exits_with_its_own_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """What click or a command decided is kept."""
    for ending, code in ((click.exceptions.Exit(5), 5), (SystemExit(137), 137)):

        def ended(*_: Any, problem: BaseException = ending, **__: Any) -> None:
            raise problem

        monkeypatch.setattr(program, "main", ended)
        assert run_main(monkeypatch, "status") == code


def test_a_reader_that_goes_away_is_no_error(place: Path) -> None:
    """`| head -0` ends the program quietly."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "filecollect", "events", "--db", "o.db"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_prints_a_script(name: str) -> None:
    """The script asks the program by its variable."""
    assert "_FILECOLLECT_COMPLETE" in call("completion", name)


def test_completing_a_command_imports_none(tmp_path: Path) -> None:
    """The shell is answered from the table."""
    done = shell(tmp_path, _FILECOLLECT_COMPLETE="zsh_complete", COMP_WORDS="filecollect quarantine e", COMP_CWORD="2")
    assert done.stdout.splitlines()[:2] == ["plain", "export"]


# -- looking changes nothing ---------------------------------------------------------------------

LOOKING = [
    ("status",),
    ("sources", "list"),
    ("sources", "show", "orders"),
    ("tasks", "list"),
    ("tasks", "show", "1"),
    ("events",),
    ("trace", "orders"),
    ("quarantine", "list"),
    ("quarantine", "show", "1"),
    ("quarantine", "export"),
    ("db", "current"),
]


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_a_missing_database_is_exit_2_and_not_made(words: tuple[str, ...], place: Path) -> None:
    """One sentence that names the file; no file is left behind."""
    with pytest.raises(UsageError) as refused:
        call(*words, "--db", "none.db")
    assert refused.value.message == f"no database at {place}/none.db"
    assert refused.value.hint == "run `filecollect backfill` first, or name another with --db"
    assert not (place / "none.db").exists()


@pytest.mark.parametrize("words", LOOKING[:-1], ids=" ".join)
def test_another_program_s_database_is_refused_and_stays_as_it_is(words: tuple[str, ...], place: Path) -> None:
    """A mistyped --db puts no table into somebody else's file."""
    with closing(sqlite3.connect("theirs.db")) as conn, conn:
        conn.execute("CREATE TABLE places (url TEXT)")
    before = (place / "theirs.db").read_bytes()
    with pytest.raises(UsageError, match="holds nothing of filecollect"):
        call(*words, "--db", "theirs.db")
    assert (place / "theirs.db").read_bytes() == before


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_looking_leaves_the_database_alone(words: tuple[str, ...], place: Path) -> None:
    """Not a byte changes, no companion file stays."""
    before = (place / "o.db").read_bytes()
    call(*words, "--db", "o.db")
    assert (place / "o.db").read_bytes() == before
    assert sorted(path.name for path in place.glob("o.db*")) == ["o.db"]


def test_a_newer_database_is_refused(place: Path) -> None:
    """What a later program made is not guessed at."""
    with closing(sqlite3.connect("o.db")) as conn, conn:
        conn.execute("UPDATE filecollect_version SET version_num = '9999'")
    with pytest.raises(UsageError, match="schema version 9999"):
        call("status", "--db", "o.db")


def test_the_database_comes_from_the_config_or_the_environment(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--db is not needed where a config or FILECOLLECT_DB names one."""
    monkeypatch.setenv("FILECOLLECT_DB", "o.db")
    assert "orders" in call("sources", "list")
    monkeypatch.delenv("FILECOLLECT_DB")
    (place / "my.toml").write_text('database = "o.db"\n')
    assert "orders" in call("sources", "list", "-c", "my.toml")


# -- status --------------------------------------------------------------------------------------


def test_status_has_the_shape_and_sums_of_the_contract(place: Path) -> None:
    """Rows of the ledger without the superseded generation, raw bytes without skipped files."""
    found = said("status")
    assert set(found) == {"schema", "command", "version", "at", "workers", "sources", "tasks"}
    assert (found["schema"], found["command"], found["workers"]) == (1, "status", [])
    (source,) = found["sources"]
    assert 0 <= source.pop("lag_s") < 60  # task 3 was made just now and has no batch yet
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", source.pop("last_commit_at"))
    assert source == {
        "source": "orders",
        "table": "orders",
        "status": "active",
        "tasks": {"failed": 1, "skipped": 1, "succeeded": 1},
        "bytes": {"done": 77, "total": 137, "lag": 60},
        "rows": 3,
        "quarantined": 2,
        "skipped": 1,
        "lost_bytes": 12,
        "rows_per_s": 0.0,
        "outbox": {"pending": 0, "dead": 0, "oldest_s": None},
        "last_error": "no permission",
    }
    assert [(task["id"], task["status"]) for task in found["tasks"]] == [(3, "failed")]


def test_status_all_shows_settled_tasks_too(place: Path) -> None:
    """Every generation, in id order."""
    assert [task["id"] for task in said("status", "--all")["tasks"]] == [1, 2, 3]


def test_status_counts_what_moves_now(place: Path) -> None:
    """Rows of the last minute, the oldest undelivered message, the workers that hold tasks."""
    engine = open_engine("o.db")
    message = {"source_key": "orders", "task_id": 1, "record_offset": 8, "sink": "hook", "payload": {}}
    with transaction(engine) as conn:
        conn.execute(committed_batch.insert().values(**batch_row(3, 1, 0, 37, 1, 120, committed_at=DatabaseNow(-5))))
        conn.execute(
            outbox_message.insert().values(idempotency_key="a", state="pending", created_at=DatabaseNow(-90), **message)
        )
        conn.execute(outbox_message.insert().values(idempotency_key="b", state="dead", **message))
        for owner in ("w1", "w2"):
            conn.execute(worker.insert().values(owner_id=owner, pid=1, app_version="1"))
        conn.execute(collection_task.insert().values(**task_row(4, "/x", status="running", owner_id="w2")))
    close(engine, truncate=True)
    found = said("status")
    (source,) = found["sources"]
    assert source["rows_per_s"] == 2.0
    assert source["outbox"]["pending"] == source["outbox"]["dead"] == 1
    assert 90 <= source["outbox"]["oldest_s"] < 120
    assert 5 <= source["lag_s"] < 35
    assert [one["owner_id"] for one in found["workers"]] == ["w2"]


def test_status_for_people_names_tasks_and_errors(place: Path) -> None:
    """A table of sources, one of unsettled tasks with whole paths, and what went wrong."""
    shown = call("status", "--db", "o.db")
    assert "1 failed, 1 skipped, 1 succeeded" in shown
    assert "77 B of 137 B" in shown
    assert f"{place}/sub/bad.csv" in shown
    assert "task 3: no permission" in shown
    assert "orders.csv" not in shown


def test_status_of_an_empty_database_says_nothing_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`db upgrade` makes the tables, and then there is nothing to show."""
    monkeypatch.chdir(tmp_path)
    assert call("db", "upgrade", "--db", "n.db") == "schema version 0002\n"
    assert call("status", "--db", "n.db") == "nothing collected yet\n"
    for words, sentence in (
        (("sources", "list"), "no sources yet"),
        (("tasks", "list"), "no tasks yet"),
        (("events",), "no events yet"),
        (("quarantine", "list"), "nothing in quarantine"),
    ):
        assert call(*words, "--db", "n.db") == f"{sentence}\n"


def test_status_watch_goes_on_until_ctrl_c(place: Path) -> None:
    """Under --json each second brings one document on one line; Ctrl-C is 130."""
    running = subprocess.Popen(
        [sys.executable, "-m", "filecollect", "status", "--watch", "--json", "--db", "o.db"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    with running.stdout:
        assert [json.loads(running.stdout.readline())["command"] for _ in range(2)] == ["status", "status"]
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 130


def on_terminal(place: Path, columns: int, *words: str) -> str:
    """Return what a command prints to a terminal of a width, without its colours."""
    parent, child = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "filecollect", *words, "--db", "o.db"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "COLUMNS": str(columns), "TERM": "xterm"},
        stdout=child,
    )
    os.close(child)
    text = b""
    with open(parent, "rb", buffering=0) as screen:
        try:
            while data := screen.read(65536):
                text += data
        except OSError:  # how Linux tells that the other side has closed
            pass
    assert done.wait(20) == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", text.decode())


@pytest.mark.parametrize("columns", [40, 400])
@pytest.mark.parametrize("words", [("tasks", "list"), ("status", "--all")], ids=" ".join)
def test_a_terminal_loses_nothing_whatever_its_width(words: tuple[str, ...], columns: int, place: Path) -> None:
    """Paths and states are whole, for reading and for copying."""
    shown = on_terminal(place, columns, *words)
    assert f"{place}/sub/bad.csv" in shown
    assert "succeeded" in shown
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown


def test_a_wide_terminal_gets_thousands_marks(place: Path) -> None:
    """Numbers are for people there; ids stay as they are typed."""
    engine = open_engine("o.db")
    with transaction(engine) as conn:
        conn.execute(collection_task.insert().values(**task_row(4000, "/x", size=1234567)))
    close(engine, truncate=True)
    assert re.search(r" *4000 +orders +succeeded +37 +1,234,567 +/x", on_terminal(place, 400, "tasks", "list"))


# -- lists ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ((), [1, 2, 3]),
        (("--limit", "2"), [2, 3]),
        (("--source", "other"), []),
        (("--status", "failed"), [3]),
        (("--path", "o*.csv"), [1, 2]),
        (("--path", "O*.csv"), []),
        (("--path", "*.csv", "--limit", "1"), [3]),
        (("--path", "./*/bad.csv"), [3]),
        (("--path", "sub/[ab]*"), [3]),
        (("--since", "1h"), [1, 2, 3]),
    ],
)
def test_tasks_are_chosen_by_source_path_time_and_number(words: tuple[str, ...], ids: list[int], place: Path) -> None:
    """The newest that match, oldest first; globs mind the case, a name matches in any directory."""
    assert [task["id"] for task in said("tasks", "list", *words)["tasks"]] == ids


@pytest.mark.parametrize(
    ("words", "kinds"),
    [
        ((), ["superseded", "truncated", "lost_bytes"]),
        (("--since", "1h"), ["truncated", "lost_bytes"]),
        (("--kind", "truncated"), ["truncated"]),
        (("--path", "old.csv"), ["superseded"]),
    ],
)
def test_events_are_chosen_likewise(words: tuple[str, ...], kinds: list[str], place: Path) -> None:
    """By kind, path and age."""
    assert [event["kind"] for event in said("events", *words)["events"]] == kinds


@pytest.mark.parametrize("text", ["1", "h", "-1h", "1 h", "1y", "١h"])
def test_a_wrong_since_is_refused(text: str, place: Path) -> None:
    """What is no number with a unit is a wrong call."""
    with pytest.raises(UsageError, match="--since: expected a number and s, m, h, d or w"):
        call("events", f"--since={text}", "--db", "o.db")


def test_sources_are_chosen_by_the_paths_of_their_files(place: Path) -> None:
    """A source is found by a file that it read."""
    assert [one["source_key"] for one in said("sources", "list", "--path", "bad.csv")["sources"]] == ["orders"]
    assert said("sources", "list", "--path", "none.csv")["sources"] == []


def test_a_source_is_shown_with_its_columns(place: Path) -> None:
    """What was decided, and an unknown one is a wrong call."""
    assert [one["name"] for one in said("sources", "show", "orders")["source"]["columns_json"]] == ["id", "note"]
    with pytest.raises(UsageError, match="no source 'none'"):
        call("sources", "show", "none", "--db", "o.db")


@pytest.mark.parametrize("which", ["1", "orders.csv", "./sub/../orders.csv"])
def test_a_task_is_shown_by_id_or_path(which: str, place: Path) -> None:
    """With its ledger and events."""
    found = said("tasks", "show", which)["task"]
    assert found["id"] == 1
    assert [(one["start_offset"], one["end_offset"]) for one in found["batches"]] == [(0, 16), (16, 37)]
    assert [one["kind"] for one in found["events"]] == ["truncated", "lost_bytes"]


@pytest.mark.parametrize("which", ["77", "none.csv", "9" * 30])
def test_an_unknown_task_is_a_wrong_call(which: str, place: Path) -> None:
    """By id or by path, however large."""
    with pytest.raises(UsageError, match=f"no task {which}"):
        call("tasks", "show", which, "--db", "o.db")


def test_a_pipe_gets_whole_paths_and_bare_digits(place: Path) -> None:
    """Columns for awk: nothing cut, no thousands marks."""
    engine = open_engine("o.db")
    with transaction(engine) as conn:
        conn.execute(collection_task.insert().values(**task_row(4, "/" + "d" * 300, size=1234567)))
    close(engine, truncate=True)
    line = call("tasks", "list", "--path", "d*", "--db", "o.db").splitlines()[1]
    assert line.split() == ["4", "orders", "succeeded", "37", "1234567", "/" + "d" * 300, "-"]


# -- quarantine ----------------------------------------------------------------------------------


def test_quarantine_lists_place_and_reason(place: Path) -> None:
    """Path and line as editors take them."""
    shown = call("quarantine", "list", "--state", "open", "--db", "o.db")
    assert f"{place}/sub/bad.csv:2  bad_csv  2 fields, expected 3" in shown
    assert [one["id"] for one in said("quarantine", "list", "--path", "orders.csv")["items"]] == [3]


@pytest.mark.parametrize(("which", "ids"), [("2", [2]), ("sub/bad.csv", [1, 2])])
def test_quarantine_shows_by_id_or_path(which: str, ids: list[int], place: Path) -> None:
    """One record, or all of a file."""
    assert [one["id"] for one in said("quarantine", "show", which)["items"]] == ids


def test_quarantine_exports_open_records_as_json_lines(place: Path) -> None:
    """Text as text, other bytes as base64: 0xff 0x2c 0x62 0x0a is /yxiCg==."""
    common = {"source": "orders", "task_id": 3, "path": f"{place}/sub/bad.csv", "length": 4}
    why = {"reason": "bad_csv", "message": "2 fields, expected 3"}
    expected = [
        {"id": 1, **common, "offset": 8, "line": 2, **why, "raw": "a,b\n"},
        {"id": 2, **common, "offset": 12, "line": 3, **why, "raw_base64": "/yxiCg=="},
    ]
    assert [json.loads(line) for line in call("quarantine", "export", "--db", "o.db").splitlines()] == expected
    assert call("quarantine", "export", "-o", "q.jsonl", "-q", "--db", "o.db") == ""
    assert [json.loads(line) for line in (place / "q.jsonl").read_text().splitlines()] == expected
    assert len(call("quarantine", "export", "--limit", "1", "--db", "o.db").splitlines()) == 1


def test_quarantine_export_never_overwrites(place: Path) -> None:
    """A file that is there stays as it is."""
    with pytest.raises(UsageError, match="not overwritten"):
        call("quarantine", "export", "-o", "orders.csv", "--db", "o.db")
    assert (place / "orders.csv").read_bytes() == CONTENT


# -- trace ---------------------------------------------------------------------------------------


def test_trace_tells_line_bytes_and_batch(place: Path) -> None:
    """A quoted line end belongs to the record, and lines after it are counted with it."""
    found = said("trace", "orders")["rows"]
    assert [(row["line"], row["offset"], row["raw"], row["batch"]) for row in found] == [
        (2, 8, "1,plain", 1),
        (3, 16, '2,"two\nlines"', 2),
        (5, 30, "3,last", 2),
    ]
    assert {(row["path"], row["task_id"], row["generation"]) for row in found} == {
        (f"{place}/orders.csv", 1, f"{1:032x}")
    }


@pytest.mark.parametrize("where", ["id = 3", "id = 3 -- the last", "note LIKE 'la%'", "id = 3 OR id = 4"])
def test_trace_takes_any_condition(where: str, place: Path) -> None:
    """Comments and percent signs, too."""
    assert [row["offset"] for row in said("trace", "orders", "--where", where)["rows"]] == [30]


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("idd = 1", "no such column: idd"),
        ("id = ", "syntax error"),
        ("1); DROP TABLE orders; --", "one statement at a time"),
    ],
)
def test_a_mistake_in_sql_is_told_in_the_database_s_words(where: str, sentence: str, place: Path) -> None:
    """Exit 2, and nothing was touched."""
    with pytest.raises(UsageError, match=sentence):
        call("trace", "orders", "--where", where, "--db", "o.db")
    assert len(said("trace", "orders")["rows"]) == 3


@pytest.mark.parametrize(("table", "sentence"), [("none", "no table none"), ("theirs", "was not collected")])
def test_trace_refuses_tables_that_were_not_collected(table: str, sentence: str, place: Path) -> None:
    """A table without lineage has nothing to tell."""
    with pytest.raises(UsageError, match=sentence):
        call("trace", table, "--db", "o.db")


@pytest.mark.parametrize("change", ["gone", "edited"])
def test_trace_tells_no_line_that_is_not_certain(change: str, place: Path) -> None:
    """The file is gone, or its bytes are not those of the ledger: path and batch are still known."""
    file = place / "orders.csv"
    if change == "gone":
        file.unlink()
    else:
        file.write_bytes(CONTENT.replace(b"plain", b"PLAIN"))
    first = said("trace", "orders", "--where", "id = 1")["rows"][0]
    assert (first["path"], first["line"], first["raw"], first["batch"]) == (str(file), None, None, 1)
    assert "its bytes are not there any more" in call("trace", "orders", "--limit", "1", "--db", "o.db")


def test_trace_works_on_postgresql(postgres_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A percent sign is no parameter, a mistake is the server's sentence, status counts there too."""
    monkeypatch.chdir(tmp_path)
    engine = open_engine(postgres_url)
    upgrade(engine)
    with transaction(engine) as conn:
        conn.execute(collection_task.insert().values(**task_row(1, "/gone.csv")))
        conn.execute(committed_batch.insert().values(**batch_row(1, 1, 0, 37, 1, 3)))
        conn.exec_driver_sql('CREATE TABLE t ("note" text, "_task_id" bigint, "_offset" bigint)')
        conn.exec_driver_sql("INSERT INTO t VALUES ('last', 1, 30)")
        conn.execute(
            collection_source.insert().values(
                source_key="orders", table_name="t", format="csv", config_json={}, columns_json=[]
            )
        )
    close(engine, truncate=False)
    found = json.loads(call("trace", "t", "--where", "note LIKE 'l%'", "--db", postgres_url, "--json"))
    assert [(row["path"], row["offset"], row["batch"]) for row in found["rows"]] == [("/gone.csv", 30, 1)]
    with pytest.raises(UsageError, match='column "idd" does not exist'):
        call("trace", "t", "--where", "idd = 1", "--db", postgres_url)
    (source,) = json.loads(call("status", "--db", postgres_url, "--json"))["sources"]
    assert (source["rows"], source["bytes"], source["lag_s"]) == (3, {"done": 37, "total": 37, "lag": 0}, 0.0)
    assert "/gone.csv" in call("tasks", "list", "--path", "g*.csv", "--db", postgres_url)


# -- db, config ----------------------------------------------------------------------------------


def test_db_tells_its_version_and_its_ddl(place: Path) -> None:
    """As text, as a document, for either database."""
    assert call("db", "current", "--db", "o.db") == "0002\n"
    assert said("db", "current")["schema_version"] == "0002"
    assert call("db", "ddl", "--db", "o.db") == (REPOSITORY / "sql" / "sqlite.sql").read_text()
    assert call("db", "ddl", "--dialect", "postgresql") == (REPOSITORY / "sql" / "postgresql.sql").read_text()


def test_config_show_masks_secrets(place: Path) -> None:
    """The password of the database's URL is never printed."""
    (place / "my.toml").write_text('database = "postgresql://me:hunter2@db/x"\n')
    shown = call("config", "show", "-c", "my.toml")
    assert "hunter2" not in shown
    assert "me:***@db/x" in shown
    with pytest.raises(UsageError, match="no config file found"):
        call("config", "show")


# -- rendering -----------------------------------------------------------------------------------


def test_sizes_and_times_are_told_as_people_read_them() -> None:
    """Three or four figures and a unit."""
    assert [human_size(n) for n in (0, 999, 1000, 20800, 5.5e9, 7e12)] == [
        "0 B",
        "999 B",
        "1.0 KB",
        "20.8 KB",
        "5.5 GB",
        "7.0 TB",
    ]
    assert [human_time(n) for n in (0.85, 12, 200, 7500, 273600)] == [
        "850 ms",
        "12.0 s",
        "3 min 20 s",
        "2 h 5 min",
        "3 d 4 h",
    ]


def test_cells_are_one_harmless_line() -> None:
    """No record or file name can move the cursor or break a table."""
    assert harmless("a\x1b[2Jb\n\tc\u202e é 订") == "a\\x1b[2Jb\\n\\tc\\u202e é 订"
    assert [cell(value) for value in (None, True, 12345, {"a": 1}, b"\xff")] == [
        "-",
        "yes",
        "12345",
        '{"a": 1}',
        "\\xff",
    ]
    assert cell(12345, marked=True) == "12,345"


def test_columns_are_aligned() -> None:
    """Each as wide as its widest cell."""
    assert aligned([{"a": 1, "b": "x"}, {"a": 1000, "b": None}]) == ["a     b", "1     x", "1000  -"]
