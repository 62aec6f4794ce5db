"""Stored values of CSV text and of JSON, worked out by hand, and the fast ways against the slow ones."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filecollect.domain.columns import Column, Layout
from filecollect.parse.convert import MISFIT, stored_column, stored_value, text_kind
from filecollect.parse.jsonl import JsonTable
from filecollect.parse.jsonvalue import stored_json
from filecollect.parse.spec import Spec
from filecollect.parse.times import stored_timestamps

NULLS = frozenset({""})


def column(kind: str, *, declared: bool = False, zoned: bool = False) -> Column:
    """Return a column of a type."""
    return Column("x", "x", kind, declared, zoned)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("0", "integer"),
        ("-12", "integer"),
        ("-0", "integer"),
        ("999999999999999", "integer"),
        ("1000000000000000", "long"),
        ("9223372036854775807", "long"),
        ("-9223372036854775808", "long"),
        ("9223372036854775808", "decimal"),
        ("1.50", "real"),
        ("0.00000000000000123", "real"),
        ("0.123456789012345", "real"),
        ("1.123456789012345", "decimal"),
        ("007", "text"),
        ("+5", "text"),
        ("1e5", "text"),
        (".5", "text"),
        ("5.", "text"),
        ("1_000", "text"),
        ("NaN", "text"),
        ("inf", "text"),
        (" 1", "text"),
        ("１２", "text"),
        ("1,5", "text"),
        ("tRue", "boolean"),
        ("FALSE", "boolean"),
        ("yes", "text"),
        ("2024-02-29", "date"),
        ("2023-02-29", "text"),
        ("01/02/03", "text"),
        ("20240101", "integer"),
        ("2024-W01-1", "text"),
        ("2024-01-01T10:00", "naive"),
        ("2024-01-01 10:00:00.123456789", "naive"),
        ("2024-01-01 10:00:00.1234567890", "text"),
        ("2024-01-01T10:00:00Z", "zoned"),
        ("2024-01-01T10:00:00+0530", "zoned"),
        ("2024-01-01T10:00:00-05:30", "zoned"),
        ("2024-01-01T24:00:00", "text"),
        ("2024-01-01T10:00:60", "text"),
        ("2024-01-01T10", "text"),
        ("2024-01-01T10:00:00,5", "text"),
        ("0001-01-01T00:00:00+01:00", "text"),
    ],
)
def test_a_text_is_of_one_kind(text: str, kind: str) -> None:
    """Only exact, unambiguous spellings have a type; the rest is text."""
    assert text_kind(text) == kind


@pytest.mark.parametrize(
    ("kind", "text", "stored"),
    [
        ("integer", "-0", 0),
        ("integer", "9223372036854775807", 9223372036854775807),
        ("integer", "9223372036854775808", MISFIT),
        ("integer", "-9223372036854775809", MISFIT),
        ("integer", "7.0", MISFIT),
        ("integer", "00501", MISFIT),
        ("integer", "-01", MISFIT),
        ("integer", "1_000", MISFIT),
        ("real", "7", 7.0),
        ("real", "00501", MISFIT),
        ("real", "1e5", MISFIT),
        ("real", ".5", MISFIT),
        ("real", "5.", MISFIT),
        ("real", "1.234567890123456", MISFIT),
        ("decimal", "12345678901234567890.10", "12345678901234567890.10"),
        ("decimal", "1.2.3", MISFIT),
        ("decimal(4,2)", "12.34", "12.34"),
        ("decimal(4,2)", "12.340", "12.340"),
        ("decimal(4,2)", "12.345", MISFIT),
        ("decimal(4,2)", "123.4", MISFIT),
        ("boolean", "True", True),
        ("boolean", "0", MISFIT),
        ("date", "2024-02-30", MISFIT),
        ("timestamp", "2024-01-01T10:00", "2024-01-01 10:00:00"),
        ("timestamp", "2024-01-01 10:00:00.5", "2024-01-01 10:00:00.500000"),
        ("timestamp", "2024-01-01 10:00:00.123456789", "2024-01-01 10:00:00.123456"),
        ("timestamp", "2024-01-01T10:00:00Z", MISFIT),
        ("timestamp", "2024-01-01", MISFIT),
        ("json", '{"a": 1}', '{"a": 1}'),
        ("json", "{a}", MISFIT),
        ("json", "NaN", MISFIT),
        ("text", "007", "007"),
    ],
)
def test_a_csv_text_is_stored_exactly_or_not_at_all(kind: str, text: str, stored: object) -> None:
    """Nothing is rounded or shortened on its way into a column, alone or as a whole column."""
    assert stored_value(text, column(kind)) == stored
    assert type(stored_value(text, column(kind))) is type(stored)
    values, misfits = stored_column((text, text), column(kind), NULLS)
    expected = None if stored is MISFIT else stored
    assert (list(values), misfits) == ([expected, expected], [0, 1] if stored is MISFIT else [])


def test_zoned_timestamps_are_stored_in_utc() -> None:
    """A zoned column takes zoned values only, and stores the instant."""
    zoned = column("timestamp", zoned=True)
    assert stored_value("2024-03-31T02:30:00+02:00", zoned) == "2024-03-31 00:30:00"
    assert stored_value("2024-01-01T00:15:00.25-0100", zoned) == "2024-01-01 01:15:00.250000"
    assert stored_value("2024-01-01T10:00:00", zoned) is MISFIT
    values, misfits = stored_column(("2024-01-01T10:00:00Z", "2024-01-01T10:00:00+01:00"), zoned, NULLS)
    assert (values, misfits) == (["2024-01-01 10:00:00", "2024-01-01 09:00:00"], [])


def test_null_words_count_only_without_quotes() -> None:
    """NA is NULL, "NA" is a word; a quoted empty text is '' in text columns and NULL elsewhere."""
    nulls = frozenset({"", "NA"})
    texts = ("NA", "NA", "", "", "7")
    assert stored_column(texts, column("text"), nulls, [1, 3]) == ([None, "NA", None, "", "7"], [])
    assert stored_column(texts, column("integer"), nulls, [1, 3]) == ([None, None, None, None, 7], [1])


TEXTS = st.one_of(
    st.text("0123456789-.,eE+ T:Z", max_size=20),
    st.sampled_from(["", "true", "False", "2024-01-01", "2024-13-01", "2024-01-01T10:00:00Z", "2024-01-01 10:00"]),
    st.integers(-(2**65), 2**65).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    st.text(max_size=3),
)
KINDS = st.sampled_from(["integer", "real", "decimal", "decimal(6,2)", "boolean", "date", "timestamp", "json", "text"])


@settings(max_examples=400, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=6), KINDS, st.booleans())
def test_a_column_is_stored_like_its_values_one_by_one(texts: list[str], kind: str, zoned: bool) -> None:
    """The whole-column way never differs from the careful one, in value or in type."""
    one = column(kind, zoned=zoned)
    values, misfits = stored_column(texts, one, NULLS)
    slow = [None if text in NULLS else stored_value(text, one) for text in texts]
    assert misfits == [index for index, value in enumerate(slow) if value is MISFIT]
    expected = [None if value is MISFIT else value for value in slow]
    assert [repr(value) for value in values] == [repr(value) for value in expected]


@pytest.mark.parametrize(
    ("kind", "text", "stored"),
    [
        ("text", '"007"', "007"),
        ("text", '"\\u0000x"', "\0x"),
        ("text", "1.50", "1.50"),
        ("text", "true", "true"),
        ("text", '{"a": [1]}', '{"a": [1]}'),
        ("integer", "7", 7),
        ("integer", "7.0", MISFIT),
        ("integer", "1e3", MISFIT),
        ("integer", '"7"', MISFIT),
        ("integer", "9223372036854775808", MISFIT),
        ("real", "7", 7.0),
        ("real", "9007199254740992", 9007199254740992.0),
        ("real", "9007199254740993", MISFIT),
        ("real", "1e5", 100000.0),
        ("real", "0.1234567890123456", MISFIT),
        ("real", "1e400", MISFIT),
        ("real", "1e-400", MISFIT),
        ("real", "0.0e-400", 0.0),
        ("decimal", "1.10", "1.10"),
        ("decimal", "123456789012345678901", "123456789012345678901"),
        ("decimal", "true", MISFIT),
        ("boolean", "true", True),
        ("boolean", "1", MISFIT),
        ("json", "1.10", "1.10"),
        ("json", '"x"', '"x"'),
    ],
)
def test_a_json_value_is_stored_by_its_own_type(kind: str, text: str, stored: object) -> None:
    """A JSON type wins over looks, and numbers keep their digits."""
    assert stored_json(column(kind), text) == stored
    assert type(stored_json(column(kind), text)) is type(stored)


def test_a_declared_column_takes_strings_that_say_a_value_exactly() -> None:
    """JSON has no dates, and money often is a string."""
    assert stored_json(column("date", declared=True), '"2024-01-01"') == "2024-01-01"
    assert stored_json(column("timestamp", declared=True, zoned=True), '"2024-01-01T10:00Z"') == "2024-01-01 10:00:00"
    assert stored_json(column("decimal(6,2)", declared=True), '"12.50"') == "12.50"
    assert stored_json(column("integer", declared=True), '"007"') is MISFIT
    assert stored_json(column("date"), '"2024-01-01"') is MISFIT


NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(json.dumps),
    st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?", fullmatch=True),
)
VALUES = st.one_of(NUMBERS, st.sampled_from(["null", "true", "false", '"x"', '"7"', "[1, 2]", '{"b":"\\u0000"}']))
JSON_KINDS = st.sampled_from(["integer", "real", "decimal", "boolean", "text", "json"])


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=4), JSON_KINDS, JSON_KINDS)
def test_the_fast_way_reads_json_like_the_careful_one(pairs: list[tuple[str, str]], one: str, two: str) -> None:
    """Decoding into a struct gives the same columns, misfits and `_extra` as looking at every value."""
    layout = Layout((Column("a", "a", one), Column("b", "b", two)))
    lines = [f'{{"a":{first}, "b": {second}}}'.encode() for first, second in pairs]
    fast, careful = JsonTable(Spec("jsonl"), layout), JsonTable(Spec("jsonl"), layout)
    careful._fast = None
    quick, slow = fast.build(lines), careful.build(lines)
    assert [list(map(repr, values)) for values in quick.columns] == [list(map(repr, v)) for v in slow.columns]
    assert (quick.extras, sorted(quick.misfits), quick.bad) == (slow.extras, sorted(slow.misfits), slow.bad)


@pytest.mark.parametrize(
    ("texts", "zoned", "stored"),
    [
        (["2026-11-01T10:00:07Z", "0001-01-01 00:00:00Z"], True, ["2026-11-01 10:00:07", "0001-01-01 00:00:00"]),
        (["2026-11-01T23:59:59", "1999-02-28T00:00:00"], False, ["2026-11-01 23:59:59", "1999-02-28 00:00:00"]),
        (["2026-11-01T10:00:07Z", "2026-11-01T10:00:07+01:00"], True, ["2026-11-01 10:00:07", "2026-11-01 09:00:07"]),
        (
            ["2026-11-01T10:00:07Z", "2026-11-01T10:00:07.5Z"],
            True,
            ["2026-11-01 10:00:07", "2026-11-01 10:00:07.500000"],
        ),
        (["2026-11-01T10:00:07Z", "2026-02-30T10:00:07Z"], True, None),
        (["2026-11-01T10:00:07Z", "2026-11-01T10:00:07"], True, None),
    ],
)
def test_a_column_of_times_is_stored_as_its_single_times_are(
    texts: list[str], zoned: bool, stored: list[str] | None
) -> None:
    """Whole seconds without an offset are taken over as they are written; a day that does not exist asks for a look."""
    assert stored_timestamps(texts, zoned=zoned) == stored
