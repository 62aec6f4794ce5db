"""What a backfill makes of files that were replaced, edited, moved, copied or cut."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from pathlib import Path

import pytest

from tests.program import Program, aged


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program in an empty directory."""
    return Program(tmp_path)


def rows(count: int, start: int = 0) -> str:
    """Return CSV rows with ids from `start` on."""
    return "".join(f"{n},name-{n:06d}\n" for n in range(start, start + count))


def kinds(program: Program) -> list[str]:
    """Return the kinds of all events, in order, without `discovered`."""
    query = "SELECT kind FROM file_event WHERE kind != 'discovered' ORDER BY id"
    return [row[0] for row in program.sql("o.db", query)]


def backfill(program: Program, *paths: str) -> list[str]:
    """Run a backfill that must succeed; return the outcomes of its files."""
    ended = program("backfill", *(paths or (".",)), "--db", "o.db", "--json")
    assert ended.code == 0, ended.out + ended.err
    return [one["outcome"] for one in ended.json["files"]]


@pytest.mark.parametrize("change", [-1, 1])
def test_a_corrected_export_with_one_row_more_or_less_leaves_only_its_own_rows(program: Program, change: int) -> None:
    """A replaced drop's old rows go in the transaction that finishes the new ones."""
    aged(program.write("orders.csv", "id,name\n" + rows(200)))
    backfill(program)
    aged(program.write("orders.csv", "id,name\n" + rows(200 + change, start=5)), 30)

    assert backfill(program) == ["replaced"]
    assert program.sql("o.db", "SELECT count(*), min(id) FROM orders") == [(200 + change, 5)]
    assert "superseded" in kinds(program)


def test_five_bytes_changed_in_the_middle_at_equal_size_are_noticed(program: Program) -> None:
    """Same size, same head, same tail: the ledger's digests tell."""
    path = aged(program.write("orders.csv", "id,name\n" + rows(500)))
    backfill(program)
    content = path.read_bytes()
    middle = content.index(b"name-000250")
    aged(program.write("orders.csv", content[:middle] + b"NAME-" + content[middle + 5 :]), 30)

    assert backfill(program) == ["replaced"]
    assert program.sql("o.db", "SELECT count(*) FROM orders") == [(500,)]
    assert program.sql("o.db", "SELECT name FROM orders WHERE id = 250") == [("NAME-000250",)]
    assert "edited_before_checkpoint" in kinds(program)


def test_an_interrupted_replacement_still_takes_the_old_rows_away(program: Program) -> None:
    """Killed between the batches of the new generation, the next run finishes the replacement."""
    aged(program.write("orders.csv", "id,name\n" + rows(300)))
    assert program("backfill", ".", "--db", "o.db", "--batch-rows", "100").code == 0
    aged(program.write("orders.csv", "id,name\n" + rows(300, start=1000)), 30)

    assert program("backfill", ".", "--db", "o.db", failpoints="before_commit@2=kill").code == 137
    backfill(program)

    assert program.sql("o.db", "SELECT count(*), min(id), max(id) FROM orders") == [(300, 1000, 1299)]


def test_a_log_truncated_and_rewritten_past_the_old_offset_is_a_new_generation(program: Program) -> None:
    """A followed file keeps the old rows and is read from 0."""
    log = "".join(f"2026-11-01 12:00:00 old line {n}\n" for n in range(50))
    aged(program.write("app.log", log))
    backfill(program)
    new = "".join(f"2026-11-02 08:30:00 new line {n}\n" for n in range(80))
    aged(program.write("app.log", new), 30)

    assert backfill(program) == ["replaced"]
    assert program.sql("o.db", "SELECT count(*) FROM app WHERE line LIKE '%old line%'") == [(50,)]
    assert program.sql("o.db", "SELECT count(*) FROM app WHERE line LIKE '%new line%'") == [(80,)]
    assert "replaced" in kinds(program)


def test_a_log_replaced_by_rename_and_a_moved_log_are_told_apart(program: Program) -> None:
    """The moved file keeps its generation, the new one under its name is read from 0."""
    path = aged(program.write("app.log", "".join(f"first file line {n:04d}\n" for n in range(50))))
    backfill(program)
    path.rename(program.directory / "app.log.1")
    aged(program.write("app.log", "".join(f"second file line {n:04d}\n" for n in range(20))), 30)

    assert sorted(backfill(program)) == ["loaded", "unchanged"]
    assert program.sql("o.db", "SELECT count(*) FROM app") == [(70,)]
    assert "renamed" in kinds(program)


