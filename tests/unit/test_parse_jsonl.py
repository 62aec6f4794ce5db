"""JSON lines by hand-worked values: types, `_extra`, misfits, refusals, the tail, items."""

from __future__ import annotations

import pytest

from filecollect.domain.columns import Column, Layout
from filecollect.parse.api import Parsed, Tail
from filecollect.parse.build import make_parser
from filecollect.parse.spec import Spec

LAYOUT = Layout((Column("id", "id", "integer"), Column("v", "v", "real"), Column("s", "s", "text")))
ITEM_COLUMNS = (Column("payload", "*", "json"), Column("source_item_id", "*", "text"))
JSONL = Spec("jsonl")


def parse(data: bytes, layout: Layout = LAYOUT, spec: Spec = JSONL, tail: Tail = Tail.TAKE, limit: int = 99) -> Parsed:
    """Parse a whole file."""
    return make_parser(spec, layout, None).parse(data, offset=0, line=1, limit=limit, tail=tail)


def rows(parsed: Parsed) -> list[tuple[object, ...]]:
    """Return the records as rows."""
    return list(zip(*parsed.records.columns, strict=True))


def test_records_have_values_and_places() -> None:
    """Missing keys and null are NULL; blank lines and CRLF cost nothing."""
    parsed = parse(b'{"id":1,"v":0.5,"s":"a"}\r\n \n{"s":null}\n{"v":7}\n')
    assert rows(parsed) == [(1, 0.5, "a"), (None, None, None), (None, 7.0, None)]
    assert parsed.records.offsets == [0, 28, 39]
    assert parsed.records.lengths == [26, 11, 8]
    assert list(parsed.records.lines) == [1, 3, 4]
    assert (parsed.consumed, parsed.lines) == (47, 4)


def test_keys_without_a_column_are_kept_as_they_are() -> None:
    """Digits stay, blanks go, and it is no misfit."""
    parsed = parse('{"id":1,"ü":{"a": [1.50, "x y"]},"n":null}\n'.encode())
    assert rows(parsed) == [(1, None, None)]
    assert parsed.records.extras == {0: '{"ü":{"a":[1.50,"x y"]},"n":null}'}
    assert parsed.misfits == {}


def test_misfits_of_inferred_columns_keep_the_row() -> None:
    """7.0 is no integer, "7" neither, and no float takes a number that it would change."""
    parsed = parse(b'{"id":7.0}\n{"id":"7"}\n{"v":0.1234567890123456}\n{"v":9007199254740993}\n')
    assert rows(parsed) == [(None, None, None)] * 4
    assert parsed.records.extras == {
        0: '{"id":7.0}',
        1: '{"id":"7"}',
        2: '{"v":0.1234567890123456}',
        3: '{"v":9007199254740993}',
    }
    assert parsed.misfits == {"id": 2, "v": 2}


def test_a_misfit_of_a_declared_column_quarantines_the_record() -> None:
    """With its value and type in the sentence."""
    parsed = parse(b'{"id":"x"}\n', Layout((Column("id", "id", "integer", declared=True),)))
    assert [(one.reason, one.message) for one in parsed.bad] == [
        ("misfit", '"x" does not fit the column id of type integer')
    ]


def test_a_text_column_takes_any_value_by_its_json_text() -> None:
    """A zip code that is a number once, an object where a text was."""
    parsed = parse(b'{"s":94105}\n{"s":1.10}\n{"s":true}\n{"s":{"a": 1}}\n{"s":"\\u0000"}\n')
    assert [row[2] for row in rows(parsed)] == ["94105", "1.10", "true", '{"a": 1}', "\0"]
    assert parsed.records.extras == {}


def test_json_and_decimal_columns_keep_every_digit() -> None:
    """Also beyond 64 bits, and beside keys that no struct can hold."""
    layout = Layout((Column("j", "j", "json"), Column("d", "d", "decimal"), Column("q", 'q"', "integer")))
    parsed = parse(b'{"j":[1.10],"d":12345678901234567890,"q\\"":1}\n{"j":null,"d":0.10}\n', layout)
    assert rows(parsed) == [("[1.10]", "12345678901234567890", 1), (None, "0.10", None)]
    without = Layout(layout.columns[:2])
    assert rows(parse(b'{"j":"x","d":1.0}\n', without)) == [('"x"', "1.0")]


