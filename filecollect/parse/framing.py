"""Newline framing with exact byte offsets, and small things the parsers share.

Valid for every encoding in which the byte 0x0A is only ever a line feed (ASCII, UTF-8, the Latin and
Windows code pages). A physical line ends at `\\n`; a `\\r` before it belongs to the line end.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate

from filecollect.domain.batch import BadRecord, Records

BOM = b"\xef\xbb\xbf"


def whole_lines(data: bytes) -> tuple[list[bytes], bytes]:
    """Return the complete lines without their `\\n`, and what follows the last one."""
    lines = data.split(b"\n")
    return lines, lines.pop()


def starts(lines: Sequence[bytes], offset: int) -> list[int]:
    """Return the offset of every line, and of what follows the last."""
    return list(accumulate(map(len, lines), lambda at, size: at + size + 1, initial=offset))


def end_of_line(data: bytes, start: int) -> int:
    """Return the offset behind the next line end, -1 when there is none."""
    return data.find(b"\n", start) + 1 or -1


def bad(data: bytes, offset: int, line: int, reason: str, message: str, raw_bytes: int) -> BadRecord:
    """Return a bad record that keeps its first bytes."""
    return BadRecord(offset, len(data), line, data[:raw_bytes], reason, message)


def without(records: Records, dropped: Collection[int]) -> Records:
    """Return records without some indexes."""
    gone = set(dropped)
    kept = [index for index in range(len(records)) if index not in gone]
    place = {index: at for at, index in enumerate(kept)}
    return Records(
        [[column[index] for index in kept] for column in records.columns],
        [records.offsets[index] for index in kept],
        [records.lengths[index] for index in kept],
        [records.lines[index] for index in kept],
        {place[index]: extra for index, extra in records.extras.items() if index in place},
    )