def test_two_exports_with_one_header_are_two_generations(program: Program) -> None:
    """A shared header never makes one file of two."""
    header = "id,name,a_rather_long_column_name_that_fills_more_than_64_bytes_of_head\n"
    aged(program.write("orders-2026-11-01.csv", header + "1,a,x\n2,b,y\n"))
    aged(program.write("orders-2026-11-02.csv", header + "3,c,x\n4,d,y\n"), 30)

    assert backfill(program) == ["loaded", "loaded"]
    assert program.sql("o.db", "SELECT count(*), sum(id) FROM orders") == [(4, 10)]


def test_a_cumulative_export_whose_predecessor_is_gone_is_a_new_generation(program: Program) -> None:
    """Tomorrow's file begins with today's bytes and is read whole."""
    first = aged(program.write("orders-2026-11-01.csv", "id,name\n" + rows(100)))
    backfill(program)
    first.unlink()
    aged(program.write("orders-2026-11-02.csv", "id,name\n" + rows(150)), 30)

    assert backfill(program) == ["loaded"]
    assert program.sql("o.db", "SELECT count(*), sum(id) FROM orders") == [(250, sum(range(100)) + sum(range(150)))]


def test_the_same_content_under_a_new_name_is_a_visible_duplicate(program: Program) -> None:
    """A copy makes no rows, but an event that names the original; the next run says nothing new."""
    path = aged(program.write("orders.csv", "id,name\n" + rows(100)))
    backfill(program)
    shutil.copy2(path, program.directory / "orders (1).csv")

    assert sorted(backfill(program)) == ["duplicate", "unchanged"]
    assert program.sql("o.db", "SELECT count(*) FROM orders") == [(100,)]
    assert kinds(program) == ["duplicate"]
    assert sorted(backfill(program)) == ["unchanged", "unchanged"]


def test_a_drop_moved_aside_keeps_its_rows_when_its_name_is_used_again(program: Program) -> None:
    """Rows are superseded only when their content is nowhere any more."""
    path = aged(program.write("orders.csv", "id,name\n" + rows(100)))
    backfill(program)
    path.rename(program.directory / "orders-2026-10.csv")
    aged(program.write("orders.csv", "id,name\n" + rows(50, start=500)), 30)

    backfill(program)
    assert program.sql("o.db", "SELECT count(*) FROM orders") == [(150,)]


def test_a_reused_inode_does_not_make_a_new_file_an_old_one(program: Program) -> None:
    """A file rewritten in place has the old inode and other content."""
    path = aged(program.write("app.log", "".join(f"old content {n:05d}\n" for n in range(30))))
    inode = path.stat().st_ino
    backfill(program)
    with path.open("r+b") as file:
        file.truncate(0)
        file.write(b"".join(b"new content %05d\n" % n for n in range(10)))
    aged(path, 30)

    assert path.stat().st_ino == inode
    assert backfill(program) == ["replaced"]
    assert program.sql("o.db", "SELECT count(*) FROM app WHERE line LIKE 'new content%'") == [(10,)]
    assert "truncated" in kinds(program)


def test_a_log_cut_back_by_a_power_failure_goes_on_from_the_common_point(program: Program) -> None:
    """Same head, shorter, another boot: nothing is read again, what follows is new."""
    lines = [f"power failure line {n:05d}\n" for n in range(1000)]
    path = aged(program.write("app.log", "".join(lines)))
    assert program("backfill", ".", "--db", "o.db", "--batch-rows", "100").code == 0
    program.sql("o.db", "UPDATE worker SET boot_id = 'another-boot'")
    path.write_text("".join(lines[:450]) + "after the reboot\n")
    aged(path, 30)

    backfill(program)

    assert "rolled_back" in kinds(program)
    assert program.sql("o.db", "SELECT count(*) FROM app WHERE line = 'after the reboot'") == [(1,)]
    (start,) = program.sql("o.db", "SELECT start_offset FROM collection_task ORDER BY id DESC LIMIT 1")[0]
    assert start == len("".join(lines[:450]))
    assert program.sql("o.db", "SELECT max(n) FROM (SELECT count(*) AS n FROM app GROUP BY line)") == [(1,)]


