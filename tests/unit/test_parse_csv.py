"""CSV records by hand-worked values: headers, quoting, NULL, misfits, ragged rows, the tail."""

from __future__ import annotations

import json

import pytest

from filecollect.domain.columns import Column, Layout
from filecollect.errors import CheckpointError
from filecollect.parse.api import Parsed, Tail
from filecollect.parse.build import make_parser
from filecollect.parse.spec import Spec

ID, NAME = Column("id", "id", "integer"), Column("name", "name", "text")
TABLE = Layout((ID, NAME))
CSV = Spec("csv")


def parse(data: bytes, spec: Spec = CSV, layout: Layout = TABLE, tail: Tail = Tail.TAKE, limit: int = 100) -> Parsed:
    """Parse a whole file from its top."""
    return make_parser(spec, layout, None).parse(data, offset=0, line=1, limit=limit, tail=tail)


def rows(parsed: Parsed) -> list[tuple[object, ...]]:
    """Return the records as rows."""
    return list(zip(*parsed.records.columns, strict=True))


def refused(parsed: Parsed) -> list[tuple[int, int, int, bytes, str]]:
    """Return the bad records without their sentences."""
    return [(one.offset, one.length, one.line, one.raw, one.reason) for one in parsed.bad]


def test_records_have_exact_places() -> None:
    """Offsets, lengths with line ends and lines, across CRLF, a blank line and a quoted line end."""
    parsed = parse(b'id,name\r\n1,a\r\n\n2,"b\nc"\n3,\xc3\xbc\n')
    assert rows(parsed) == [(1, "a"), (2, "b\nc"), (3, "ü")]
    assert parsed.records.offsets == [9, 15, 23]
    assert parsed.records.lengths == [5, 8, 5]
    assert list(parsed.records.lines) == [2, 4, 6]
    assert (parsed.consumed, parsed.lines, parsed.open_record) == (28, 6, None)


def test_a_byte_order_mark_belongs_to_no_record() -> None:
    """The first name is whole without it, and offsets count it."""
    parsed = parse(b"\xef\xbb\xbfid,name\n1,a\n")
    assert rows(parsed) == [(1, "a")]
    assert parsed.records.offsets == [11]


def test_skipped_lines_and_blank_lines_come_before_the_header() -> None:
    """They are consumed with the header and are no records."""
    parsed = parse(b"report of today\n\nid,name\n1,a\n", Spec("csv", skip_lines=1))
    assert (rows(parsed), parsed.skipped, parsed.consumed) == ([(1, "a")], 0, 29)


def test_columns_may_come_in_another_order_and_number() -> None:
    """Fields go by name; a new one goes to `_extra`, a missing one is NULL, empty extras are left out."""
    parsed = parse(b"name,zip,id\na,00501,1\nb,,2\n")
    assert rows(parsed) == [(1, "a"), (2, "b")]
    assert parsed.records.extras == {0: '{"zip":"00501"}'}
    assert parsed.misfits == {}
    assert rows(parse(b"name\na\n")) == [(None, "a")]


def test_equal_names_go_to_equal_columns() -> None:
    """The k-th field of a name is the k-th column that comes from it; the rest keeps a name of its own."""
    layout = Layout((Column("a", "a", "text"), Column("A_2", "A", "text"), Column("a_3", "a", "text")))
    assert rows(parse(b"a,A,a\n1,2,3\n", layout=layout)) == [("1", "2", "3")]
    assert rows(parse(b"A,a,a\n1,2,3\n", layout=layout)) == [("2", "1", "3")]
    parsed = parse(b"a,a,a\n1,2,3\n", layout=layout)
    assert rows(parsed) == [("1", None, "2")]
    assert parsed.records.extras == {0: '{"a_3":"3"}'}


def test_an_appended_row_is_never_taken_for_the_header() -> None:
    """The header travels in the state; a record equal to it is skipped wherever it comes."""
    parser = make_parser(CSV, TABLE, None)
    first = parser.parse(b"name,id\nx,1\n", offset=0, line=1, limit=10, tail=Tail.TAKE)
    state = parser.state()
    assert state == {
        "format": "csv",
        "encoding": "utf-8",
        "dialect": {"delimiter": ",", "quote": '"'},
        "header": ["name", "id"],
    }
    resumed = make_parser(CSV, TABLE, json.loads(json.dumps(state)))
    parsed = resumed.parse(b"y,2\nname,id\nz,3\n", offset=first.consumed, line=3, limit=10, tail=Tail.TAKE)
    assert rows(parsed) == [(2, "y"), (3, "z")]
    assert parsed.skipped == 1
    assert list(parsed.records.lines) == [3, 5]


