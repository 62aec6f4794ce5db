"""What is stored is what was parsed: every type, every awkward text, on both databases."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import Engine

from filecollect.domain.batch import Records
from filecollect.domain.columns import Column, Layout
from filecollect.errors import BatchTooBad, InvariantError
from filecollect.store.database import Target, database_of
from filecollect.store.destination import Destination, Origin, Written
from filecollect.store.engine import reading, transaction
from filecollect.store.postgresql import copy_text
from filecollect.store.stored import same_values, stored_rows

TEXTS = [
    "",
    "plain",
    " leading and trailing ",
    "tab\there",
    "line\nend",
    "carriage\rreturn",
    "back\\slash \\N \\. \\t",
    "\\N",
    "NULL",
    "null",
    '"quoted", {braces}, (brackets)',
    "é ü ñ 日本語 \U0001f600",
    "%s ? :x $1",
    "'; DROP TABLE t; --",
    "\x01\x7f\u200b\ufeff",
]


def destination(*columns: tuple[str, str], key: tuple[str, ...] = (), **more: Any) -> Destination:
    """Return a table of columns (name, type); `timestamptz` and `verbatim` are kinds of their own."""
    made = []
    for name, kind in columns:
        base = {"timestamptz": "timestamp", "verbatim": "json"}.get(kind, kind)
        made.append(Column(name, name, base, zoned=kind == "timestamptz", verbatim=kind == "verbatim"))
    return Destination("s", "t", Layout(tuple(made), key), **more)


def write(engine: Engine, to: Destination, rows: Sequence[Sequence[Any]], *, start: int = 0, task: int = 1) -> Written:
    """Write rows of one task, one byte each, and commit."""
    offsets = list(range(start, start + len(rows)))
    records = Records([list(column) for column in zip(*rows, strict=True)], offsets, [1] * len(rows), offsets)
    with transaction(engine) as conn:
        to.create(conn)
        (written,) = to.write(conn, [(records, Origin(task, "g" * 32, "/f", "2026-11-01 00:00:00.000"))])
    return written


def ask(engine: Engine, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with reading(engine) as conn:
        return [tuple(row) for row in conn.exec_driver_sql(query)]


def test_values_of_every_type_are_stored_as_the_contract_says(database: Engine) -> None:
    """PostgreSQL has its own types; SQLite has text that sorts and loses nothing."""
    to = destination(
        ("text", "text"),
        ("whole", "integer"),
        ("real", "real"),
        ("exact", "decimal"),
        ("money", "decimal(12,2)"),
        ("yes", "boolean"),
        ("day", "date"),
        ("naive", "timestamp"),
        ("zoned", "timestamptz"),
        ("tree", "json"),
    )
    row = (
        "x",
        2**63 - 1,
        0.1,
        "12345678901234567890.1234567890",
        "1.50",
        True,
        "2026-02-28",
        "2026-11-01 01:30:00",
        "2026-11-01 01:30:00.123456",
        '{"a":[1,2.50,null]}',
    )
    nothing = (None,) * len(row)

    assert write(database, to, [row, nothing]).inserted == 2

    found = ask(
        database, "SELECT text, whole, real, exact, money, yes, day, naive, zoned, tree FROM t ORDER BY _offset"
    )
    assert found[1] == nothing
    if database.dialect.name == "sqlite":
        assert found[0] == (*row[:5], 1, *row[6:])
        return
    assert found[0] == (
        "x",
        2**63 - 1,
        0.1,
        Decimal("12345678901234567890.1234567890"),
        Decimal("1.50"),
        True,
        date(2026, 2, 28),
        datetime(2026, 11, 1, 1, 30),
        datetime(2026, 11, 1, 1, 30, 0, 123456, tzinfo=UTC),
        {"a": [1, 2.5, None]},
    )
    types = "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass"
    assert dict(ask(database, f"{types} AND attnum BETWEEN 1 AND 10")) == {
        "text": "text",
        "whole": "bigint",
        "real": "double precision",
        "exact": "numeric",
        "money": "numeric(12,2)",
        "yes": "boolean",
        "day": "date",
        "naive": "timestamp without time zone",
        "zoned": "timestamp with time zone",
        "tree": "jsonb",
    }


def test_rows_read_back_equal_what_was_bound(database: Engine) -> None:
    """Also where the database keeps numbers, instants and trees of its own."""
    kinds = ("text", "integer", "real", "decimal", "boolean", "date", "timestamp", "timestamptz", "json")
    to = destination(*((kind, kind) for kind in kinds))
    row = (
        "x",
        5,
        1.5,
        "1.50",
        True,
        "2026-02-28",
        "2026-11-01 01:30:00",
        "2026-11-01 01:30:00.120000",
        '{"b": 1.10, "a":2}',
    )
    write(database, to, [row, (None,) * len(row)])
    with reading(database) as conn:
        found = stored_rows(conn, to, 1, 0, 9)
        assert found == {0: same_values(conn, to, row), 1: (None,) * len(row)}
        assert found[0] != same_values(conn, to, (*row[:-1], '{"b":1.10,"a":3}'))


def test_every_text_comes_back_as_it_was(database: Engine) -> None:
    """Nothing that a copy format gives a meaning to is taken for more than a character."""
    to = destination(("id", "integer"), ("value", "text"))
    write(database, to, list(enumerate(TEXTS)))
    assert ask(database, "SELECT value FROM t ORDER BY id") == [(text,) for text in TEXTS]


@pytest.mark.parametrize("policy", ["update", "ignore", "quarantine"])
def test_every_text_is_a_key_and_is_found_again(database: Engine, policy: str) -> None:
    """The question which keys are there already reads them exactly as they are."""
    to = destination(("value", "text"), ("n", "integer"), key=("value", "n"), on_conflict=policy)
    assert write(database, to, [(text, 1) for text in TEXTS]).inserted == len(TEXTS)

    again = write(database, to, [*((text, 1) for text in TEXTS), ("new", 1)], task=2)

    assert again.inserted == 1
    assert (again.updated, again.ignored, len(again.conflicts)) == {
        "update": (len(TEXTS), 0, 0),
        "ignore": (0, len(TEXTS), 0),
        "quarantine": (0, 0, len(TEXTS)),
    }[policy]
    newest = 2 if policy == "update" else 1
    assert ask(database, f"SELECT count(*) FROM t WHERE _task_id = {newest}") == [
        (len(TEXTS) + (1 if policy == "update" else 0),)
    ]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("integer", -5),
        ("real", 1.5),
        ("decimal", "10.25"),
        ("boolean", True),
        ("date", "2026-01-31"),
        ("timestamp", "2026-01-31 10:00:00.5"),
        ("timestamptz", "2026-01-31 10:00:00"),
    ],
)
def test_keys_of_every_type_are_found_again(database: Engine, kind: str, value: Any) -> None:
    """A key is compared as its column's own type."""
    to = destination(("k", kind), ("v", "text"), key=("k",))
    assert write(database, to, [(value, "old")]).inserted == 1
    again = write(database, to, [(value, "new")], start=5)
    assert (again.inserted, again.updated) == (0, 1)
    assert ask(database, "SELECT v FROM t") == [("new",)]


