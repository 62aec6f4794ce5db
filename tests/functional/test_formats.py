"""What a user's own files become, through the command: formats, settings, encodings, the promise kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program import Program, aged


def load(program: Program, name: str, data: bytes, *options: str) -> list[tuple[object, ...]]:
    """Load one file and return its table's rows, after the oracle has seen the database."""
    (program.directory / name).write_bytes(data)
    aged(program.directory / name)
    done = program("backfill", name, "--db", "t.db", "--json", *options)
    (source,) = done.json["sources"]
    names = ", ".join(f'"{column["name"]}"' for column in source["columns"])
    return [tuple(row) for row in program.sql("t.db", f'SELECT {names} FROM "{source["table"]}" ORDER BY _offset')]


def test_leading_zeros_decimals_booleans_and_quoted_empties_are_told_apart(tmp_path: Path) -> None:
    """A zip code is text, 7 among decimals is real, `""` is no NULL."""
    program = Program(tmp_path)
    data = b'id,zip,amt,at,ok,note\n1,94105,10.50,2026-11-01 12:00:00,true,\n2,00501,7,2026-11-02 00:00:00,false,""\n'
    (tmp_path / "t.csv").write_bytes(data)
    assert program("backfill", "t.csv", "--db", "t.db").code == 0
    rows = program.sql("t.db", "select id,zip,typeof(zip),amt,at,ok,note is null from t")
    assert [tuple(row) for row in rows] == [
        (1, "94105", "text", 10.5, "2026-11-01 12:00:00", 1, 1),
        (2, "00501", "text", 7.0, "2026-11-02 00:00:00", 0, 0),
    ]


@pytest.mark.parametrize(
    ("options", "data", "expected"),
    [
        (("decimal=','",), b"id;p\n1;0,12\n2;7\n", [(1, 0.12), (2, 7.0)]),
        (("comment='%'",), b"% x\nid,p\n1,2\n%\n", [(1, 2)]),
        (("quote=\"'\"",), b"id,p\n1,'a,b'\n", [(1, "a,b")]),
        (("timestamp={formats=['%d/%m/%Y %H:%M'],zone='Europe/Berlin'}",), b"id,at\n1,01/11/2026 12:00\n",
         [(1, "2026-11-01 11:00:00")]),
        (("timestamp={formats=['epoch']}", "columns={at='timestamp'}"), b"id,at\n1,1793534400\n",
         [(1, "2026-11-01 12:00:00")]),
        (("encoding='utf-16-be'",), "id,p\n1,ü\n".encode("utf-16-be"), [(1, "ü")]),
    ],
)  # fmt: skip
def test_settings_of_csv_are_acted_on(
    tmp_path: Path, options: tuple[str, ...], data: bytes, expected: list[tuple[object, ...]]
) -> None:
    """Each changes what is stored, and a second call finds nothing new."""
    program = Program(tmp_path)
    said = [part for option in options for part in ("--set", option)]
    assert load(program, "x.csv", data, *said) == expected
    assert program("backfill", "x.csv", "--db", "t.db", "--json").json["rows"]["inserted"] == 0


def test_nested_objects_become_columns(tmp_path: Path) -> None:
    """One level deep, as asked."""
    data = b'[{"id":1,"user":{"name":"a","geo":{"x":1}}},\n {"id":2,"user":null}]\n'
    assert load(Program(tmp_path), "x.json", data, "--set", "flatten=1") == [(1, "a", '{"x":1}'), (2, None, None)]


def test_replaced_bytes_are_counted_and_told(tmp_path: Path) -> None:
    """The row is there, its bytes are in `_extra`, and the exit code says that something was lost."""
    program = Program(tmp_path)
    (tmp_path / "x.csv").write_bytes(b"id,name\n" + "1,größe\n".encode() * 20 + b"2,gr\xf6\n")
    done = program("backfill", "x.csv", "--db", "t.db", "--set", "encoding_errors='replace'")
    assert done.code == 1
    assert "1 records held bytes that are not in the file's encoding" in done.out
    rows = program.sql("t.db", "SELECT name, _extra FROM x WHERE id = 2")
    assert [tuple(row) for row in rows] == [("gr\ufffd", '{"_undecodable":"f6"}')]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-32-be"])
def test_a_document_of_many_batches_is_read_once(tmp_path: Path, encoding: str) -> None:
    """Killed in its middle, too; a position inside the array is enough to go on."""
    program = Program(tmp_path)
    items = ",\n".join(f'  {{"id": {number},\n   "text": "[{number}"}}' for number in range(700))
    (tmp_path / "x.json").write_bytes(f"[\n{items}\n]\n".encode(encoding))
    aged(tmp_path / "x.json")
    killed = program("backfill", "x.json", "--db", "t.db", "--batch-rows", "100", failpoints="before_commit@4=kill")
    assert killed.code == 137
    done = program("backfill", "x.json", "--db", "t.db", "--batch-rows", "100", "--json")
    assert done.json["rows"]["inserted"] == 400
    rows = program.sql("t.db", "SELECT id, text FROM x ORDER BY _offset")
    assert [tuple(row) for row in rows] == [(number, f"[{number}") for number in range(700)]


@pytest.mark.parametrize("name", ["x.json", "x.txt"])
def test_a_record_too_long_to_be_held_does_not_stop_a_document(tmp_path: Path, name: str) -> None:
    """On one line with its neighbours: they are rows, it is quarantined."""
    program = Program(tmp_path)
    long = '{"id":2,"text":"' + "}" * 300_000 + '"}'
    (tmp_path / name).write_text(f'[{{"id":1}},{long},{{"id":3}}]')
    aged(tmp_path / name)
    done = program("backfill", name, "--db", "t.db", "--json", "--set", "max_record_bytes=65536")
    assert (done.json["rows"]["inserted"], done.json["quarantined"]) == (2, 1)
    bad = program.sql("t.db", "SELECT start_offset, length, reason FROM quarantined_item")
    assert [tuple(row) for row in bad] == [(9, len(long) + 1, "record_too_long")]