def test_a_generation_keeps_its_dialect_and_encoding() -> None:
    """What the checkpoint says wins over the source's spec."""
    state = {"format": "csv", "encoding": "cp1252", "dialect": {"delimiter": ";", "quote": '"'}, "header": ["name"]}
    parsed = make_parser(CSV, TABLE, state).parse(b"\x80\n", offset=9, line=2, limit=9, tail=Tail.WAIT)
    assert rows(parsed) == [(None, "€")]


def test_a_damaged_state_is_refused() -> None:
    """Another format, or a state without its parts, never starts from the top instead."""
    with pytest.raises(CheckpointError, match="jsonl"):
        make_parser(CSV, TABLE, {"format": "jsonl", "encoding": "utf-8", "dialect": None, "header": None})
    with pytest.raises(CheckpointError, match="damaged"):
        make_parser(CSV, TABLE, {"format": "csv"})


def test_records_under_an_unknown_header_are_quarantined() -> None:
    """In the middle of a file without a header in the state, no name is guessed."""
    parsed = make_parser(CSV, TABLE, None).parse(b"1,a\n", offset=50, line=1, limit=9, tail=Tail.WAIT)
    assert refused(parsed) == [(50, 4, 1, b"1,a\n", "no_header")]


def test_empty_is_null_and_quoted_empty_is_an_empty_text() -> None:
    """In a text column only; in other columns both are NULL, and no misfit."""
    parsed = parse(b'id,name\n1,""\n2,\n"",x\n,y\n"4","a""b"\n5,"""q"""\n')
    assert rows(parsed) == [(1, ""), (2, None), (None, "x"), (None, "y"), (4, 'a"b'), (5, '"q"')]
    assert (parsed.records.extras, parsed.misfits) == ({}, {})


def test_null_words_are_null_only_without_quotes() -> None:
    """A word in quotes is a text, and in a typed column a misfit."""
    parsed = parse(b'id,name\nNA,NA\n"NA","NA"\n', Spec("csv", null=("NA",)))
    assert rows(parsed) == [(None, None), (None, "NA")]
    assert (parsed.records.extras, parsed.misfits) == ({1: '{"id":"NA"}'}, {"id": 1})


def test_a_misfit_of_an_inferred_column_keeps_the_row() -> None:
    """NULL in the column, the raw text in `_extra`, counted; UTF-8 is not escaped."""
    parsed = parse("id,name\n00501,a\nü,b\n3,c\n".encode())
    assert rows(parsed) == [(None, "a"), (None, "b"), (3, "c")]
    assert parsed.records.extras == {0: '{"id":"00501"}', 1: '{"id":"ü"}'}
    assert parsed.misfits == {"id": 2}


def test_a_misfit_of_a_declared_column_quarantines_the_record() -> None:
    """The sentence names the value, the column and its type."""
    layout = Layout((Column("id", "id", "integer", declared=True), NAME))
    parsed = parse(b"id,name\n1,a\nx,b\n", layout=layout)
    assert rows(parsed) == [(1, "a")]
    assert refused(parsed) == [(12, 4, 3, b"x,b\n", "misfit")]
    assert parsed.bad[0].message == '"x" does not fit the column id of type integer'


def test_ragged_rows_are_quarantined_with_both_counts() -> None:
    """Too few and too many fields alike."""
    parsed = parse(b"id,name\n1\n2,b\n3,c,d\n")
    assert rows(parsed) == [(2, "b")]
    assert refused(parsed) == [(8, 2, 2, b"1\n", "ragged"), (14, 6, 4, b"3,c,d\n", "ragged")]
    assert [one.message for one in parsed.bad] == ["expected 2 fields, got 1", "expected 2 fields, got 3"]


def test_ragged_rows_are_padded_on_request() -> None:
    """Missing fields are NULL, surplus ones go to `_extra` by their position."""
    parsed = parse(b"id,name\n1\n3,c,d,,e\n", Spec("csv", ragged="pad"))
    assert rows(parsed) == [(1, None), (3, "c")]
    assert parsed.records.extras == {1: '{"c3":"d","c5":"e"}'}