def test_zip_codes_stay_text_in_either_order_of_files(program: Program) -> None:
    """Every file of the family is sampled before the table exists."""
    for first, second in (("94105", "00501"), ("00501", "94105")):
        directory = f"run-{first}"
        aged(program.write(f"{directory}/people-1.csv", f"name,zip\nann,{first}\n"))
        aged(program.write(f"{directory}/people-2.csv", f"name,zip\nbob,{second}\n"), 30)
        ended = program("backfill", directory, "--db", f"{directory}.db")
        assert ended.code == 0, ended.err
        found = program.sql(f"{directory}.db", "SELECT zip, typeof(zip) FROM people ORDER BY zip")
        assert found == [("00501", "text"), ("94105", "text")]


def test_a_later_misfit_keeps_its_row_and_names_the_way_out(program: Program) -> None:
    """NULL in the column, the raw value in _extra, exit 1 and a hint."""
    path = aged(program.write("orders.csv", "id,zip\n1,94105\n2,10001\n"))
    backfill(program)
    with path.open("a") as file:
        file.write("3,00501\n")
    aged(path, 30)

    ended = program("backfill", ".", "--db", "o.db")

    assert ended.code == 1
    assert "filecollect sources retype orders zip text" in ended.out
    assert program.sql("o.db", "SELECT id, zip, _extra FROM orders WHERE id = 3") == [(3, None, '{"zip":"00501"}')]


def test_good_files_load_beside_an_unreadable_and_a_binary_one(program: Program) -> None:
    """20 loaded, exit 1, both bad ones named; the image and the PDF are only skipped."""
    for number in range(1, 21):
        aged(program.write(f"drop/orders-{number}.csv", f"id,name\n{number},n{number}\n"))
    aged(program.write("drop/orders-21.csv", bytes(range(256)) * 20))
    aged(program.write("drop/logo.png", b"\x89PNG\r\n\x1a\n" + bytes(64)))
    aged(program.write("drop/manual.pdf", b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n" + b"x" * 64))
    locked = aged(program.write("drop/orders-22.csv", "id,name\n22,n22\n"))
    locked.chmod(0)

    ended = program.run("backfill", "drop", "--db", "o.db", "--json", powerless=True)

    outcomes = {Path(one["path"]).name: one["outcome"] for one in ended.json["files"]}
    assert ended.code == 1
    assert program.sql("o.db", "SELECT count(*), sum(id) FROM orders") == [(20, 210)]
    assert outcomes["orders-21.csv"] == "failed"
    assert outcomes["orders-22.csv"] == "failed"
    assert outcomes["logo.png"] == "skipped"
    assert outcomes["manual.pdf"] == "skipped"


def test_images_and_documents_alone_are_no_failure(program: Program) -> None:
    """Skipped files exit 0, and 1 with --strict."""
    aged(program.write("drop/logo.png", b"\x89PNG\r\n\x1a\n" + bytes(64)))
    aged(program.write("drop/orders.csv", "id,name\n1,a\n"))

    assert program("backfill", "drop", "--db", "o.db").code == 0
    assert program("backfill", "drop", "--db", "o.db", "--strict").code == 1


def test_awkward_column_names_are_kept_and_quoted(program: Program) -> None:
    """A keyword, a quote, an emoji, names that differ only in case."""
    aged(program.write("odd.csv", 'select,say "hi",🙂,a,A,a,a_1,_offset\n1,2,3,4,5,6,7,8\n'))
    backfill(program)

    columns = [row[1] for row in program.sql("o.db", "PRAGMA table_info(odd)")]
    assert columns[:8] == ["select", 'say "hi"', "🙂", "a", "A_2", "a_3", "a_1", "_offset_2"]
    assert program.sql("o.db", 'SELECT "select", "A_2", "a_3", "_offset_2" FROM odd') == [(1, 5, 6, 8)]


def test_three_hundred_columns_load(program: Program) -> None:
    """A wide table is no special case."""
    header = ",".join(f"column_{n}" for n in range(300))
    aged(program.write("wide.csv", header + "\n" + ",".join(str(n) for n in range(300)) + "\n"))
    backfill(program)
    assert program.sql("o.db", "SELECT column_0, column_299 FROM wide") == [(0, 299)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("backfill", "missing.csv", "--db", "o.db"), "missing.csv"),
        (("backfill", "a.csv", "--db", "no/such/directory/o.db"), "no/such/directory"),
        (("backfill", "a.csv", "--db", "o.db", "--format", "xml"), "xml"),
        (("backfill", "out.db", "a.csv"), "--db out.db"),
        (("backfill", "a.csv", "--db", "o.db", "--key", "nope"), "nope"),
        (("backfill", "a.csv", "--db", "o.db", "--set", "folow=true"), "follow"),
        (("backfill", "a.csv", "--db", "o.db", "--set", "quarantine_stop=5"), "does not act on"),
        (("backfill", "-", "--db", "o.db"), "standard input"),
        (("backfill", "https://example.org/a.csv", "--db", "o.db"), "URLs"),
    ],
)
def test_a_call_that_cannot_be_meant_exits_2_with_one_sentence(
    program: Program, words: tuple[str, ...], said: str
) -> None:
    """No traceback, nothing touched."""
    aged(program.write("a.csv", "id\n1\n"))
    aged(program.write("out.db", "x"))

    ended = program.run(*words)

    assert ended.code == 2
    assert said in ended.err
    assert "Traceback" not in ended.err
    assert not (program.directory / "o.db").exists()


