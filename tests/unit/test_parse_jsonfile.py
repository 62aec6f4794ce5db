"""JSON documents by hand-worked values: arrays, concatenated values, broken ones, places, the tail."""

from __future__ import annotations

import pytest

from filecollect.domain.columns import Column, Layout
from filecollect.parse.api import Parsed, Tail
from filecollect.parse.build import make_parser
from filecollect.parse.jsonscan import value_end
from filecollect.parse.spec import Spec

LAYOUT = Layout((Column("id", "id", "integer"), Column("s", "s", "text"), Column("o", "o", "json")))
ITEMS = Layout((Column("payload", "*", "json"), Column("source_item_id", "*", "text")), ("id",), "items")
JSON = Spec("json")


def parse(data: bytes, spec: Spec = JSON, layout: Layout = LAYOUT, tail: Tail = Tail.TAKE, limit: int = 99) -> Parsed:
    """Parse a whole file."""
    return make_parser(spec, layout, None).parse(data, offset=0, line=1, limit=limit, tail=tail)


def rows(parsed: Parsed) -> list[tuple[object, ...]]:
    """Return the records as rows."""
    return list(zip(*parsed.records.columns, strict=True))


def ids(parsed: Parsed) -> list[object]:
    """Return the first column."""
    return [row[0] for row in rows(parsed)]


def refused(parsed: Parsed) -> list[tuple[int, int, int, str]]:
    """Return places and reasons of bad records."""
    return [(one.offset, one.length, one.line, one.reason) for one in parsed.bad]


def test_elements_of_an_array_are_records_with_exact_places() -> None:
    """A frame is the value alone; brackets, commas and blanks are consumed between them."""
    data = b'[\r\n  {"id": 1,\r\n   "o": {"k": [1, 2.50]}},\n  {"s": "]}"}\n]\n'
    parsed = parse(data)
    assert rows(parsed) == [(1, None, '{"k":[1,2.50]}'), (None, "]}", None)]
    assert parsed.records.offsets == [5, 45]
    assert parsed.records.lengths == [36, 11]
    assert list(parsed.records.lines) == [2, 4]
    assert (parsed.consumed, parsed.lines, parsed.open_record) == (len(data), 5, None)


@pytest.mark.parametrize(
    "data",
    [
        b'[{"id":1},{"id":2}]',
        b'{"id":1}{"id":2}',
        b'{"id":1},\n{"id":2},\n',
        b'[\n{"id":1}\n,{"id":2}\n]',
        b'[{"id":1}]\n[{"id":2}]\n',
        b'[{"id":1}] {"id":2}',
        b'\x1e{"id":1}\n\x1e{"id":2}\n',
        b'[{"id":1},{"id":2}',
        b'[{"id":1} {"id":2},]',
        b'\xef\xbb\xbf [{"id":\n1},{"id":2}]',
    ],
)
def test_values_may_stand_beside_each_other_in_any_way(data: bytes) -> None:
    """Arrays, several arrays, commas, record separators, nothing at all, a bracket that is missing."""
    parsed = parse(data)
    assert (ids(parsed), parsed.bad, parsed.consumed) == ([1, 2], [], len(data))


def test_an_array_in_concatenated_values_is_a_record() -> None:
    """Only a file that begins with a bracket is an array; an array among objects is no object."""
    parsed = parse(b'{"id":1}[{"id":2}]')
    assert (ids(parsed), refused(parsed)) == ([1], [(8, 10, 1, "not_an_object")])


