"""A backfill killed at any failpoint, at its first, second and third hit, ends like one that was not.

The files reach every failpoint three times, which the kills themselves prove: three sources (scans,
tables, records), more small files than are claimed at once, batches, logs whose last line was taken
without its end and then completed (rescues), half records that are given back.

A takeover at an unchanged position halves the batch, so the ledger of a task that was taken over may be
finer; all others are cut at the same places. New rows come in whole batches where another file follows,
so that a file's spans do not depend on which files are committed together with it.
"""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from filecollect.failpoints import NAMES
from tests.invariants import check, offsets
from tests.preloaded import run

CONFIG = """database = "o.db"
[worker]
workers = 1
[source.app]
paths = ["app/*.jsonl"]
follow = true
batch_rows = 20
[source.orders]
paths = ["orders/*.csv"]
follow = false
batch_rows = 20
[source.notes]
paths = ["notes/*.log"]
format = "lines"
follow = true
batch_rows = 20
"""
SMALL_FILES = 70


def write(path: Path, text: str, *, age_s: float) -> None:
    """Append to a file that then looks as if it had been written so long ago; negative never grows old."""
    import os

    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
    now = time.time() - age_s
    os.utime(path, (now, now))


def first_line(number: int) -> str:
    """Return a line long enough for a file to be known by it: its inode changes when it is copied."""
    return f"line one of {number}" + "." * 60


def first_round(directory: Path) -> None:
    """Write what the first, undisturbed round reads."""
    (directory / "filecollect.toml").write_text(CONFIG)
    for number in range(3):
        lines = "".join(f'{{"id":{n},"of":{number}}}\n' for n in range(30))
        write(directory / f"app/a{number}.jsonl", lines, age_s=60)
        write(directory / f"notes/open{number}.log", f"{first_line(number)}\nline tw", age_s=60)
    write(directory / "orders/orders-1.csv", "id,name\n" + "".join(f"{n},n{n}\n" for n in range(30)), age_s=60)


def second_round(directory: Path) -> None:
    """Write what the killed round reads: completed lines, new and grown files, half records of young files."""
    for number in range(3):
        lines = "".join(f'{{"id":{n},"of":{number}}}\n' for n in range(30, 100))
        write(directory / f"app/a{number}.jsonl", lines + '{"id":100', age_s=-3600)
        write(directory / f"notes/open{number}.log", f"o of {number}\n" + "one more\n" * 19, age_s=60)
    for number in range(2, 4):
        rows = "".join(f"{n},m{n}\n" for n in range(1000 * number, 1000 * number + 40))
        write(directory / f"orders/orders-{number}.csv", "id,name\n" + rows, age_s=60 - number)
    for number in range(SMALL_FILES):
        write(directory / f"notes/small{number:02}.log", f"the only line of {number}\n", age_s=50)


def state(directory: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return all that must not depend on kills."""
    check(directory / "o.db")
    queries = {
        "app": 'SELECT * FROM app ORDER BY "_task_id", "_offset"',
        "orders": 'SELECT * FROM orders ORDER BY "_task_id", "_offset"',
        "notes": 'SELECT * FROM notes ORDER BY "_task_id", "_offset"',
        "ledger": "SELECT task_id, start_offset, end_offset, start_line, row_count, quarantined_count, skipped_count,"
        " digest, kind FROM committed_batch ORDER BY task_id, start_offset",
        "tasks": "SELECT id, path, source_key, status, start_offset, content_offset, raw_offset, head_length,"
        " head_digest, content_digest, checkpoint_json, owner_id FROM collection_task ORDER BY id",
        "quarantine": "SELECT task_id, start_offset, reason, state FROM quarantined_item ORDER BY 1, 2",
        "events": "SELECT kind, count(*) FROM file_event WHERE kind NOT IN ('takeover', 'continued') GROUP BY 1",
    }
    return {name: ask(directory, query) for name, query in queries.items()}


def ask(directory: Path, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with closing(sqlite3.connect(directory / "o.db")) as conn:
        return conn.execute(query).fetchall()


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory as it is after the first round, with everything there for the second one."""
    directory = tmp_path_factory.mktemp("sweep") / "work"
    directory.mkdir()
    first_round(directory)
    assert run(directory, "backfill") == 0, (directory / "said.txt").read_text()
    second_round(directory)
    shutil.copytree(directory, directory.parent / "kept")
    return directory


@pytest.fixture
def directory(prepared: Path) -> Path:
    """The prepared directory, as it was: the same paths, times and bytes."""
    return as_it_was(prepared)


def as_it_was(prepared: Path) -> Path:
    """Undo what was done in the prepared directory."""
    shutil.rmtree(prepared)
    return Path(shutil.copytree(prepared.parent / "kept", prepared))


@pytest.fixture(scope="module")
def expected(prepared: Path) -> dict[str, list[tuple[Any, ...]]]:
    """What two rounds without a kill make of the files."""
    # Three files end in half a record: they are left, which is an exit code of 1.
    assert run(as_it_was(prepared), "backfill") == 1
    return state(prepared)


def test_the_unkilled_run_is_right(expected: dict[str, list[tuple[Any, ...]]]) -> None:
    """Counted by hand: 3 x 100 ids, 30 + 40 + 40 orders, 3 x 21 lines and the small files' 70."""
    assert [row[:2] for row in expected["app"]] == [(n, number) for number in range(3) for n in range(100)]
    assert [row[0] for row in expected["orders"]] == [*range(30), *range(2000, 2040), *range(3000, 3040)]
    lines = [row[0] for row in expected["notes"]]
    for number in range(3):
        assert lines[21 * number : 21 * number + 21] == [
            first_line(number),
            f"line two of {number}",
            *["one more"] * 19,
        ]
    assert sorted(lines[63:]) == sorted(f"the only line of {number}" for number in range(SMALL_FILES))
    statuses = [row[3] for row in expected["tasks"]]
    assert (statuses.count("pending"), statuses.count("succeeded")) == (3, 3 + 3 + SMALL_FILES)
    assert dict(expected["events"])["record_completed"] == 3


@pytest.mark.parametrize("hit", [1, 2, 3])
@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_killed_backfill_ends_like_one_that_was_not(
    expected: dict[str, list[tuple[Any, ...]]], directory: Path, name: str, hit: int
) -> None:
    """Same rows, same ledger with its digests, same checkpoints and content digests."""
    before = offsets(directory / "o.db")

    assert run(directory, "backfill", failpoints=f"{name}@{hit}=kill") == 137, "the failpoint was never reached"
    check(directory / "o.db", before=before)
    assert run(directory, "backfill") == 1, (directory / "said.txt").read_text()

    ended = state(directory)
    taken_over = {row[0] for row in ask(directory, "SELECT task_id FROM file_event WHERE kind = 'takeover'")}
    mine, theirs = ended.pop("ledger"), expected["ledger"]
    assert [row for row in mine if row[0] not in taken_over] == [row for row in theirs if row[0] not in taken_over]
    assert joints(mine) >= joints(theirs)
    assert rows_by_task(mine) == rows_by_task(theirs)
    assert ended == {name: rows for name, rows in expected.items() if name != "ledger"}


def joints(ledger: list[tuple[Any, ...]]) -> set[tuple[int, int]]:
    """Return where spans end."""
    return {(row[0], row[2]) for row in ledger}


def rows_by_task(ledger: list[tuple[Any, ...]]) -> dict[int, int]:
    """Return how many rows the spans of each task speak of."""
    return {task: sum(row[4] for row in ledger if row[0] == task) for task in {row[0] for row in ledger}}