def test_decimals_of_one_number_are_one_key_where_the_database_says_so(postgresql: Engine) -> None:
    """1.0 and 1.00 are equal to PostgreSQL, in one batch too."""
    to = destination(("k", "decimal"), ("v", "text"), key=("k",))
    written = write(postgresql, to, [("1.0", "first"), ("1.00", "second")])
    assert (written.inserted, written.updated) == (1, 1)
    assert ask(postgresql, "SELECT v FROM t") == [("second",)]


def test_newer_texts_are_compared_by_code_points_everywhere(database: Engine) -> None:
    """Whatever collation the database or the column has: `a` comes after `B`, in one batch and in two."""
    to = destination(("k", "integer"), ("v", "text"), key=("k",), newer="v")
    if database.dialect.name == "postgresql":
        assert database_of(database).ordered(Column("v", "v", "text"), "x") == 'x COLLATE "C"'
    write(database, to, [(1, "a"), (1, "B"), (2, "a")])
    write(database, to, [(2, "B")], task=2)
    assert ask(database, "SELECT k, v FROM t ORDER BY k") == [(1, "a"), (2, "a")]


def test_newer_decimals_are_compared_as_numbers_on_postgresql(postgresql: Engine) -> None:
    """9 is less than 10, in one batch and in two."""
    to = destination(("k", "integer"), ("v", "decimal"), key=("k",), newer="v")
    write(postgresql, to, [(1, "10"), (1, "9"), (2, "10")])
    write(postgresql, to, [(2, "9")], task=2)
    assert ask(postgresql, "SELECT k, v FROM t ORDER BY k") == [(1, 10), (2, 10)]


