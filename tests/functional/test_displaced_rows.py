"""A last record without its end takes a key; turned out longer, it has another: the row it displaced comes back."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.program import Program, aged

HEAD = "note,price,seen,id\n"


@pytest.fixture(params=["sqlite", "postgresql"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    """The program in an empty directory, with an empty database of each kind."""
    return Program(tmp_path, "o.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url"))


def load(program: Program, name: str, *, code: int = 0, failpoints: str | None = None) -> None:
    """Backfill one file under the key `id`."""
    words = ("--key", "id", "--source", "orders", "--set", 'columns = {price = "decimal"}')
    ended = program("backfill", name, "--db", program.database, *words, failpoints=failpoints)
    assert ended.code == code, ended.out + ended.err


def write(program: Program, name: str, text: str, age_s: float = 60) -> None:
    """Write an export that nobody writes to any more."""
    aged(program.write(name, HEAD + text), age_s)


def table(program: Program) -> list[tuple[object, ...]]:
    """Return the rows by id; a decimal is shown as text in SQLite, as a number by PostgreSQL."""
    rows = program.ask("SELECT id, note, price, CAST(seen AS text) FROM orders ORDER BY id")
    return [(key, note, None if price is None else Decimal(price), seen) for key, note, price, seen in rows]


FIRST = 'five,5.10,2026-11-05,5\n"a ""quoted""\nnote",,2026-11-06,6\n'
FIVE = (5, "five", Decimal("5.10"), "2026-11-05")
SIX = (6, 'a "quoted"\nnote', None, "2026-11-06")


@pytest.mark.parametrize(("key", "was"), [(5, FIVE), (6, SIX)])
def test_the_displaced_row_comes_back_when_the_key_turns_out_longer(
    program: Program, key: int, was: tuple[object, ...]
) -> None:
    """5 was the beginning of 57: row 5 is that of the first file again."""
    write(program, "a.csv", FIRST)
    load(program, "a.csv")
    write(program, "b.csv", f"cut,1.00,2026-11-07,{key}", 50)
    load(program, "b.csv")
    cut = (key, "cut", Decimal("1.00"), "2026-11-07")
    assert table(program) == sorted([cut, *({FIVE, SIX} - {was})])

    write(program, "b.csv", f"cut,1.00,2026-11-07,{key}7\n", 40)
    load(program, "b.csv")
    assert table(program) == [FIVE, SIX, (key * 10 + 7, "cut", Decimal("1.00"), "2026-11-07")]
    assert program.ask("SELECT count(*) FROM file_event WHERE kind = 'record_completed'") == [(1,)]


def test_the_displaced_row_stays_away_when_only_the_line_end_was_missing(program: Program) -> None:
    """Then the last record was whole, and it wins."""
    write(program, "a.csv", FIRST)
    load(program, "a.csv")
    for end in ("", "\n"):
        write(program, "b.csv", f"last,2.00,2026-11-08,5{end}", 50)
        load(program, "b.csv")
    assert table(program) == [(5, "last", Decimal("2.00"), "2026-11-08"), SIX]


def test_a_row_that_was_changed_again_meanwhile_is_not_given_back(program: Program) -> None:
    """The newest file's record has the key; what lies two rows below is of no interest."""
    write(program, "a.csv", FIRST)
    load(program, "a.csv")
    write(program, "b.csv", "cut,1.00,2026-11-07,5", 50)
    load(program, "b.csv")
    write(program, "c.csv", "newest,3.00,2026-11-09,5\n", 45)
    load(program, "c.csv")
    write(program, "b.csv", "cut,1.00,2026-11-07,57\n", 40)
    load(program, "b.csv")
    newest = (5, "newest", Decimal("3.00"), "2026-11-09")
    assert table(program) == [newest, SIX, (57, "cut", Decimal("1.00"), "2026-11-07")]


@pytest.mark.parametrize("failpoint", ["before_commit@1", "after_commit@1", "before_rescue@1", "after_rescue@1"])
def test_a_kill_at_any_step_of_giving_back_loses_nothing(program: Program, failpoint: str) -> None:
    """Cut record, its completion and a kill in between: the same three rows."""
    write(program, "a.csv", FIRST)
    load(program, "a.csv")
    write(program, "b.csv", "cut,1.00,2026-11-07,5", 50)
    first = "commit" in failpoint
    load(program, "b.csv", code=137 if first else 0, failpoints=f"{failpoint}=kill" if first else None)
    write(program, "b.csv", "cut,1.00,2026-11-07,57\n", 40)
    if not first:
        load(program, "b.csv", code=137, failpoints=f"{failpoint}=kill")
    load(program, "b.csv")
    assert table(program) == [FIVE, SIX, (57, "cut", Decimal("1.00"), "2026-11-07")]
