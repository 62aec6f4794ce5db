"""Files without text, names at the limit, headers in halves, values that do not fit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.program import Program, aged


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program in an empty directory."""
    return Program(tmp_path)


def test_a_family_that_splits_keeps_its_names_within_the_limit(program: Program) -> None:
    """63 bytes are PostgreSQL's limit; both tables are there, under names that differ."""
    name = "ü" + "a" * 61
    program.write(f"one/{name}.csv", "a,b\n1,2\n")
    program.write(f"two/{name}.csv", "x,y\n3,4\n")

    done = program("backfill", "one", "two", "--db", "o.db", "--json")

    assert done.code == 0, done.out
    first, second = (source["table"] for source in done.json["sources"])
    assert (first, len(second.encode())) == (name, 63)
    assert second.startswith("ü" + "a" * 52 + "_")
    assert program.sql("o.db", f'SELECT x, y FROM "{second}"') == [(3, 4)]
    assert program("backfill", "one", "two", "--db", "o.db", "--json").json["rows"]["inserted"] == 0


def test_a_binary_file_without_a_suffix_is_skipped_with_its_reason(program: Program) -> None:
    """In a directory it is none of ours; named in the call, or under a record's suffix, it should have held records."""
    noise = bytes(range(256)) * 40
    program.write("in/core", noise)
    program.write("in/ids.jsonl", '{"id":1}\n')

    directory = program("backfill", "in", "--db", "o.db", "--json")

    assert directory.code == 0
    (core,) = [one for one in directory.json["files"] if one["path"].endswith("core")]
    assert (core["outcome"], core["reason"]) == ("skipped", "unsupported")
    assert core["message"].startswith("binary content")
    assert program("backfill", "in", "--db", "o.db", "--strict").code == 1
    assert program("backfill", "in/core", "--db", "o.db").code == 1
    program.write("in/noise.txt", noise)
    assert program("backfill", "in", "--db", "o.db").code == 1


@pytest.mark.parametrize("size", [1, 63, 64, 200_000])
def test_a_file_of_nothing_but_nuls_is_read_once_something_is_written(program: Program, size: int) -> None:
    """It is the hole before a writer's position, or what a crash left: skipped, and no failure."""
    file = program.write("app", bytes(size))

    first = program("backfill", ".", "--db", "o.db", "--json")

    assert first.code == 0
    assert [(one["outcome"], one["reason"]) for one in first.json["files"]] == [("skipped", "unwritten")]
    assert program("backfill", "app", "--db", "o.db").code == 0

    with file.open("ab") as end:
        end.write(b"one\ntwo\n")
    aged(file)

    assert program("backfill", ".", "--db", "o.db").code == 0
    rows = [row[0] for row in program.sql("o.db", "SELECT line FROM app ORDER BY _offset")]
    assert rows == (["one", "two"] if size >= 64 else ["\0" * size + "one", "two"])


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        ("\n\nid,na", "me\n1,x\n", [(1, "x", 10)]),
        ("\r\n\r\nid,name\r", "\n1,x\r\n", [(1, "x", 13)]),
        ("\n\nid,name", "\n1,x\n", [(1, "x", 10)]),
        ("\n", "\nid,name\n1,x\n", [(1, "x", 10)]),
        ("id,na", "me\n1,x\n", [(1, "x", 8)]),
    ],
)
def test_a_header_that_was_half_written_at_a_rounds_end_is_read_again(
    program: Program, before: str, after: str, rows: list[tuple[int, str, int]]
) -> None:
    """Blank lines before it or not: no row is taken for a header, and none is left without one."""
    program.write("orders1.csv", "id,name\n7,y\n")
    assert program("backfill", "orders1.csv", "--source", "s", "--db", "o.db").code == 0
    half = program.write("orders2.csv", before)
    assert program("backfill", "orders2.csv", "--source", "s", "--db", "o.db").code in {0, 1}

    with half.open("a", newline="") as end:
        end.write(after)
    done = program("backfill", "orders2.csv", "--source", "s", "--db", "o.db")

    assert done.code == 0, done.out
    assert program.sql("o.db", "SELECT id, name, _offset FROM s WHERE _task_id = 2") == rows
    assert program.sql("o.db", "SELECT count(*) FROM quarantined_item") == [(0,)]


def test_the_first_misfit_of_a_file_is_an_event(program: Program) -> None:
    """One for the task, with the columns and counts of the batch that had it; later ones are only counted."""
    program.write("zips.csv", "zip,n\n" + "94105,1\n" * 9)
    assert program("backfill", "zips.csv", "--db", "o.db").code == 0
    with (program.directory / "zips.csv").open("a") as end:
        end.write("00501,x\n00502,2\n" + "94105,1\n" * 8 + "00503,3\n" * 20)

    assert program("backfill", "zips.csv", "--db", "o.db", "--batch-rows", "10", "--workers", "1").code == 1

    events = program.sql("o.db", "SELECT task_id, source_key, path, detail FROM file_event WHERE kind = 'misfit'")
    assert [(one[0], one[1], one[2]) for one in events] == [(1, "zips", str(program.directory / "zips.csv"))]
    # The header has 6 bytes, each row 8.
    assert json.loads(events[0][3]) == {"columns": {"zip": 2, "n": 1}, "from": 6 + 9 * 8, "to": 6 + 19 * 8}
    with (program.directory / "zips.csv").open("a") as end:
        end.write("00504,4\n")
    assert program("backfill", "zips.csv", "--db", "o.db").code == 1
    assert program.sql("o.db", "SELECT count(*) FROM file_event WHERE kind = 'misfit'") == [(1,)]


def test_a_misfit_whose_batch_does_not_stand_is_no_event(program: Program) -> None:
    """It is written in the batch's transaction."""
    program.write("zips.csv", "zip\n94105\n")
    assert program("backfill", "zips.csv", "--db", "o.db").code == 0
    with (program.directory / "zips.csv").open("a") as end:
        end.write("00501\n")

    killed = program("backfill", "zips.csv", "--db", "o.db", "--workers", "1", failpoints="before_commit=kill")

    assert killed.code == 137
    assert program.sql("o.db", "SELECT count(*) FROM file_event WHERE kind = 'misfit'") == [(0,)]
    assert program("backfill", "zips.csv", "--db", "o.db").code == 1
    assert program.sql("o.db", "SELECT count(*) FROM file_event WHERE kind = 'misfit'") == [(1,)]


def test_check_lists_neither_the_database_nor_the_config(program: Program) -> None:
    """A pattern that covers everything still matches only what would be read."""
    program.write("a.csv", "a\n1\n")
    program.write("filecollect.toml", 'database = "o.db"\n[source.all]\npaths = ["*"]\n')
    assert program("backfill", "a.csv").code == 0

    done = program("check", "--json")

    assert done.code == 0, done.err
    assert done.json["sources"] == [{"source": "all", "files": 1, "bytes": 4}]
