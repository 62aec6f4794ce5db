"""Any chunk size gives the same records, and no bytes at all make a parser raise or lose a byte."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filecollect.domain.columns import Column, Layout
from filecollect.parse.api import Parsed, Parser, Tail
from filecollect.parse.build import make_parser
from filecollect.parse.lineends import BOMS
from filecollect.parse.spec import Spec

COLUMNS = (Column("a", "a", "integer"), Column("b", "b", "text"), Column("c", "c", "real", declared=True))
TABLE = Layout(COLUMNS)
ITEMS = Layout((Column("payload", "*", "json"), Column("source_item_id", "*", "text")), ("a",), "items")
LINES = Layout((Column("line", "line", "text"),))


@dataclass
class Run:
    """What a whole file became."""

    rows: list[tuple[Any, ...]] = field(default_factory=list)
    bad: list[tuple[Any, ...]] = field(default_factory=list)
    skipped: int = 0
    consumed: int = 0
    lines: int = 0
    misfits: dict[str, int] = field(default_factory=dict)
    open_record: int | None = None
    state: dict[str, Any] = field(default_factory=dict)

    def add(self, parsed: Parsed) -> None:
        """Append the outcome of one parse."""
        records = parsed.records
        for index in range(len(records)):
            values = tuple(column[index] for column in records.columns)
            place = (records.offsets[index], records.lengths[index], records.lines[index])
            self.rows.append((*place, values, records.extras.get(index)))
        self.bad += [(one.offset, one.length, one.line, one.raw, one.reason) for one in parsed.bad]
        self.skipped += parsed.skipped
        self.consumed += parsed.consumed
        self.lines += parsed.lines
        self.open_record = parsed.open_record
        for name, count in parsed.misfits.items():
            self.misfits[name] = self.misfits.get(name, 0) + count


def drive(
    content: bytes,
    spec: Spec,
    layout: Layout,
    ends: Iterable[int] = (),
    limit: int = 10_000,
    last: Tail = Tail.TAKE,
    resume: bool = False,
) -> Run:
    """Feed `content` as a reader would: up to each of `ends` waiting for more, then to its end.

    With `resume` every call gets a new parser made from the state of the one before.
    """
    run = Run()
    parser = make_parser(spec, layout, None)
    for end in [*sorted({end for end in ends if end < len(content)}), len(content)]:
        tail = last if end == len(content) else Tail.WAIT
        while run.consumed < end:
            if resume:
                parser = make_parser(spec, layout, parser.state())
            data = content[run.consumed : end]
            parsed = parser.parse(data, offset=run.consumed, line=run.lines + 1, limit=limit, tail=tail)
            assert len(parsed.records) + len(parsed.bad) + parsed.skipped <= limit
            assert parsed.lines == parser.ends.count(data, 0, parsed.consumed)
            if parsed.consumed == 0:
                if tail is Tail.WAIT and len(data) >= spec.max_record_bytes:
                    _skip_too_long(content, run, spec, parser)
                    continue
                break
            run.add(parsed)
    run.state = parser.state()
    return run


def _skip_too_long(content: bytes, run: Run, spec: Spec, parser: Parser) -> None:
    """Pass over a record that may not be held, as the reader does, in pieces of any size."""
    start = end = run.consumed
    skip = parser.skip()
    found = -1
    while found < 0 and end < len(content):
        piece = content[end : end + 1 + (end - start) % 5]
        found = skip.feed(piece)
        end += found if found >= 0 else len(piece)
    raw = content[start:end][: spec.quarantine_raw_bytes]
    run.bad.append((start, end - start, run.lines + 1, raw, "record_too_long"))
    run.open_record = None if found >= 0 else start
    run.consumed = end
    run.lines += skip.lines


PIECES = {
    "csv": [b"a,b,c\n", b"1,x,2.5\n", b'2,"two\nlines",1\r\n', b'3,"",\n', b",,\n", b"1,2\n", b'"', b'""', b",", b"\n",
            b"\r\n", b"\r", b"\0", b"7", b"x\xff", b'4,"open,5\n', "5,ü,1\n".encode(), b"zip,b,0.1\n", b"b,a,c\n"],
    "jsonl": [b'{"a":1,"b":"x"}\n', b'{"a":"no","d":[1, 2]}\n', b'{"c":"x"}\n', b"[1]\n", b"{", b"}", b'"', b"\n",
              b" \r\n", b"\0", b'{"b":"\xff"}\n', b'{"a":7.0}\n', b'{"c":0.12345678901234567}\n', b'{"b":"\\ud800"}\n',
              b'{"c":9007199254740993}', '{"b":"ü"}'.encode(), b'{"a":null,"c":1}\n', b"NaN"],
    "json": [b'{"a":1,"b":"x"}', b'{"a":\n {"d":[1, 2]}}\n', b'{"c":"x"},\n', b"[1]", b"{", b"}", b'"', b"\n", b"[",
             b"]", b" \r\n", b"\0", b'{"b":"\xff"}\n', b'{"a":7.0},', b'{"a":1,"a":2}', b'{"b":"\\ud800"}\n', b"12",
             b"true ", '{"b":"ü"}'.encode(), b'{"a":null,"c":1}\n', b"NaN", b"\\", b'\n {"a"', b'  {"a":[}', b"junk {"],
    "lines": [b"one\n", b"two\r\n", b"\n", b"\r", b"\0", b"\xff", "ü".encode(), b"lone\rcr\n", b"x"],
}  # fmt: skip


def contents(format_name: str) -> st.SearchStrategy[bytes]:
    """Return contents made of pieces that mean something, with a few stray bytes."""
    return st.lists(st.one_of(st.sampled_from(PIECES[format_name]), st.binary(max_size=3)), max_size=14).map(b"".join)


def contents_for(spec: Spec) -> st.SearchStrategy[bytes]:
    """Return such contents in the encoding and with the line ends of a spec, and a byte order mark at times."""
    bom = st.sampled_from([b"", b"", "\ufeff".encode(spec.encoding, "ignore")])
    odd = st.sampled_from([b"", b"", b"\0", b"\xd8\xd8", b"\x81"])

    def encode(content: bytes) -> bytes:
        if spec.newline == "\r":
            content = content.translate(bytes.maketrans(b"\r\n", b"\n\r"))
        if spec.encoding in ("utf-8", "latin-1", "cp1252"):
            return content
        return (content.decode("utf-8", "ignore") + ("表ソ" * (len(content) % 2))).encode(spec.encoding, "ignore")

    parts = st.tuples(bom, contents(spec.format).map(encode), odd, contents(spec.format).map(encode))
    return parts.map(b"".join)


SPECS = [
    pytest.param(Spec("csv"), TABLE, id="csv"),
    pytest.param(Spec("csv"), ITEMS, id="csv-items"),
    pytest.param(Spec("csv", max_record_bytes=24, quarantine_raw_bytes=5), TABLE, id="csv-short"),
    pytest.param(Spec("csv", header=False, ragged="pad"), Layout((Column("c1", "c1", "text"),)), id="csv-pad"),
    pytest.param(Spec("csv", header=False), ITEMS, id="csv-unnamed"),
    pytest.param(Spec("csv", encoding="cp1252", null=("x",)), TABLE, id="csv-cp1252"),
    pytest.param(Spec("csv", skip_lines=2), TABLE, id="csv-skip"),
    pytest.param(Spec("jsonl"), TABLE, id="jsonl"),
    pytest.param(Spec("jsonl"), ITEMS, id="jsonl-items"),
    pytest.param(Spec("jsonl", max_record_bytes=20, quarantine_raw_bytes=5), TABLE, id="jsonl-short"),
    pytest.param(Spec("jsonl", encoding="latin-1", skip_lines=1), TABLE, id="jsonl-latin1"),
    pytest.param(Spec("csv", encoding="utf-16-le"), TABLE, id="csv-utf16"),
    pytest.param(
        Spec("csv", encoding="utf-16-be", max_record_bytes=40, header=("a", "b", "c")), TABLE, id="csv-utf16-short"
    ),
    pytest.param(Spec("csv", encoding="utf-32-le"), TABLE, id="csv-utf32"),
    pytest.param(Spec("csv", encoding="cp932", delimiter="|"), TABLE, id="csv-cp932"),
    pytest.param(Spec("csv", newline="\r"), TABLE, id="csv-cr"),
    pytest.param(Spec("csv", comment="x", encoding_errors="replace"), TABLE, id="csv-comments"),
    pytest.param(Spec("csv", quote="", escape="\\", comment="7"), TABLE, id="csv-dump"),
    pytest.param(Spec("csv", escape="\\", header=False), Layout((Column("c1", "c1", "text"),)), id="csv-escape"),
    pytest.param(Spec("jsonl", encoding="utf-16-be"), TABLE, id="jsonl-utf16"),
    pytest.param(Spec("jsonl", newline="\r", bare=True), ITEMS, id="jsonl-cr-bare"),
    pytest.param(Spec("jsonl", flatten=2, encoding_errors="replace"), TABLE, id="jsonl-flat"),
    pytest.param(Spec("json"), TABLE, id="json"),
    pytest.param(Spec("json"), ITEMS, id="json-items"),
    pytest.param(Spec("json", bare=True, flatten=1), TABLE, id="json-bare-flat"),
    pytest.param(Spec("json", max_record_bytes=20, quarantine_raw_bytes=5), TABLE, id="json-short"),
    pytest.param(Spec("json", skip_lines=1, newline="\r"), TABLE, id="json-cr-skip"),
    pytest.param(Spec("json", encoding="utf-16-le", encoding_errors="replace"), TABLE, id="json-utf16"),
    pytest.param(Spec("json", encoding="utf-32-be", max_record_bytes=64), TABLE, id="json-utf32-short"),
    pytest.param(Spec("json", encoding="gb18030"), TABLE, id="json-gb18030"),
    pytest.param(Spec("lines", encoding="utf-16-le"), LINES, id="lines-utf16"),
    pytest.param(Spec("lines", encoding="big5", encoding_errors="replace"), LINES, id="lines-big5"),
    pytest.param(Spec("lines"), LINES, id="lines"),
    pytest.param(Spec("lines", max_record_bytes=8), LINES, id="lines-short"),
]


@pytest.mark.parametrize(("spec", "layout"), SPECS)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_any_chunking_limit_and_resume_give_the_same_records(spec: Spec, layout: Layout, data: st.DataObject) -> None:
    """Cut anywhere, taken in any portions, by one parser or a new one each time: one outcome."""
    content = data.draw(contents_for(spec))
    if spec.max_record_bytes < 100 and spec.format != "json":
        # Blank lines and a header longer than a record are the reader's to pass over.
        content = content.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n\0")
    whole = drive(content, spec, layout)
    cuts = data.draw(st.lists(st.integers(1, max(1, len(content))), max_size=6))
    limit = data.draw(st.integers(1, 4))
    assert drive(content, spec, layout, range(1, len(content))) == whole
    assert drive(content, spec, layout, cuts, limit) == whole
    assert drive(content, spec, layout, cuts, limit, resume=True) == whole


@pytest.mark.parametrize(("spec", "layout"), SPECS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_every_byte_is_a_row_a_bad_record_a_skip_a_blank_or_the_top(
    spec: Spec, layout: Layout, data: st.DataObject
) -> None:
    """Nothing raises, everything is consumed at the end, and spans neither overlap nor leave text out."""
    content = data.draw(st.one_of(st.binary(max_size=60), contents_for(spec)))
    run = drive(content, spec, layout)
    assert run.consumed == len(content)
    position = 0
    gaps = []
    for start, length in sorted((one[0], one[1]) for one in [*run.rows, *run.bad]):
        assert start >= position
        gaps.append(content[position:start])
        position = start + length
    gaps.append(content[position:])
    assert position <= len(content)
    mark = next((bom for bom, _ in BOMS if content.startswith(bom)), b"")
    left_out = b"".join(gaps).removeprefix(mark)
    if spec.encoding.startswith(("utf-16", "utf-32")) or mark not in (b"", BOMS[2][0]):
        left_out = left_out.replace(b"\0", b"")
    if spec.format == "lines":
        assert not left_out.strip(b"\r\n")
    elif spec.format == "json" and not spec.skip_lines:
        assert not left_out.strip(b" \t\r\n\v\f\x1e[],")
    elif spec.format == "jsonl" and not spec.skip_lines:
        assert not left_out.strip(b" \t\r\n[],")
    elif spec.format == "csv" and spec.header is False:
        assert not left_out.strip(b"\r\n")


@pytest.mark.parametrize("tail", [Tail.WAIT, Tail.TRY])
@pytest.mark.parametrize(("spec", "layout"), SPECS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_what_is_left_for_later_is_never_read_otherwise_before(
    spec: Spec, layout: Layout, tail: Tail, data: st.DataObject
) -> None:
    """With WAIT and TRY, what is consumed gives a prefix of what the whole file gives, and ends between records."""
    content = data.draw(contents_for(spec))
    parser = make_parser(spec, layout, None)
    early = Run()
    early.add(parser.parse(content, offset=0, line=1, limit=10_000, tail=tail))
    whole = drive(content, spec, layout)
    if tail is Tail.WAIT and early.consumed and early.rows:
        assert early.open_record is None
        if spec.format != "json":
            ends = parser.ends
            assert content[early.consumed - ends.unit : early.consumed] == ends.mark
    assert early.rows == whole.rows[: len(early.rows)]
    assert early.bad == whole.bad[: len(early.bad)]
    assert all(start + length <= early.consumed for start, length, *_ in early.rows)


@settings(max_examples=300, deadline=None)
@given(st.text('",\n\rax ', max_size=30))
def test_the_exact_splitter_reads_what_csv_reader_reads(text: str) -> None:
    """Both grammars agree on every record without a lone CR, whichever of them is asked."""
    import csv
    import io

    from filecollect.parse.quoting import Quoting

    text = text.replace("\r\n", "\n").replace("\r", "")
    quoting = Quoting(",", '"')
    records, record, in_quotes = [], "", 0
    for line in io.StringIO(text, newline="\n"):
        record += line
        in_quotes = quoting.ends_open(line, in_quotes)
        if not in_quotes:
            records.append(record)
            record = ""
    expected = [row for row in csv.reader(io.StringIO("".join(records), newline="\n")) if row]
    assert [quoting.split(one)[0] for one in records if one != "\n"] == expected
