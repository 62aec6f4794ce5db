"""The daemon stepped by hand: what it reads, opens and writes, and what it does with files that fail."""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import event

from filecollect.errors import FileUnavailable
from tests.tailing import tailing

SOURCE = """
[worker]
workers = 1
idle_release_s = 5
[source.app]
paths = ["logs/*.log"]
format = "lines"
"""


def write(directory: Path, name: str, *lines: str) -> Path:
    """Append lines to a log."""
    path = directory / "logs" / name
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as file:
        file.writelines(line + "\n" for line in lines)
    return path


def test_a_hundred_slow_files_make_few_ledger_rows(tmp_path: Path) -> None:
    """100 files x 1 line a second x 60 s: at most 200 ledger rows, and far fewer commits than lines."""
    commits = 0
    with tailing(tmp_path, SOURCE) as tail:
        for number in range(100):
            write(tmp_path, f"{number:03d}.log", "second 0")
        tail.until(lambda: tail.count("app") == 100)

        @event.listens_for(tail.engine, "commit")
        def count(_: object) -> None:
            nonlocal commits
            commits += 1

        for second in range(1, 60):
            for number in range(100):
                path = write(tmp_path, f"{number:03d}.log", f"second {second}")
                tail.watch.changed.add(str(path))
            tail.until(lambda wanted=100 * (second + 1): tail.count("app") == wanted)  # type: ignore[misc]
            tail.step(0.9)
        assert tail.count("app") == 6000
        assert tail.count("committed_batch") <= 200
        assert commits < 6000


def test_idle_files_cost_nothing(tmp_path: Path) -> None:
    """No file is opened and no statement is made per file once all are read and let go."""
    for number in range(1000):
        write(tmp_path, f"{number:04d}.log", "one line")
    statements: list[str] = []
    with tailing(tmp_path, SOURCE) as tail:
        tail.until(lambda: tail.count("app") == 1000)
        tail.until(lambda: not tail.crew.tailer.held, seconds=1)
        for _ in range(3):
            tail.step(20)
        tail.files.opened.clear()

        @event.listens_for(tail.engine, "before_cursor_execute")
        def note(_c: object, _k: object, statement: str, *_: object) -> None:
            statements.append(statement)

        for _ in range(5):
            tail.step(20)
        event.remove(tail.engine, "before_cursor_execute", note)
        assert tail.files.opened == []
        assert len(statements) < 100
        write(tmp_path, "0500.log", "another line")
        tail.until(lambda: tail.count("app") == 1001)
        assert {os.path.basename(path) for path in tail.files.opened} == {"0500.log"}


def test_more_files_than_may_be_open_take_turns(tmp_path: Path) -> None:
    """With room for 4, 30 files that all grow are all read; none starves and no more than the room is open."""
    with tailing(tmp_path, SOURCE, most_open=4) as tail:
        for turn in range(3):
            for number in range(30):
                write(tmp_path, f"{number:02d}.log", *(f"{number}: turn {turn}, line {line}" for line in range(20)))
            tail.until(lambda wanted=600 * (turn + 1): tail.count("app") == wanted, seconds=0.3)  # type: ignore[misc]
        # Discovery opens one file at a time, beside those that the worker holds.
        assert tail.files.most_open <= 5


def test_a_file_that_fails_is_retried_and_the_others_go_on(tmp_path: Path) -> None:
    """EIO on a known file: visible with its error, tried again after a growing wait, then read on."""
    bad = write(tmp_path, "bad.log", "one")
    with tailing(tmp_path, SOURCE) as tail:
        tail.until(lambda: tail.count("app") == 1)
        tail.until(lambda: not tail.crew.tailer.held, seconds=1)
        tail.files.failing[str(bad)] = FileUnavailable("Input/output error", path=str(bad))
        write(tmp_path, "bad.log", "two")
        write(tmp_path, "good.log", "other")
        tail.until(lambda: tail.count("app") == 2, seconds=1)
        assert tail.sql("SELECT status, last_error FROM collection_task WHERE path LIKE '%bad.log'") == [
            ("pending", "Input/output error")
        ]
        assert any("Input/output error" in sentence for sentence in tail.said)
        del tail.files.failing[str(bad)]
        tail.until(lambda: tail.count("app") == 3, seconds=1)
        assert tail.sql("SELECT line FROM app ORDER BY rowid") == [("one",), ("other",), ("two",)]


def test_a_file_that_could_never_be_read_is_remembered(tmp_path: Path) -> None:
    """Permission denied from the start: a visible task with its next try stored; read as soon as it may be."""
    write(tmp_path, "good.log", "fine")
    bad = write(tmp_path, "bad.log", "secret")
    with tailing(tmp_path, SOURCE) as tail:
        tail.until(lambda: tail.count("app") == 2)
        tail.until(lambda: not tail.crew.tailer.held, seconds=1)
        tail.files.failing[str(bad)] = FileUnavailable("Permission denied", path=str(bad))
        write(tmp_path, "bad.log", "more")
        other = write(tmp_path, "other.log", "never seen before")
        tail.files.failing[str(other)] = FileUnavailable("Permission denied", path=str(other))
        tail.until(lambda: tail.count("collection_task") == 3, seconds=1)
        ((status, error, due),) = tail.sql(
            "SELECT status, last_error, next_run_at IS NOT NULL FROM collection_task WHERE path LIKE '%other.log'"
        )
        assert (status, error, due) == ("failed", "Permission denied", 1)
        assert tail.sql("SELECT count(*) FROM file_event WHERE kind = 'permission_denied'")[0][0] >= 1
        tail.files.failing.clear()
        tail.until(lambda: tail.count("app") == 4, seconds=1)
        assert tail.count("collection_task") == 3
