"""A backfill that is killed goes on where its last commit stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program import Program, aged


@pytest.fixture(params=["sqlite", "postgresql"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Program:
    """The program in an empty directory, with a database of each kind."""
    return Program(tmp_path, "o.db" if request.param == "sqlite" else request.getfixturevalue("postgres_url"))


def thousand_lines() -> str:
    """Return 1,000 JSON lines with ids 1..1000."""
    return "".join(f'{{"id":{n},"m":"line {n}"}}\n' for n in range(1, 1001))


@pytest.mark.parametrize(
    ("failpoint", "rows"),
    [
        ("after_fetch@3=kill", 200),
        ("after_fence@3=kill", 200),
        ("after_rows@3=kill", 200),
        ("before_commit@3=kill", 200),
        ("after_commit@3=kill", 300),
    ],
)
def test_rows_and_checkpoint_of_a_killed_run_agree_and_the_next_run_completes(
    program: Program, failpoint: str, rows: int
) -> None:
    """Whatever step the kill hits, committed batches stand whole, and nothing is lost or doubled."""
    aged(program.write("app.jsonl", thousand_lines()))

    killed = program(
        "backfill", "app.jsonl", "--db", program.database, "--batch-rows", "100", "--workers", "1", failpoints=failpoint
    )

    assert killed.code == 137
    assert program.ask("SELECT count(*), max(id) FROM app") == [(rows, rows)]
    ledger = program.ask("SELECT max(end_offset) FROM committed_batch")
    assert ledger == program.ask("SELECT content_offset FROM collection_task")

    resumed = program("backfill", "app.jsonl", "--db", program.database)

    assert resumed.code == 0, resumed.err
    assert program.ask("SELECT count(*), count(DISTINCT id), sum(id) FROM app") == [(1000, 1000, 500500)]
    assert program.ask("SELECT count(*) FROM committed_batch") == [(10,)]
    if not program.is_served:
        assert sorted(path.name for path in program.directory.glob("o.db*")) == ["o.db"]
    takeovers = program.ask("SELECT count(*) FROM file_event WHERE kind = 'takeover'")
    assert takeovers == [(1,)]


def test_a_kill_in_a_worker_process_ends_the_command_with_137(program: Program) -> None:
    """With several worker processes the command tells that a child was killed."""
    line = '{"id":1,"text":"' + "x" * 200 + '"}\n'
    for number in range(3):
        aged(program.write(f"logs/part{number}/app.jsonl", f'{{"id":0,"n":{number}}}\n' + line * 40_000))

    killed = program("backfill", "logs", "--db", program.database, "--workers", "2", failpoints="before_commit@2=kill")
    assert killed.code == 137
    resumed = program("backfill", "logs", "--db", program.database, "--workers", "2")
    assert resumed.code == 0, resumed.err
    assert program.ask("SELECT count(*), sum(id) FROM app") == [(120_003, 120_000)]


def test_a_second_run_reads_nothing(program: Program) -> None:
    """What is loaded is left alone, and the database itself is never read."""
    aged(program.write("exports/orders.csv", "id,name\n1,a\n2,b\n"))
    aged(program.write("exports/app.jsonl", thousand_lines()))

    first = program("backfill", "exports", "--db", "exports/filecollect.db", "--json")
    second = program("backfill", "exports", "--db", "exports/filecollect.db", "--json")

    assert first.code == 0, first.err
    assert first.json["rows"] == {"inserted": 1002, "updated": 0, "ignored": 0}
    assert second.code == 0, second.err
    assert second.json["rows"] == {"inserted": 0, "updated": 0, "ignored": 0}
    assert [one["outcome"] for one in second.json["files"]] == ["unchanged", "unchanged"]


def test_a_half_written_record_waits_until_it_is_complete(program: Program) -> None:
    """A last line that does not parse is left while the file is young, then read whole."""
    path = program.write("p.jsonl", '{"id":1}\n{"id":2')

    first = program("backfill", "p.jsonl", "--db", program.database)
    assert first.code == 1
    assert program.ask("SELECT id FROM p") == [(1,)]
    with path.open("a") as file:
        file.write("2}\n")
    second = program("backfill", "p.jsonl", "--db", program.database)

    assert second.code == 0, second.err
    assert program.ask("SELECT id FROM p ORDER BY _offset") == [(1,), (22,)]


def test_an_old_half_record_is_quarantined_and_replaced_when_it_is_completed(program: Program) -> None:
    """A last record that never ended is kept in quarantine; completed after all, it becomes its row."""
    path = aged(program.write("p.jsonl", '{"id":1}\n{"id":2'))

    assert program("backfill", "p.jsonl", "--db", program.database).code == 1
    assert program.ask("SELECT reason, raw, start_offset FROM quarantined_item") == [
        ("truncated_record", b'{"id":2', 9)
    ]
    with path.open("a") as file:
        file.write("2}\n")
    second = program("backfill", "p.jsonl", "--db", program.database)

    assert second.code == 0, second.err
    assert program.ask("SELECT id FROM p ORDER BY _offset") == [(1,), (22,)]
    assert program.ask("SELECT count(*) FROM quarantined_item") == [(0,)]
    assert program.ask("SELECT count(*) FROM file_event WHERE kind = 'record_completed'") == [(1,)]


def test_a_last_line_without_its_end_is_a_row_and_its_line_end_adds_nothing(program: Program) -> None:
    """A file without a final newline loads whole; the newline that comes later is no record."""
    path = aged(program.write("p.jsonl", '{"id":1}\n{"id":2}'))

    assert program("backfill", "p.jsonl", "--db", program.database).code == 0
    assert program.ask("SELECT id FROM p ORDER BY _offset") == [(1,), (2,)]
    with path.open("a") as file:
        file.write('\n{"id":3}\n')
    assert program("backfill", "p.jsonl", "--db", program.database).code == 0
    assert program.ask("SELECT id FROM p ORDER BY _offset") == [(1,), (2,), (3,)]


def test_ten_appended_records_are_exactly_ten_more(program: Program) -> None:
    """A grown export is read from its checkpoint on."""
    path = aged(program.write("orders.csv", "id,name\n" + "".join(f"{n},n{n}\n" for n in range(100))))
    assert program("backfill", "orders.csv", "--db", program.database).code == 0
    with path.open("a") as file:
        file.write("".join(f"{n},n{n}\n" for n in range(100, 110)))

    again = program("backfill", "orders.csv", "--db", program.database, "--json")

    assert again.json["rows"]["inserted"] == 10
    assert [one["outcome"] for one in again.json["files"]] == ["continued"]
    assert program.ask("SELECT count(*), sum(id) FROM orders") == [(110, sum(range(110)))]


def test_a_table_that_is_gone_is_refused_with_the_way_out(program: Program) -> None:
    """A dropped table is never filled from the middle."""
    aged(program.write("app.jsonl", thousand_lines()))
    assert program("backfill", "app.jsonl", "--db", program.database).code == 0
    program.ask("DROP TABLE app")

    refused = program("backfill", "app.jsonl", "--db", program.database)
    assert refused.code == 2
    assert "replay app" in refused.err
    assert "sources forget app" in refused.err

    assert program.run("replay", "app", "--db", program.database).code == 0
    assert program("backfill", "app.jsonl", "--db", program.database).code == 0
    assert program.ask("SELECT count(*), sum(id) FROM app") == [(1000, 500500)]