def test_a_bad_config_names_every_mistake_with_its_line(program: Program) -> None:
    """File, line, key, expected and got."""
    program.write("filecollect.toml", '[source.a]\npaths = ["x/*.csv"]\nfolow = true\nbatch_rows = "many"\n')

    ended = program.run("backfill")

    assert ended.code == 2
    assert "filecollect.toml:3" in ended.err
    assert "filecollect.toml:4" in ended.err
    assert "follow" in ended.err


def test_a_glob_without_matches_is_a_warning(program: Program) -> None:
    """Nothing to do is no failure."""
    ended = program.run("backfill", "*.csv", "--db", "o.db")
    assert ended.code == 0
    assert "*.csv" in ended.err


def test_configured_sources_load_with_declared_columns(program: Program) -> None:
    """Declared columns, a key and a database of the config."""
    aged(program.write("drop/orders.csv", "order_id,amount\n1,10.50\n2,7\n1,11.00\nx,1\n"))
    program.write(
        "filecollect.toml",
        'database = "o.db"\n[source.orders]\npaths = ["drop/*.csv"]\nfollow = false\nkey = ["order_id"]\n'
        'columns = { order_id = "integer", amount = "decimal(12,2)" }\n',
    )

    ended = program("backfill", "--json")

    assert ended.code == 1, ended.err
    assert program.sql("o.db", "SELECT order_id, amount FROM orders ORDER BY 1") == [(1, "11.00"), (2, "7")]
    assert program.sql("o.db", "SELECT reason FROM quarantined_item") == [("misfit",)]


def test_the_later_file_wins_a_key(program: Program) -> None:
    """Later is by age of the file, then position, in one batch or several."""
    aged(program.write("drop/day-1.csv", "id,value\n1,old\n2,old\n"), 600)
    aged(program.write("drop/day-2.csv", "id,value\n2,new\n3,new\n"), 60)

    ended = program("backfill", "drop", "--db", "o.db", "--key", "id", "--table", "days", "--json")

    assert ended.code == 0, ended.err
    assert program.sql("o.db", "SELECT id, value FROM days ORDER BY id") == [(1, "old"), (2, "new"), (3, "new")]
    assert ended.json["rows"] == {"inserted": 3, "updated": 1, "ignored": 0}


def test_items_without_a_schema_keep_the_payload(program: Program) -> None:
    """`collected_item` holds the record as it was, under its key or position."""
    aged(program.write("app.jsonl", '{"id":"a","n":1.10}\n{"id":"b"}\n'))

    ended = program(
        "backfill", "app.jsonl", "--db", "o.db", "--table", "collected_item", "--source", "app", "--key", "id"
    )

    assert ended.code == 0, ended.err
    assert program.sql("o.db", "SELECT source_key, source_item_id, payload FROM collected_item ORDER BY id") == [
        ("app", "a", '{"id":"a","n":1.10}'),
        ("app", "b", '{"id":"b"}'),
    ]


def test_help_does_not_import_sqlalchemy(program: Program) -> None:
    """`--help` answers at once."""
    probe = (
        "import sys\nfrom filecollect.cli.main import main\nsys.argv = ['filecollect', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\nprint('sqlalchemy' in sys.modules)"
    )
    import subprocess

    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, env=program.environment(), check=True
    )
    assert done.stdout.splitlines()[-1] == "False"


def test_init_writes_a_config_and_touches_nothing_else(program: Program) -> None:
    """The data file stays as it is, and the config is never overwritten."""
    path = aged(program.write("app.jsonl", '{"id":1}\n'))
    before = path.stat().st_mtime_ns, path.read_bytes()

    assert program.run("init", "app.jsonl").code == 0
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before
    assert (program.directory / "filecollect.toml").exists()
    assert program.run("init", "app.jsonl").code == 2
    assert program.run("check").code == 0


