"""Any chunk size gives the same records, and every byte is accounted for."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from filecollect.domain.columns import Column, Layout
from filecollect.parse.api import Tail
from filecollect.parse.build import make_parser
from filecollect.parse.spec import Spec

SPECS = {
    "csv": Spec("csv", delimiter=",", header=True, max_record_bytes=200),
    "jsonl": Spec("jsonl", max_record_bytes=200),
    "lines": Spec("lines", max_record_bytes=200),
}
LAYOUTS = {
    "csv": Layout((Column("a", "a", "integer"), Column("b", "b", "text"))),
    "jsonl": Layout((Column("a", "a", "integer"), Column("b", "b", "text"))),
    "lines": Layout((Column("line", "line", "text"),)),
}


def read(kind: str, data: bytes, chunk: int, limit: int) -> tuple[list[Any], list[Any], int]:
    """Read as ingestion does: growing buffers, the rest handed in again; return records, bad ones, position."""
    parser = make_parser(SPECS[kind], LAYOUTS[kind], None)
    records: list[Any] = []
    bad: list[Any] = []
    offset, line, given_to = 0, 1, 0
    while offset < len(data):
        given_to = max(given_to, min(len(data), offset + chunk))
        whole = given_to == len(data)
        buffer = data[offset:given_to]
        parsed = parser.parse(buffer, offset=offset, line=line, limit=limit, tail=Tail.TAKE if whole else Tail.WAIT)
        found = parsed.records
        for at in range(len(found)):
            values = tuple(column[at] for column in found.columns)
            records.append((found.offsets[at], found.lengths[at], found.lines[at], values, found.extras.get(at)))
        bad += [(one.offset, one.length, one.line, one.raw, one.reason) for one in parsed.bad]
        assert len(found) + len(parsed.bad) + parsed.skipped <= limit
        if parsed.consumed == 0:
            if whole:
                break
            given_to = min(len(data), given_to + chunk)
        offset += parsed.consumed
        line += parsed.lines
    return records, bad, offset


PIECES = st.lists(
    st.sampled_from(
        [
            b"1,x",
            b'2,"y"',
            b'3,""',
            b'"4","a\nb"',
            b'5,"q""q"',
            b"6",
            b"7,8,9",
            b"",
            b"\r",
            b"a,b",
            b'x,"open',
            b'9,st"ay',
        ]
    ),
    max_size=8,
)
ENDS = st.sampled_from([b"\n", b"\r\n"])
JSON_LINES = st.lists(
    st.sampled_from(
        [
            b'{"a":1,"b":"x"}',
            b'{"a":"no"}',
            b"{",
            b"[1]",
            b"",
            b" ",
            b'{"b":"\xff"}',
            b'{"a":NaN}',
            b'{"c":[1,{}]}',
            b"\x00\x00",
        ]
    ),
    max_size=8,
)


@settings(max_examples=300)
@given(PIECES, ENDS, st.booleans(), st.integers(1, 40), st.integers(1, 5))
@example([b'"4","a\nb"'], b"\n", False, 1, 1)
def test_csv_in_any_chunks_is_csv_in_one(pieces: list[bytes], end: bytes, ended: bool, chunk: int, limit: int) -> None:
    """Quoted newlines, quotes never closed, ragged rows: the same at any edge."""
    data = end.join([b"a,b", *pieces]) + (end if ended else b"")
    assert read("csv", data, chunk, limit) == read("csv", data, len(data), 1000)


@settings(max_examples=300)
@given(JSON_LINES, ENDS, st.booleans(), st.integers(1, 40), st.integers(1, 5))
def test_json_lines_in_any_chunks_are_the_same(
    pieces: list[bytes], end: bytes, ended: bool, chunk: int, limit: int
) -> None:
    """Broken records are broken at any edge."""
    data = end.join(pieces) + (end if ended else b"")
    assert read("jsonl", data, chunk, limit) == read("jsonl", data, max(1, len(data)), 1000)


SIGNS = st.sampled_from(
    [b"\n", b"\n", b'"', b",", b"a", b"1", b"\r", b"\x00", b"\xff", b"{", b"}", b"\xef\xbb\xbf", b" "]
)


@settings(max_examples=1000)
@given(
    st.sampled_from(sorted(SPECS)), st.lists(SIGNS, max_size=40).map(b"".join), st.integers(1, 30), st.integers(1, 4)
)
def test_any_bytes_are_accounted_for(kind: str, data: bytes, chunk: int, limit: int) -> None:
    """No exception, nothing left, nothing counted twice, the same in any chunks."""
    records, bad, position = read(kind, data, chunk, limit)
    assert position == len(data)
    spans = sorted((one[0], one[0] + one[1]) for one in [*records, *bad])
    assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert all(end <= len(data) for _, end in spans)
    assert (records, bad, position) == read(kind, data, max(1, len(data)), 1000)
