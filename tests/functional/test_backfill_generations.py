"""Whose rows go when a file changes: copies of it, its dead reader, files under other names."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.daemon import daemon, wait_until
from tests.program import Program, aged


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program in an empty directory."""
    return Program(tmp_path)


def table(*ids: int) -> str:
    """Return a CSV file with these ids, longer than a head."""
    return "id,name\n" + "".join(f"{n},name-{n:06d}\n" for n in ids)


def outcomes(program: Program, *paths: str) -> dict[str, str]:
    """Run a backfill that must succeed; return the outcome of each file by its name."""
    ended = program("backfill", *(paths or (".",)), "--db", "o.db", "--json")
    assert ended.code == 0, ended.out + ended.err
    return {Path(one["path"]).name: one["outcome"] for one in ended.json["files"]}


def ids(program: Program) -> list[int]:
    """Return the ids in the table, sorted."""
    return [row[0] for row in program.sql("o.db", "SELECT id FROM orders ORDER BY id")]


def copied(program: Program, *names: str) -> None:
    """Load orders.csv with ids 1 to 9, then meet copies of it under `names`."""
    path = aged(program.write("orders.csv", table(*range(1, 10))))
    assert outcomes(program) == {"orders.csv": "loaded"}
    for name in names:
        shutil.copy2(path, program.directory / name)
    assert outcomes(program) == {"orders.csv": "unchanged", **dict.fromkeys(names, "duplicate")}


@pytest.mark.parametrize("change", ["edited", "replaced"])
def test_rows_that_a_copy_still_holds_stay_when_the_original_changes(program: Program, change: str) -> None:
    """The copy was passed over for the sake of the original's rows, so it keeps them."""
    copied(program, "orders-1.csv")
    new = (11, 12, 13, 14, 15) if change == "replaced" else (1, 2, 3, 4, 5, 6, 7, 8, 19)
    aged(program.write("orders.csv", table(*new)), 30)

    assert outcomes(program) == {"orders.csv": "replaced", "orders-1.csv": "unchanged"}
    assert ids(program) == sorted([*range(1, 10), *new])
    assert set(outcomes(program).values()) == {"unchanged"}
    assert ids(program) == sorted([*range(1, 10), *new])


def test_only_one_of_several_copies_takes_the_rows_over(program: Program) -> None:
    """The others are duplicates of that one from then on; when that one changes, the next takes over."""
    copied(program, "orders-1.csv", "orders-2.csv")
    aged(program.write("orders.csv", table(11, 12, 13, 14, 15)), 30)
    assert outcomes(program)["orders.csv"] == "replaced"
    assert ids(program) == [*range(1, 10), *range(11, 16)]

    aged(program.write("orders-1.csv", table(21, 22, 23, 24, 25)), 60)
    outcomes(program)
    assert ids(program) == [*range(1, 10), *range(11, 16), *range(21, 26)]

    aged(program.write("orders-2.csv", table(31, 32, 33, 34, 35)), 90)
    outcomes(program)
    assert ids(program) == [*range(11, 16), *range(21, 26), *range(31, 36)]


def test_a_copy_outside_of_this_round_keeps_the_rows_all_the_same(program: Program) -> None:
    """Only the original is named; the copy is looked at because the original changed."""
    copied(program, "orders-1.csv")
    aged(program.write("orders.csv", table(11, 12, 13, 14, 15)), 30)

    assert outcomes(program, "orders.csv") == {"orders.csv": "replaced"}
    assert ids(program) == [*range(1, 10), *range(11, 16)]
    assert program.sql("o.db", "SELECT count(*) FROM file_event WHERE kind = 'superseded'") == [(0,)]


def test_a_copy_whose_original_was_superseded_first_is_read_itself(program: Program) -> None:
    """Killed before the copy was looked at, with only the original named: the next look loads the copy."""
    copied(program, "orders-1.csv")
    aged(program.write("orders.csv", table(11, 12, 13, 14, 15)), 30)

    assert program("backfill", "orders.csv", "--db", "o.db", failpoints="after_record@1=kill").code == 137
    outcomes(program, "orders.csv")
    assert outcomes(program)["orders-1.csv"] in {"loaded", "unchanged"}
    assert ids(program) == [*range(1, 10), *range(11, 16)]


def test_a_copy_that_is_gone_takes_no_rows_over(program: Program) -> None:
    """Then the content is nowhere any more, and its rows go."""
    copied(program, "orders-1.csv")
    (program.directory / "orders-1.csv").unlink()
    aged(program.write("orders.csv", table(11, 12, 13, 14, 15)), 30)

    assert outcomes(program) == {"orders.csv": "replaced"}
    assert ids(program) == [11, 12, 13, 14, 15]


def test_a_drop_that_grew_while_its_reader_lay_dead_is_read_to_its_new_end(program: Program) -> None:
    """The dead reader's upper bound is older than this round's."""
    aged(program.write("orders.csv", table(*range(1, 101))))
    killed = program("backfill", ".", "--db", "o.db", "--batch-rows", "50", failpoints="before_commit@2=kill")
    assert killed.code == 137
    with (program.directory / "orders.csv").open("a") as file:
        file.write("".join(f"{n},name-{n:06d}\n" for n in range(101, 121)))

    assert outcomes(program) == {"orders.csv": "continued"}
    assert ids(program) == list(range(1, 121))


def test_a_drop_replaced_before_its_first_commit_is_a_generation_of_its_own(program: Program) -> None:
    """Nothing was read of the first one; the head tells that this is another file."""
    aged(program.write("orders.csv", table(*range(1, 101))))
    assert program("backfill", ".", "--db", "o.db", failpoints="before_commit@1=kill").code == 137
    aged(program.write("orders.csv", table(*range(301, 402))), 30)

    outcomes(program)
    assert ids(program) == list(range(301, 402))
    statuses = program.sql("o.db", "SELECT status FROM collection_task ORDER BY id")
    assert [status for (status,) in statuses] == ["skipped", "succeeded"]


def test_the_daemon_lets_a_copy_take_the_rows_over_too(tmp_path: Path) -> None:
    """Only the original has changed since the last scan; nobody touched its copy."""
    with daemon(tmp_path) as one:
        one.config('[source.orders]\npaths = ["drop/*.csv"]\nformat = "csv"\nfollow = false\nsettle_s = 0\n')
        (tmp_path / "drop").mkdir()
        path = tmp_path / "drop/orders.csv"
        path.write_text(table(*range(1, 10)))
        aged(path)
        one.start()
        one.wait_for("orders", 9)
        shutil.copy2(path, tmp_path / "drop/orders-1.csv")
        wait_until(lambda: "duplicate" in one.kinds())
        new = tmp_path / "new.csv"
        new.write_text(table(11, 12, 13, 14, 15))
        aged(new, 30).rename(path)
        one.wait_for("orders", 14)
        one.stop()
        assert sorted(row[0] for row in one.sql("SELECT id FROM orders")) == [*range(1, 10), *range(11, 16)]