def test_a_quarantined_record_is_retried_after_the_source_was_repaired(program: Program) -> None:
    """A record that the table's own rule refuses goes in once the rule is gone."""
    aged(program.write("drop/a.jsonl", '{"id":1}\n{"id":2}\nnot json\n'))
    assert program("backfill", "drop", "--db", "o.db", "--table", "t").code == 1
    listed = program.run("quarantine", "list", "--db", "o.db", "--json")
    assert listed.code == 0
    assert program.run("quarantine", "retry", "--all", "--db", "o.db").code == 1
    assert program.run("quarantine", "discard", "--all", "--db", "o.db").code == 0
    assert program.sql("o.db", "SELECT state FROM quarantined_item") == [("discarded",)]


def test_a_foreign_table_is_never_written_by_a_guess(program: Program) -> None:
    """A family whose name is a table of somebody else gets a name of its own."""
    with sqlite3.connect(program.directory / "o.db") as conn:
        conn.execute("CREATE TABLE orders (id INTEGER, note TEXT)")
    conn.close()
    aged(program.write("drop/orders.csv", "id,name\n1,a\n"))

    assert program("backfill", "drop", "--db", "o.db").code == 0
    assert program.sql("o.db", "SELECT count(*) FROM orders") == [(0,)]
    assert program.sql("o.db", "SELECT count(*) FROM orders_2") == [(1,)]


def test_a_dry_run_writes_nothing(program: Program) -> None:
    """It says what would be loaded, and makes no database."""
    aged(program.write("drop/orders.csv", "id,name\n1,a\n"))

    ended = program.run("backfill", "drop", "--db", "o.db", "--dry-run", "--json")

    assert ended.code == 0, ended.err
    assert [one["outcome"] for one in ended.json["files"]] == ["loaded"]
    assert list(program.directory.glob("o.db*")) == []


def test_a_file_whose_retry_is_not_due_is_left_and_named(program: Program) -> None:
    """A failed try waits for its time; the round says so and exits 1."""
    aged(program.write("drop/orders.csv", "id,name\n1,a\n"))
    assert program("backfill", "drop", "--db", "o.db", failpoints="after_open=error").code == 1

    ended = program("backfill", "drop", "--db", "o.db")

    assert ended.code == 1
    assert "to be tried again after" in ended.out
    program.sql("o.db", "UPDATE collection_task SET next_run_at = '2026-01-01 00:00:00.000'")
    assert program("backfill", "drop", "--db", "o.db").code == 0
    assert program.sql("o.db", "SELECT count(*) FROM orders") == [(1,)]


def test_a_path_that_a_configured_source_matches_goes_to_that_source(program: Program) -> None:
    """The config's settings count for a PATH, too; other files form families."""
    aged(program.write("drop/orders-1.csv", "id,amount\n1,2\n"))
    aged(program.write("drop/people.csv", "id,name\n1,a\n"))
    program.write(
        "filecollect.toml",
        'database = "o.db"\n[source.sales]\npaths = ["drop/orders*.csv"]\nfollow = false\n'
        'columns = { amount = "text" }\n',
    )

    assert program("backfill", "drop").code == 0
    assert program.sql("o.db", "SELECT source_key FROM collection_source ORDER BY 1") == [("people",), ("sales",)]
    assert program.sql("o.db", "SELECT amount, typeof(amount) FROM sales") == [("2", "text")]


def test_a_config_that_contradicts_what_was_decided_is_refused_with_the_difference(program: Program) -> None:
    """A started source is never silently read in another way."""
    aged(program.write("drop/orders.csv", "id,amount\n1,2\n"))
    config = 'database = "o.db"\n[source.orders]\npaths = ["drop/*.csv"]\nfollow = false\n'
    program.write("filecollect.toml", config)
    assert program("backfill").code == 0
    program.write("filecollect.toml", config + 'key = ["id"]\n')

    refused = program("backfill")

    assert refused.code == 2
    assert "key" in refused.err
    assert "replay orders --set key=" in refused.err

    assert program.run("replay", "orders", "--set", 'key=["id"]').code == 0
    assert program("backfill").code == 0
    assert program.sql("o.db", "SELECT id, amount FROM orders") == [(1, 2)]


