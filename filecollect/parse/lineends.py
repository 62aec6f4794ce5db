"""Line ends as bytes of an encoding, found without decoding, so that offsets are the file's own.

A code unit has one byte, or two in UTF-16 and four in UTF-32. In every encoding of one-byte units that
is read here the byte of a line end is never part of another character, so it can be searched for; in
the wide ones a hit counts only at a whole unit. Data given here always begins at a record boundary,
which is a unit boundary.

`newline` is `\\n` (a `\\r` before it belongs to the line end) or `\\r` (files of old Macs, in which `\\n`
is data).
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks, longer ones first where one begins another."""
_BOM_OF = {encoding: bom for bom, encoding in BOMS}


def unit_of(encoding: str) -> int:
    """Return how many bytes a code unit of a codec has."""
    return 2 if encoding.startswith("utf-16") else 4 if encoding.startswith("utf-32") else 1


def bom_length(data: bytes, offset: int, encoding: str) -> int:
    """Return the length of the byte order mark that `data` begins with; only content offset 0 has one."""
    bom = _BOM_OF.get(encoding)
    return len(bom) if bom is not None and offset == 0 and data.startswith(bom) else 0


class LineEnds:
    """The line ends of one encoding and `newline`."""

    def __init__(self, encoding: str, newline: str = "\n") -> None:
        self.unit = unit_of(encoding)
        self.newline = newline
        self.mark = newline.encode(encoding)
        self._return = "\r".encode(encoding) if newline == "\n" else b""
        self._nul = bytes(self.unit)
        self._encoding = encoding

    def after(self, data: bytes, start: int) -> int:
        """Return the position after the first line end at or after `start`, -1 when there is none."""
        found = data.find(self.mark, start)
        if self.unit > 1:
            while found >= 0 and (found - start) % self.unit:
                found = data.find(self.mark, found + 1)
        return found + self.unit if found >= 0 else -1

    def after_last(self, data: bytes) -> int:
        """Return the position after the last line end, -1 when there is none."""
        found = data.rfind(self.mark)
        while found >= 0 and found % self.unit:
            found = data.rfind(self.mark, 0, found + len(self.mark) - 1)
        return found + self.unit if found >= 0 else -1

    def split(self, data: bytes, most: int) -> list[bytes]:
        """Return at most `most` lines without their ends, and after them the rest."""
        if self.unit == 1:
            return data.split(self.mark, most)
        lines: list[bytes] = []
        start = 0
        while len(lines) < most and (end := self.after(data, start)) > 0:
            lines.append(data[start : end - self.unit])
            start = end
        return [*lines, data[start:]]

    def count(self, data: bytes, start: int, end: int) -> int:
        """Return how many lines end in `data[start:end]`."""
        if self.unit == 1:
            return data.count(self.mark, start, end)
        return len(self.split(data[start:end], len(data))) - 1

    def bare(self, line: bytes) -> bytes:
        """Return a line without the `\\r` of its end."""
        return line.removesuffix(self._return)

    def is_half(self, data: bytes) -> bool:
        """Return whether `data` is the first half of a line end."""
        return bool(self._return) and data == self._return

    def is_blank(self, line: bytes) -> bool:
        """Return whether a line (its end included) holds nothing."""
        return line in (self.mark, self._return + self.mark)

    def leading(self, data: bytes) -> int:
        """Return the length of the line end that `data` begins with, 0 for none; half of one at the end counts."""
        whole = self._return + self.mark
        if data.startswith(whole) or data.startswith(self.mark):
            return len(whole) if data.startswith(whole) else self.unit
        return len(data) if whole.startswith(data) else 0

    def ends_in_nul(self, data: bytes) -> bool:
        """Return whether the last character is NUL."""
        return data.endswith(self._nul)

    def blank_lines(self, spaces: str = "", most: int = 0) -> re.Pattern[bytes]:
        """Return what matches one or more blank lines; at most `most` bytes of `spaces` may stand in each."""
        inner = "\r" if self.newline == "\n" else ""
        return _blank_lines(self._encoding, self.newline, spaces or inner, most // self.unit if spaces else 1)

    def skip(self) -> LineSkip:
        """Return what finds the end of a line too long to be held."""
        return LineSkip(self)


@lru_cache(maxsize=256)
def _blank_lines(encoding: str, newline: str, spaces: str, most: int) -> re.Pattern[bytes]:
    characters = b"|".join(re.escape(one.encode(encoding)) for one in spaces)
    before = b"(?:%s){0,%d}+" % (characters, most) if characters else b""
    return re.compile(b"(?:%s%s)++" % (before, re.escape(newline.encode(encoding))))


class LineSkip:
    """Finds the end of a line that comes in pieces."""

    def __init__(self, ends: LineEnds) -> None:
        self._ends = ends
        self._rest = b""
        self.lines = 0

    def feed(self, data: bytes) -> int:
        """Return the position in `data` after the line's end, -1 while it has not come."""
        whole = self._rest + data
        end = self._ends.after(whole, 0)
        if end < 0:
            # Half a code unit belongs to the next piece.
            self._rest = whole[len(whole) - len(whole) % self._ends.unit :]
            return -1
        self.lines = 1
        return end - len(self._rest)