def test_nul_in_text_is_that_records_quarantine_only(postgresql: Engine) -> None:
    """However many there are: they are told without asking the server about each."""
    to = destination(("id", "integer"), ("value", "text"))
    rows = [(n, "bad\0" if n % 3 == 0 else "good") for n in range(900)]

    written = write(postgresql, to, rows)

    assert (written.inserted, len(written.refused)) == (600, 300)
    assert {index % 3 for index, _ in written.refused} == {0}
    assert written.refused[0][1] == "a text holds the character NUL, which PostgreSQL cannot store"
    assert ask(postgresql, "SELECT count(*), sum(id) FROM t") == [(600, sum(n for n in range(900) if n % 3))]


def test_nul_in_a_key_is_that_records_quarantine_only(postgresql: Engine) -> None:
    """Asking for keys that are there does not trip over it either."""
    to = destination(("k", "text"), key=("k",))
    written = write(postgresql, to, [("a",), ("b\0",), ("c",)])
    assert (written.inserted, [index for index, _ in written.refused]) == (2, [1])


def test_nul_is_data_on_sqlite(database: Engine) -> None:
    """There it is a character like any other."""
    if database.dialect.name == "sqlite":
        to = destination(("value", "text"))
        assert write(database, to, [("a\0b",)]).inserted == 1
        assert ask(database, "SELECT length(CAST(value AS BLOB)) FROM t") == [(3,)]


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (r'{"a":"\u0000"}', False),
        (r'{"a":"\\u0000"}', True),
        (r'{"a":"\\\u0000"}', False),
        (r'{"\u0000":1}', False),
        (r'{"a":"\u0001"}', True),
        (r"1e400000", False),
        (r'[1,[2,{"b":[]}]]', True),
    ],
)
def test_what_jsonb_cannot_hold_json_can(postgresql: Engine, text: str, fits: bool) -> None:
    """A column in which such values were seen is json and keeps the text; in jsonb the record is refused."""
    binary = write(postgresql, destination(("id", "integer"), ("v", "json")), [(1, "{}"), (2, text)])
    assert (binary.inserted, [index for index, _ in binary.refused]) == ((2, []) if fits else (1, [1]))
    with transaction(postgresql) as conn:
        conn.exec_driver_sql("DROP TABLE t")
    assert write(postgresql, destination(("id", "integer"), ("v", "verbatim")), [(1, text)]).inserted == 1
    assert ask(postgresql, "SELECT v::text FROM t") == [(text,)]


def test_a_row_that_is_there_already_is_a_broken_promise(database: Engine) -> None:
    """Without a key every record is new, or the transaction goes back."""
    to = destination(("id", "integer"))
    write(database, to, [(1,), (2,)])
    with pytest.raises(InvariantError):
        write(database, to, [(2,), (3,)], start=1)
    assert ask(database, "SELECT id FROM t ORDER BY id") == [(1,), (2,)]


def test_a_users_own_unique_rule_refuses_records_not_batches(database: Engine) -> None:
    """Only conflicts on our own columns decide; another rule's victims are found."""
    to = destination(("id", "integer"), ("mail", "text"))
    write(database, to, [(0, "taken")])
    with transaction(database) as conn:
        conn.exec_driver_sql("CREATE UNIQUE INDEX one_mail ON t (mail)")
    written = write(database, to, [(1, "a"), (2, "taken"), (3, "b")], start=1)
    assert (written.inserted, [index for index, _ in written.refused]) == (2, [1])


def test_values_too_long_or_too_large_for_a_users_column_are_refused_alone(postgresql: Engine) -> None:
    """The table's own types decide; keys that do not even compare are refused as well."""
    with transaction(postgresql) as conn:
        conn.exec_driver_sql(
            "CREATE TABLE t (k smallint UNIQUE, v varchar(3), _task_id bigint NOT NULL, _offset bigint NOT NULL, "
            "_extra jsonb, UNIQUE (_task_id, _offset))"
        )
    to = destination(("k", "integer"), ("v", "text"), key=("k",))
    written = write(postgresql, to, [(1, "ok"), (70000, "no"), (2, "too long"), (3, "ok")])
    assert (written.inserted, sorted(index for index, _ in written.refused)) == (2, [1, 2])
    assert dict(written.refused)[2] == "value too long for type character varying(3)"


def test_the_search_for_refused_rows_is_bounded(postgresql: Engine) -> None:
    """Past 64 of a large batch it is cut smaller by the caller; a small batch is searched to its end."""
    with transaction(postgresql) as conn:
        conn.exec_driver_sql(
            "CREATE TABLE t (v varchar(3), _task_id bigint NOT NULL, _offset bigint NOT NULL, _extra jsonb, "
            "UNIQUE (_task_id, _offset))"
        )
    to = destination(("v", "text"))
    with pytest.raises(BatchTooBad):
        write(postgresql, to, [("long",)] * 300)
    assert ask(postgresql, "SELECT count(*) FROM t") == [(0,)]
    assert len(write(postgresql, to, [("long",)] * 100 + [("ok",)]).refused) == 100