def test_a_missing_key_quarantines_the_record() -> None:
    """NULL in a key column, and a misfit there too: a key cannot be half."""
    parsed = parse(b"id,name\n,a\nx,b\n3,c\n", layout=Layout((ID, NAME), key=("id",)))
    assert rows(parsed) == [(3, "c")]
    assert [one[4] for one in refused(parsed)] == ["key_missing", "key_missing"]
    assert parsed.misfits == {}


def test_without_a_header_columns_are_c1_to_cn() -> None:
    """The layout says how many fields a record has."""
    layout = Layout((Column("c1", "c1", "integer"), Column("c2", "c2", "text")))
    parsed = parse(b"1,a\n2\n", Spec("csv", header=False), layout)
    assert (rows(parsed), refused(parsed)) == ([(1, "a")], [(4, 2, 2, b"2\n", "ragged")])
    assert parsed.records.offsets == [0]


def test_names_may_be_given_instead_of_a_header() -> None:
    """Every record is data then."""
    assert rows(parse(b"a,1\n", Spec("csv", header=("name", "id")))) == [(1, "a")]


def test_a_quote_that_is_never_closed_costs_one_line() -> None:
    """At the end of a file that may not grow, the lines that it swallowed are read again."""
    data = b'id,name\n1,"a\n2,b\n3,c\n'
    parsed = parse(data)
    assert rows(parsed) == [(2, "b"), (3, "c")]
    assert refused(parsed) == [(8, 5, 2, b'1,"a\n', "unclosed_quote")]
    for tail in (Tail.WAIT, Tail.TRY):
        waiting = parse(data, tail=tail)
        assert (waiting.consumed, rows(waiting), waiting.bad) == (8, [], [])


def test_an_open_quote_may_not_swallow_more_than_a_record() -> None:
    """After `max_record_bytes` its line is given up even while the file grows."""
    data = b'id,name\n1,"a\n' + b"2,b\n" * 8
    parsed = parse(data, Spec("csv", max_record_bytes=30), tail=Tail.WAIT)
    assert refused(parsed) == [(8, 5, 2, b'1,"a\n', "unclosed_quote")]
    assert rows(parsed) == [(2, "b")] * 8
    assert parsed.consumed == len(data)


def test_a_record_may_be_too_long() -> None:
    """Its whole length is told, only the first bytes are kept."""
    spec = Spec("csv", max_record_bytes=10, quarantine_raw_bytes=4)
    parsed = parse(b"id,name\n1,aaaaaaaa\n2,aaaaaaa\n", spec)
    assert refused(parsed) == [(8, 11, 2, b"1,aa", "record_too_long")]
    assert rows(parsed) == [(2, "aaaaaaa")]


def test_a_lone_carriage_return_is_data() -> None:
    """Inside a field it is kept, quoted or not; before the line end it belongs to that."""
    parsed = parse(b'id,name\n1,a\rb\r\n2,"c\r\nd"\r\n')
    assert rows(parsed) == [(1, "a\rb"), (2, "c\r\nd")]


def test_undecodable_bytes_quarantine_their_record_only() -> None:
    """The quotes of the record still frame it."""
    parsed = parse(b'id,name\n1,"\xff\n,"\n2,b\0c\n')
    assert refused(parsed) == [(8, 8, 2, b'1,"\xff\n,"\n', "bad_encoding")]
    assert rows(parsed) == [(2, "b\0c")]


@pytest.mark.parametrize(
    ("rest", "tried", "taken"),
    [
        (b"2,b", [(2, "b")], []),
        (b"2,b\r", [(2, "b")], []),
        (b"2", [], ["truncated_record"]),
        (b'2,"b', [], ["truncated_record"]),
        (b"2,b\0\0", [], ["truncated_record"]),
        (b"\0\0", [], ["truncated_record"]),
        (b"2,\xc3", [], ["truncated_record"]),
    ],
)
def test_a_last_record_without_an_end(rest: bytes, tried: list[tuple[object, ...]], taken: list[str]) -> None:
    """WAIT leaves it, TRY takes what parses, TAKE quarantines the rest; what is taken is remembered."""
    data = b"id,name\n1,a\n" + rest
    waiting = parse(data, tail=Tail.WAIT)
    assert (rows(waiting), waiting.consumed, waiting.open_record) == ([(1, "a")], 12, None)
    tries = parse(data, tail=Tail.TRY)
    assert rows(tries) == [(1, "a"), *tried]
    assert (tries.consumed, tries.open_record) == ((len(data), 12) if tried else (12, None))
    takes = parse(data, tail=Tail.TAKE)
    assert rows(takes) == [(1, "a"), *tried]
    assert refused(takes) == [(12, len(rest), 3, rest, reason) for reason in taken]
    assert (takes.consumed, takes.open_record) == (len(data), 12)