@pytest.mark.parametrize(
    ("data", "good", "bad"),
    [
        (b'[{"id":1},NaN,{"id":2}]', [1, 2], [(10, 3, 1, "bad_json")]),
        (b'[{"id":NaN},{"id":2}]', [2], [(1, 10, 1, "bad_json")]),
        (b'[{"s":"\\ud800"},{"id":2}]', [2], [(1, 14, 1, "bad_json")]),
        (b'[{"s":"\xff"},{"id":2}]', [2], [(1, 9, 1, "bad_encoding")]),
        (b'{"id":1\n{"id":2}\n', [2], [(0, 8, 1, "unclosed_bracket")]),
        (b'{"s":"x}\n{"id":2}\n', [2], [(0, 9, 1, "unclosed_bracket")]),
        (b'  {"id":\n  [1\n  {"id":2}\n', [2], [(2, 12, 1, "unclosed_bracket")]),
        (b'oops\n{"id":2}\n', [2], [(0, 4, 1, "bad_json")]),
        (b'"open\n{"id":2}\n', [2], [(0, 5, 1, "bad_json")]),
        (b'{"id":2}}\n{"id":3}', [2, 3], [(8, 1, 1, "bad_json")]),
        (b'7 "x" null {"id":2}', [2], [(0, 1, 1, "not_an_object"), (2, 3, 1, "not_an_object"),
                                      (6, 4, 1, "not_an_object")]),
        (b'{"id":[}\n{"id":2}', [2], [(0, 9, 1, "unclosed_bracket")]),
    ],
)  # fmt: skip
def test_broken_json_is_bounded_and_the_next_record_is_read(
    data: bytes, good: list[object], bad: list[tuple[int, int, int, str]]
) -> None:
    """One bad record each, with its place, and no neighbour is lost."""
    parsed = parse(data)
    assert (ids(parsed), refused(parsed), parsed.consumed) == (good, bad, len(data))


def test_integers_beyond_64_bits_and_long_fractions_are_not_rounded() -> None:
    """They go whole to `_extra`, or into a decimal column."""
    parsed = parse(b'[{"id":12345678901234567890},{"id":1e400}]')
    assert ids(parsed) == [None, None]
    assert parsed.records.extras == {0: '{"id":12345678901234567890}', 1: '{"id":1e400}'}
    decimal = Layout((Column("d", "id", "decimal"),))
    assert ids(parse(b'[{"id":12345678901234567890},{"id":0.12345678901234567}]', layout=decimal)) == [
        "12345678901234567890",
        "0.12345678901234567",
    ]


def test_bare_values_are_a_column() -> None:
    """Numbers, strings, arrays; an object beside them keeps its keys."""
    value = Layout((Column("value", "value", "json"),))
    parsed = parse(b'[1, "x", [2, 3], null, {"id": 4}]', Spec("json", bare=True), value)
    assert ids(parsed) == ["1", '"x"', "[2, 3]", None, None]
    assert parsed.records.extras == {4: '{"id":4}'}


def test_nested_objects_are_flattened_as_deep_as_asked() -> None:
    """Arrays and what lies deeper stay JSON, an empty object is kept, null of a known parent is nothing."""
    names = ["a.b", "a.c.d", "x"]
    layout = Layout(tuple(Column(name, name, "text") for name in names))
    data = b'{"a":{"b":1,"c":{"d":{"e":2}}},"x":[{"y":1}]}{"a":null,"x":3}{"a":{}}'
    parsed = parse(data, Spec("json", flatten=2), layout)
    assert rows(parsed) == [("1", '{"e":2}', '[{"y":1}]'), (None, None, "3"), (None, None, None)]
    assert parsed.records.extras == {2: '{"a":{}}'}
    one = parse(data[:45], Spec("json", flatten=1), layout)
    assert (rows(one), one.records.extras) == ([("1", None, '[{"y":1}]')], {0: '{"a.c":{"d":{"e":2}}}'})


def test_items_are_compact_and_keep_their_digits() -> None:
    """One line each, whatever the file looks like."""
    parsed = parse(b'[\n {"id": 1.50,\n  "s": "a b"}\n]', layout=ITEMS)
    assert rows(parsed) == [('{"id":1.50,"s":"a b"}', "1.50")]


@pytest.mark.parametrize("rest", [b'{"id":2', b'"x', b"tru", b'{"id":2,\n "o": [', b"\0\0\0", b'{"s":"\xc3'])
def test_a_last_value_that_is_not_whole_waits_or_is_truncated(rest: bytes) -> None:
    """Left as long as it may be, quarantined and remembered when not."""
    data = b'[{"id":1},\n' + rest
    for tail in (Tail.WAIT, Tail.TRY):
        early = parse(data, tail=tail)
        assert (early.consumed, early.bad, ids(early)) == (11, [], [1])
    taken = parse(data)
    assert refused(taken) == [(11, len(rest), 2, "truncated_record")]
    assert (taken.consumed, taken.open_record) == (len(data), 11)