@pytest.mark.parametrize(
    ("line", "reason", "part"),
    [
        (b'{"id":NaN}', "bad_json", "not valid JSON"),
        (b'{"id":1,}', "bad_json", "not valid JSON"),
        (b'{"id":1}{"id":2}', "bad_json", "not valid JSON"),
        (b'{"s":"\\ud800"}', "bad_json", "not valid JSON"),
        (b'{"s":"\xff"}', "bad_encoding", "the bytes ff at position 6 of the record are not utf-8"),
        (b'{"x":{"y":"\xff"}}', "bad_encoding", "not utf-8"),
        (b"[" * 100_000, "bad_json", "nested too deeply"),
        (b"[1]", "not_an_object", "an array"),
        (b"7", "not_an_object", "a number"),
        (b'"x"', "not_an_object", "a string"),
        (b"null", "not_an_object", "null"),
        (b"true", "not_an_object", "a boolean"),
    ],
)
def test_lines_that_are_no_objects_are_quarantined(line: bytes, reason: str, part: str) -> None:
    """With a reason of their own, and the records around them untouched."""
    parsed = parse(b'{"id":1}\n' + line + b'\n{"id":2}\n')
    assert [row[0] for row in rows(parsed)] == [1, 2]
    assert [(one.offset, one.length, one.line, one.reason) for one in parsed.bad] == [(9, len(line) + 1, 2, reason)]
    assert part in parsed.bad[0].message


@pytest.mark.parametrize(
    ("line", "row", "extra"),
    [
        (b'{"id":1,"id":2}', (2, None, None), '{"id (earlier)":[1]}'),
        (b'{"id":1,"v":0.5,"s":"a","s":null}', (1, 0.5, None), '{"s (earlier)":["a"]}'),
        (b'{"id" : 1.50, "id" : {"a": 1}, "id":7, "v":1,"s":"x"}', (7, 1.0, "x"), '{"id (earlier)":[1.50,{"a":1}]}'),
        (rb'{"s":"\\","s":"\\\"","id":1,"v":2}', (1, 2.0, '\\"'), r'{"s (earlier)":["\\"]}'),
        (b'{"new":1,"new":2}', (None, None, None), '{"new":2,"new (earlier)":[1]}'),
    ],
)
def test_the_last_of_equal_keys_counts_and_the_others_are_kept(
    line: bytes, row: tuple[object, ...], extra: str
) -> None:
    """As every JSON reader has it; but nothing is lost silently, among lines that are as expected, too."""
    plain = b'{"id":1,"v":0.5,"s":"a"}\n'
    parsed = parse(plain + line + b"\n" + plain)
    assert rows(parsed) == [(1, 0.5, "a"), row, (1, 0.5, "a")]
    assert parsed.records.extras == {1: extra}


def test_rests_of_an_array_around_lines_are_peeled_off() -> None:
    """Brackets and commas of an array written line by line; they are skipped, and counted."""
    parsed = parse(b'[\n{"id":1},\n,{"id":2}\n[{"id":3},\n{"id":4}]\n]\n')
    assert ([row[0] for row in rows(parsed)], parsed.skipped, parsed.bad) == ([1, 2, 3, 4], 2, [])
    assert parsed.records.offsets == [2, 12, 22, 33]
    items = parse(b'{"id":1},\n', Layout(ITEM_COLUMNS, ("id",), "items"))
    assert rows(items) == [('{"id":1}', "1")]


def test_lines_that_are_no_objects_are_rows_when_the_source_has_only_such() -> None:
    """In the column `value`."""
    layout = Layout((Column("value", "value", "real"),))
    parsed = parse(b'1\n2.5\nnull\n"x"\n{"value":4}\n', layout, Spec("jsonl", bare=True))
    assert rows(parsed) == [(1.0,), (2.5,), (None,), (None,), (4.0,)]
    assert (parsed.records.extras, parsed.misfits) == ({3: '{"value":"x"}'}, {"value": 1})