def test_a_header_without_a_line_end_is_read_again_when_it_is_continued() -> None:
    """It waits while it may; taken, the whole top is remembered as open."""
    waiting = parse(b"\xef\xbb\xbfid,na", tail=Tail.WAIT)
    assert (waiting.consumed, waiting.open_record) == (0, None)
    taken = parse(b"\xef\xbb\xbfid,na")
    assert (taken.consumed, taken.open_record, rows(taken)) == (8, 0, [])


def test_parsing_stops_exactly_at_the_limit() -> None:
    """Rows, bad records and skipped ones count, blank lines and the header do not."""
    data = b"id,name\n\n1,a\n2\nid,name\n3,c\n"
    parsed = parse(data, limit=3)
    assert (rows(parsed), len(parsed.bad), parsed.skipped) == ([(1, "a")], 1, 1)
    assert data[parsed.consumed :] == b"3,c\n"


def test_items_are_objects_of_their_fields() -> None:
    """Names as in the header, NULL as null; the key is a text or a compact array."""
    layout = Layout((Column("payload", "*", "json"), Column("source_item_id", "*", "text")), ("id",), "items")
    parsed = parse(b'id,na me\n7,\n8,""\n,x\n', layout=layout)
    assert rows(parsed) == [('{"id":"7","na me":null}', "7"), ('{"id":"8","na me":""}', "8")]
    assert refused(parsed) == [(17, 3, 4, b",x\n", "key_missing")]
    two = Layout(layout.columns, ("na me", "id"), "items")
    assert rows(parse(b"id,na me\n7,a\n", layout=two)) == [('{"id":"7","na me":"a"}', '["a","7"]')]
    assert rows(parse(b"7,a\n", Spec("csv", header=False), Layout(layout.columns, (), "items"))) == [
        ('{"c1":"7","c2":"a"}', None)
    ]


def test_a_long_item_key_becomes_a_digest() -> None:
    """128 bytes stay, 129 do not."""
    layout = Layout((Column("payload", "*", "json"), Column("source_item_id", "*", "text")), ("id",), "items")
    keys = parse(b"id\n" + b"x" * 128 + b"\n" + b"x" * 129 + b"\n", layout=layout).records.columns[1]
    assert keys[0] == "x" * 128
    assert str(keys[1])[:5] == "xxh3:"
    assert len(str(keys[1])) == 37


def test_three_hundred_columns_and_strange_names() -> None:
    """Keywords, quotes and emoji are names like others."""
    names = ["select", 'a"b', "🙂", *(f"n{number}" for number in range(297))]
    layout = Layout(tuple(Column(name, name, "integer") for name in names))
    header = ",".join('"' + name.replace('"', '""') + '"' for name in names)
    parsed = parse(f"{header}\n{','.join(map(str, range(300)))}\n".encode(), layout=layout)
    assert rows(parsed) == [tuple(range(300))]


def test_a_header_may_be_too_long() -> None:
    """Its records are quarantined with it: without the header they have no names."""
    spec = Spec("csv", max_record_bytes=8, quarantine_raw_bytes=3)
    for data in (b"id,long_name\n1,a\n", b'id,"long_nam\n1,a\n'):
        parsed = parse(data, spec)
        assert [(one.offset, one.raw, one.reason) for one in parsed.bad] == [
            (0, data[:3], "record_too_long"),
            (13, b"1,a", "no_header"),
        ]


def test_comments_are_skipped_wherever_a_record_may_begin() -> None:
    """Quotes in them open nothing; inside a quoted field a line is no comment; those at the top are the top."""
    spec = Spec("csv", comment="#")
    parsed = parse(b'# made "today\n#\nid,name\n1,a\n# half,"open\n2,"b\n# c"\n3,#d\n#last', spec)
    assert rows(parsed) == [(1, "a"), (2, "b\n# c"), (3, "#d")]
    assert (parsed.skipped, parsed.bad, parsed.lines) == (2, [], 8)
    assert parsed.records.offsets == [24, 41, 51]