def test_a_number_at_the_end_may_go_on() -> None:
    """It is taken at an end, and remembered; an object is complete by itself."""
    bare = Spec("json", bare=True)
    value = Layout((Column("value", "value", "integer"),))
    assert parse(b"1 23", bare, value, Tail.WAIT).consumed == 1
    taken = parse(b"1 23", bare, value)
    assert (ids(taken), taken.open_record) == ([1, 23], 2)
    assert parse(b'{"id":1}').open_record is None


def test_a_resume_knows_whether_it_is_in_an_array() -> None:
    """A bracket then ends it, or begins a record."""
    data = b'[{"id":1},[2],{"id":3}]\n'
    first = make_parser(JSON, LAYOUT, None)
    one = first.parse(data, offset=0, line=1, limit=1, tail=Tail.TAKE)
    assert (one.consumed, first.state()["array"]) == (9, "open")
    second = make_parser(JSON, LAYOUT, first.state())
    rest = second.parse(data[9:], offset=9, line=1, limit=9, tail=Tail.TAKE)
    assert (ids(rest), refused(rest), second.state()["array"]) == ([3], [(10, 3, 1, "not_an_object")], "closed")


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_a_value_too_long_to_be_held_is_passed_over_piece_by_piece(size: int) -> None:
    """Braces and quotes in its strings do not end it."""
    long = b'{"s":"' + b'}\\"]' * 50 + b'", "o": {"k": [1]}}'
    data = b" " + long + b',{"id":2}]'
    spec = Spec("json", max_record_bytes=64)
    parser = make_parser(spec, LAYOUT, {"format": "json", "encoding": "utf-8", "dialect": None, "header": None})
    assert parser.parse(data[:64], offset=1, line=1, limit=9, tail=Tail.WAIT).consumed == 0
    skip = parser.skip()
    position, found = 0, -1
    while found < 0:
        found = skip.feed(data[position : position + size])
        position += found if found >= 0 else size
    assert position == 1 + len(long)
    whole = parse(b"[" + data, spec)
    assert (ids(whole), refused(whole)) == ([2], [(1, len(long) + 1, 1, "record_too_long")])


def test_deep_nesting_neither_raises_nor_hides_the_next_record() -> None:
    """Brackets are counted, not followed by recursion."""
    deep = b"[" * 5000 + b"]" * 5000
    parsed = parse(b'{"id":1}' + deep + b'{"id":2}')
    assert (ids(parsed), [one[0:2] for one in refused(parsed)]) == ([1, 2], [(8, 10000)])


@pytest.mark.parametrize("depth", [1, 5, 6, 7, 8, 40])
def test_the_fast_and_the_slow_way_find_the_same_end(depth: int) -> None:
    """Around the depth that one regular expression can follow."""
    value = b'{"a":[' * depth + b'"]}\\""' + b"]}" * depth
    assert value_end(value + b",[1]", 0) == len(value)
    assert value_end(value[:-1], 0) == -1


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-32-be", "cp932", "gb18030", "big5"])
def test_brackets_in_the_second_byte_of_a_character_are_none(encoding: str) -> None:
    """And places are those of the file's own bytes."""
    text = '[{"s":"表ソ能{"},\n {"s":"]功許"}]'
    if encoding != "cp932":
        text = text.replace("ソ", "")
    data = text.encode(encoding)
    parsed = parse(data, Spec("json", encoding=encoding))
    values = [text.split('"')[3], text.split('"')[7]]
    assert ([row[1] for row in rows(parsed)], parsed.bad) == (values, [])
    start = len(text.split('{"s":"]')[0].encode(encoding))
    assert parsed.records.offsets == [len("[".encode(encoding)), start]