def test_a_legacy_encoding_is_decoded() -> None:
    """And offsets still count the file's bytes."""
    parsed = parse(b'{"s":"\x80"}\n{"id":1}\n', spec=Spec("jsonl", encoding="cp1252"))
    assert rows(parsed) == [(None, None, "€"), (1, None, None)]
    assert parsed.records.offsets == [0, 10]


@pytest.mark.parametrize("rest", [b'{"id":2', b'{"id":2}\0', b"\0\0\0", b"x", b'{"s":"\xc3'])
def test_a_last_record_that_is_not_whole_waits_or_is_truncated(rest: bytes) -> None:
    """It is left as long as it may be, and quarantined and remembered when not."""
    data = b'{"id":1}\n' + rest
    for tail in (Tail.WAIT, Tail.TRY):
        assert (parse(data, tail=tail).consumed, parse(data, tail=tail).bad) == (9, [])
    taken = parse(data)
    assert [(one.offset, one.raw, one.reason) for one in taken.bad] == [(9, rest, "truncated_record")]
    assert (taken.consumed, taken.open_record) == (len(data), 9)


def test_a_whole_last_record_without_a_line_end_is_taken_and_remembered() -> None:
    """TRY and TAKE alike; WAIT leaves it."""
    data = b'{"id":1}\n{"id":2}'
    assert parse(data, tail=Tail.WAIT).consumed == 9
    for tail in (Tail.TRY, Tail.TAKE):
        parsed = parse(data, tail=tail)
        assert ([row[0] for row in rows(parsed)], parsed.consumed, parsed.open_record) == ([1, 2], 17, 9)


def test_a_record_may_be_too_long() -> None:
    """Complete or not, it is told with its true length; without an end it is the reader's to pass over."""
    spec = Spec("jsonl", max_record_bytes=12, quarantine_raw_bytes=3)
    parsed = parse(b'{"s":"aaaaa"}\n{"id":1}\n', spec=spec)
    assert [(one.offset, one.length, one.raw, one.reason) for one in parsed.bad] == [(0, 14, b'{"s', "record_too_long")]
    assert parse(b'{"s":"aaaaaaaaaaaa', spec=spec, tail=Tail.WAIT).consumed == 0


def test_a_missing_key_quarantines_the_record() -> None:
    """Absent, null and misfit alike."""
    parsed = parse(b'{"s":"a"}\n{"id":null}\n{"id":"x"}\n{"id":1}\n', Layout(LAYOUT.columns, key=("id",)))
    assert [one.reason for one in parsed.bad] == ["key_missing"] * 3
    assert len(rows(parsed)) == 1


def test_items_keep_the_text_of_the_line() -> None:
    """One key part is its text, several are a compact array; strings are told however they are escaped."""
    data = b'{"id": "a\\u0062", "n": 1.50}\r\n{"n": 7}\n{"id": 12345678901234567890}\n'
    parsed = parse(data, Layout(ITEM_COLUMNS, ("id",), "items"))
    assert rows(parsed) == [
        ('{"id": "a\\u0062", "n": 1.50}', "ab"),
        ('{"id": 12345678901234567890}', "12345678901234567890"),
    ]
    assert [one.reason for one in parsed.bad] == ["key_missing"]
    two = parse(data[:30], Layout(ITEM_COLUMNS, ("n", "id"), "items"))
    assert two.records.columns[1] == ['[1.50,"ab"]']


def test_parsing_stops_exactly_at_the_limit() -> None:
    """Bad records count, blank lines do not."""
    data = b'\n{"id":1}\n\nx\n{"id":3}\n'
    parsed = parse(data, limit=2)
    assert ([row[0] for row in rows(parsed)], len(parsed.bad), data[parsed.consumed :]) == ([1], 1, b'{"id":3}\n')