@pytest.mark.parametrize(("policy", "expected"), [("update", "ours"), ("ignore", "theirs"), ("quarantine", "theirs")])
def test_a_key_that_comes_between_question_and_insert_is_decided_by_the_rule(
    postgresql: Engine, policy: str, expected: str
) -> None:
    """Another worker commits the same key after we looked: update takes the later, the others the first."""
    to = destination(("k", "integer"), ("v", "text"), key=("k",), on_conflict=policy)
    write(postgresql, to, [(0, "old")])

    class Late(Destination):
        """A destination whose question is answered before somebody else commits."""

        __slots__ = ()

        def _known(self, conn: Any, database: Any, rows: Any) -> set[int]:
            found = super()._known(conn, database, rows)
            write(postgresql, to, [(1, "theirs")], start=9)
            return found

    records = Records([[1, 2], ["ours", "ours"]], [0, 1], [1, 1], [1, 2])
    with transaction(postgresql) as conn:
        late = Late("s", "t", to.layout, on_conflict=policy)
        (written,) = late.write(conn, [(records, Origin(2, "g" * 32, "/f", "2026-11-01 00:00:00.000"))])

    assert ask(postgresql, "SELECT v FROM t WHERE k > 0 ORDER BY k") == [(expected,), ("ours",)]
    counts = (written.inserted, written.ignored, written.conflicts)
    assert counts == {"update": (2, 0, []), "ignore": (1, 1, []), "quarantine": (1, 0, [0])}[policy]


def test_a_table_in_a_schema_is_made_and_filled(postgresql: Engine) -> None:
    """`schema.orders` goes to its schema, which is made when it is not there."""
    to = destination(("id", "integer"), ("v", "text"), key=("id",), schema="Sales 1")
    write(postgresql, to, [(1, "a")])
    write(postgresql, to, [(1, "b"), (2, "c")], start=5)
    assert ask(postgresql, 'SELECT id, v FROM "Sales 1".t ORDER BY id') == [(1, "b"), (2, "c")]
    with transaction(postgresql) as conn:
        assert to.delete_record(conn, 1, 6) == 1
        assert to.delete_task(conn, 1) == 1


def test_items_hold_their_payload_as_written(database: Engine) -> None:
    """The schema-less table, with and without a key."""
    columns = (Column("payload", "*", "json"), Column("source_item_id", "*", "text"))
    keyed = Destination("s", "collected_item", Layout(columns, ("id",), "items"))
    records = Records([['{"id": 1, "v": 1.10}', '{"id": 2}'], ["1", "2"]], [0, 9], [9, 9], [1, 2])
    with transaction(database) as conn:
        for task in (1, 2):
            (written,) = keyed.write(conn, [(records, Origin(task, "g" * 32, "/f", "2026-11-01 00:00:00.123"))])
    assert (written.inserted, written.updated) == (0, 2)
    rows = ask(database, "SELECT source_item_id, _task_id, payload FROM collected_item ORDER BY 1")
    assert [(row[0], row[1]) for row in rows] == [("1", 2), ("2", 2)]
    payload = rows[0][2] if isinstance(rows[0][2], dict) else json.loads(rows[0][2])
    assert payload == {"id": 1, "v": 1.1}


def test_present_answers_by_position(database: Engine) -> None:
    """Of keys with NULLs, doubles and strangers only those that are there are told."""
    to = destination(("a", "integer"), ("b", "text"))
    write(database, to, [(1, "x"), (2, "y")])
    target = Target('"t"', ("a", "b"))
    keys = [(2, "y"), (1, "y"), (1, None), (1, "x"), (2, "y")]
    with reading(database) as conn:
        assert database_of(conn).present(conn, target, ("a", "b"), keys) == {0, 3, 4}
        assert database_of(conn).present(conn, target, ("a", "b"), []) == set()


def test_copy_text_is_what_the_manual_says() -> None:
    """Worked out by hand from the COPY chapter of the PostgreSQL manual."""
    rows = [(1, "a\tb", None, True, 0.1), (-2, "c\\d\n", "", False, 1e300)]
    assert copy_text(rows) == b"1\ta\\tb\t\\N\tt\t0.1\n-2\tc\\\\d\\n\t\tf\t1e+300\n"
