"""Realistic samples become the tables that were worked out by hand beside them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.program import REPOSITORY, Program, aged

FIXTURES = sorted(
    path for path in (REPOSITORY / "fixtures").iterdir() if not path.name.endswith(".expected.json") and path.is_file()
)


@pytest.mark.parametrize("sample", FIXTURES, ids=lambda path: path.name)
def test_a_sample_becomes_its_table(sample: Path, tmp_path: Path) -> None:
    """Table, columns, rows and bad records, as backfill loads them and preview shows them."""
    expected = json.loads((sample.parent / f"{sample.name}.expected.json").read_text(encoding="utf-8"))
    program = Program(tmp_path)
    shutil.copy(sample, tmp_path)
    aged(tmp_path / sample.name)

    loaded = program("backfill", sample.name, "--db", "o.db", "--json")

    (source,) = loaded.json["sources"]
    assert (source["table"], source["format"]) == (expected["table"], expected["format"])
    assert {column["name"]: column["type"] for column in source["columns"]} == expected["columns"]
    names = ", ".join(f'"{name}"' for name in expected["columns"])
    rows = program.sql("o.db", f'SELECT {names} FROM "{expected["table"]}" ORDER BY _offset')
    assert [list(row) for row in rows] == expected["rows"]
    bad = program.sql("o.db", "SELECT line, reason FROM quarantined_item ORDER BY start_offset")
    assert [list(row) for row in bad] == expected["quarantined"]
    assert loaded.code == int(bool(bad))

    shown = program.run("preview", sample.name, "--json", "-n", "100")
    (previewed,) = shown.json["files"]
    assert [[row[name] for name in expected["columns"]] for row in previewed["rows"]] == expected["rows"]