def test_a_replay_with_other_settings_makes_the_table_anew(program: Program) -> None:
    """Types, names and NULL words are decided again from the files, in one transaction."""
    aged(program.write("drop/people.csv", "id,zip\n1,94105\n2,NA\n"))
    assert program("backfill", "drop", "--db", "o.db").code == 0
    assert program.sql("o.db", "SELECT zip, typeof(zip) FROM people") == [("94105", "text"), ("NA", "text")]

    command = ("replay", "people", "--db", "o.db", "--set", 'null=["NA"]')
    assert program(*command, failpoints="before_rescue=kill").code == 137
    assert program.sql("o.db", "SELECT count(*) FROM people") == [(2,)]
    assert program(*command).code == 0
    assert program("backfill", "drop", "--db", "o.db").code == 0
    assert program.sql("o.db", "SELECT zip, typeof(zip) FROM people") == [(94105, "integer"), (None, "null")]


def test_a_named_table_of_somebody_else_is_altered_only_when_allowed(program: Program) -> None:
    """The statements are shown; with --alter the rows go in, unknown columns to _extra."""
    program.sql("o.db", "CREATE TABLE people (id INTEGER, name TEXT, born DATE)")
    program.sql("o.db", "INSERT INTO people VALUES (7, 'there before', NULL)")
    aged(program.write("people.csv", "id,name,shoe\n1,ann,38\n"))
    command = ("backfill", "people.csv", "--db", "o.db", "--table", "people")

    refused = program.run(*command)
    assert refused.code == 2
    assert 'ALTER TABLE "people" ADD COLUMN "_task_id" BIGINT' in refused.err
    assert [row[1] for row in program.sql("o.db", "PRAGMA table_info(people)")] == ["id", "name", "born"]

    assert program(*command, "--alter").code == 0
    assert program.sql("o.db", "SELECT id, name, born, _extra FROM people ORDER BY id") == [
        (1, "ann", None, '{"shoe":"38"}'),
        (7, "there before", None, None),
    ]
    assert program(*command).code == 0
    assert program.sql("o.db", "SELECT count(*) FROM people") == [(2,)]


def test_many_files_of_the_same_content_are_one_and_its_duplicates(program: Program) -> None:
    """All of them are candidates for one another; each is decided on."""
    for number in range(60):
        aged(program.write(f"copies/{number}.csv", "id,name\n" + "".join(f"{n},someone or other\n" for n in range(9))))

    done = program("backfill", "copies", "--db", "o.db", "--json")

    outcomes = [one["outcome"] for one in done.json["files"]]
    assert (outcomes.count("loaded"), outcomes.count("duplicate")) == (1, 59)
    assert program.sql("o.db", "SELECT count(*) FROM copies") == [(9,)]


@pytest.mark.parametrize("rule", ["ignore", "quarantine"])
def test_a_batch_whose_keys_are_all_there_already_ends(rule: str, program: Program) -> None:
    """Nothing is left to be written: the first ones stay, the later ones are ignored or quarantined."""
    aged(program.write("k/k-1.csv", "id,v\n1,a\n"))
    assert program("backfill", "k", "--db", "o.db", "--key", "id", "--set", f'on_conflict="{rule}"').code == 0
    aged(program.write("k/k-2.csv", "id,v\n1,bb\n"))

    assert program("backfill", "k", "--db", "o.db", "--workers", "1").code == (1 if rule == "quarantine" else 0)

    assert program.sql("o.db", "SELECT id, v FROM k") == [(1, "a")]


def test_a_table_of_our_own_is_never_a_destination(program: Program) -> None:
    """In whatever case it is written, and whatever is allowed."""
    aged(program.write("evil.csv", "id,path\n77,/etc/passwd\n"))
    for name in ("collection_task", "Worker"):
        refused = program("backfill", "evil.csv", "--db", "o.db", "--table", name, "--alter")
        assert (refused.code, "tables of that name" in refused.err) == (2, True)


def test_a_file_that_is_gone_is_not_replayed(program: Program) -> None:
    """Its rows could not be read again: nothing is touched."""
    path = aged(program.write("gone.csv", "id,v\n1,a\n"))
    assert program("backfill", "gone.csv", "--db", "o.db").code == 0
    path.unlink()

    refused = program("replay", "gone", "--db", "o.db")

    assert (refused.code, "the file is gone" in refused.err) == (2, True)
    assert program.sql("o.db", "SELECT id, v FROM gone") == [(1, "a")]
