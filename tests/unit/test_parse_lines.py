"""Plain lines by hand-worked values."""

from __future__ import annotations

from filecollect.domain.columns import Column, Layout
from filecollect.parse.api import Tail
from filecollect.parse.build import make_parser
from filecollect.parse.spec import Spec

LAYOUT = Layout((Column("line", "line", "text"),))


def test_line_ends_are_stripped_exactly_and_empty_lines_are_no_records() -> None:
    """A lone CR, a NUL, blanks and odd Unicode line separators are data."""
    data = "one\r\n\n two \na\rb\0\u2028c\n\r\n".encode()
    parsed = make_parser(Spec("lines"), LAYOUT, None).parse(data, offset=0, line=1, limit=9, tail=Tail.WAIT)
    assert list(parsed.records.columns[0]) == ["one", " two ", "a\rb\0\u2028c"]
    assert parsed.records.offsets == [0, 6, 12]
    assert list(parsed.records.lines) == [1, 3, 4]
    assert (parsed.consumed, parsed.lines) == (len(data), 5)


def test_undecodable_lines_are_quarantined_and_legacy_encodings_read() -> None:
    """0xff is no UTF-8, and ÿ in Latin-1."""
    data = b"ok\n\xff\n"
    parsed = make_parser(Spec("lines"), LAYOUT, None).parse(data, offset=0, line=1, limit=9, tail=Tail.WAIT)
    assert [(one.offset, one.raw, one.reason) for one in parsed.bad] == [(3, b"\xff\n", "bad_encoding")]
    latin = make_parser(Spec("lines", encoding="latin-1"), LAYOUT, None)
    again = latin.parse(data, offset=0, line=1, limit=9, tail=Tail.WAIT)
    assert list(again.records.columns[0]) == ["ok", "ÿ"]


def test_a_last_line_is_taken_unless_it_is_not_yet_written() -> None:
    """A cut character and a run of NULs wait, and are truncated when they may wait no longer."""
    cut = ["truncated_record"]
    for rest, tries, reasons in ((b"end", ["end"], []), (b"\xc3", [], cut), (b"x\0\0", [], cut)):
        parser = make_parser(Spec("lines"), LAYOUT, None)
        tried = parser.parse(rest, offset=5, line=2, limit=9, tail=Tail.TRY)
        assert list(tried.records.columns[0]) == tries
        assert (tried.consumed, tried.open_record) == ((len(rest), 5) if tries else (0, None))
        taken = parser.parse(rest, offset=5, line=2, limit=9, tail=Tail.TAKE)
        assert [one.reason for one in taken.bad] == reasons
        assert (taken.consumed, taken.open_record) == (len(rest), 5)


def test_a_line_item_is_an_object() -> None:
    """With the line as its only member."""
    layout = Layout((Column("payload", "*", "json"), Column("source_item_id", "*", "text")), (), "items")
    parsed = make_parser(Spec("lines"), layout, None).parse(b'say "hi"\n', offset=0, line=1, limit=9, tail=Tail.WAIT)
    assert [list(values) for values in parsed.records.columns] == [['{"line":"say \\"hi\\""}'], [None]]


def test_a_byte_order_mark_does_not_make_the_first_line_too_long() -> None:
    """Six bytes are a record of six bytes, however the reader's buffer grows."""
    data = b"\xef\xbb\xbf\rtwo\r\n"
    spec = Spec("lines", max_record_bytes=8)
    waiting = make_parser(spec, LAYOUT, None).parse(data[:8], offset=0, line=1, limit=9, tail=Tail.WAIT)
    assert (waiting.consumed, len(waiting.records)) == (3, 0)
    parsed = make_parser(spec, LAYOUT, None).parse(data, offset=0, line=1, limit=9, tail=Tail.WAIT)
    assert (list(parsed.records.columns[0]), parsed.records.offsets) == (["\rtwo"], [3])