def test_a_delimiter_at_the_end_is_no_field() -> None:
    """Of records, of the header, of both; anything else is ragged."""
    assert rows(parse(b"id,name\n1,a,\n2,b\n")) == [(1, "a"), (2, "b")]
    assert rows(parse(b"id,name,\n1,a,\n2,b\n")) == [(1, "a"), (2, "b")]
    assert [one.reason for one in parse(b"id,name\n1,a,x\n2,b,,\n3\n").bad] == ["ragged"] * 3


def test_a_decimal_comma_is_read_when_it_is_asked_for() -> None:
    """A point is then no part of a number: nobody knows whether 1.234 is a thousand."""
    layout = Layout((Column("r", "r", "real"), Column("d", "d", "decimal"), Column("i", "i", "integer")))
    parsed = parse(b"r;d;i\n0,12;-7,50;3\n1.5;1.000,5;1,0\n", Spec("csv", delimiter=";", decimal=","), layout)
    assert rows(parsed) == [(0.12, "-7.50", 3), (None, None, None)]
    assert json.loads(parsed.records.extras[1]) == {"r": "1.5", "d": "1.000,5", "i": "1,0"}


COPY = Spec("csv", delimiter="\t", quote="", escape="\\", header=("id", "name"))


def test_the_text_format_of_copy_is_read() -> None:
    r"""Escapes, \N for NULL, an empty text that is one, quotes that are data, \. at the end."""
    parsed = parse(b'1\ta\\tb\\\\c\n\\N\t\\N\n3\t\n4\t"q\n5\t\\\\N\n6\tx\\\ny\n\\.\n', COPY)
    assert rows(parsed) == [(1, "a\tb\\c"), (None, None), (3, ""), (4, '"q'), (5, "\\N"), (6, "x\ny")]
    assert (parsed.skipped, parsed.bad, list(parsed.records.lines)) == (1, [], [1, 2, 3, 4, 5, 6])


def test_an_empty_number_in_a_dump_is_null() -> None:
    """As a quoted empty one is."""
    assert rows(parse(b"\tx\n", COPY)) == [(None, "x")]


def test_escapes_within_quotes_are_read() -> None:
    """As MySQL writes them; a doubled quote is one, too, and NULL is not quoted."""
    spec = Spec("csv", escape="\\", header=("id", "name"))
    parsed = parse(b'1,"a\\"b""c"\n2,"d\\\ne, f"\n3,\\N\n4,"\\\\N"\n5,""\n6,\n7,"x\ny"\n', spec)
    assert rows(parsed) == [
        (1, 'a"b"c'), (2, "d\ne, f"), (3, None), (4, "\\N"), (5, ""), (6, None), (7, "x\ny")
    ]  # fmt: skip


def test_fields_without_quotes_and_escapes_are_cut_at_delimiters_only() -> None:
    """`quote = ""`: a quote is a character."""
    spec = Spec("csv", quote="", header=("id", "name"))
    assert rows(parse(b'1,"a\n2,b"\n3,\n', spec)) == [(1, '"a'), (2, 'b"'), (3, None)]


def test_another_quote_can_be_said() -> None:
    """Apostrophes, for example."""
    assert rows(parse(b"id,name\n1,'a,''b'\n", Spec("csv", quote="'"))) == [(1, "a,'b")]


def test_an_escape_at_the_end_of_a_file_is_not_whole() -> None:
    """The escaped character is missing."""
    parsed = parse(b"1\ta\n2\tb\\", COPY)
    assert (rows(parsed), [one.reason for one in parsed.bad]) == ([(1, "a")], ["truncated_record"])


def test_a_quote_never_closed_is_bounded_and_reading_goes_on() -> None:
    """In the middle of the file and near its end, each costs its own line."""
    lines = 40
    spec = Spec("csv", max_record_bytes=100)
    good = b"".join(b"%d,x\n" % number for number in range(lines))
    parsed = parse(b'id,name\n7,"open\n' + good + b'8,"open\n' + good, spec)
    assert [row[0] for row in rows(parsed)] == [*range(lines), *range(lines)]
    assert refused(parsed) == [
        (8, 8, 2, b'7,"open\n', "unclosed_quote"),
        (16 + len(good), 8, 43, b'8,"open\n', "unclosed_quote"),
    ]
    assert parsed.consumed == 24 + 2 * len(good)
