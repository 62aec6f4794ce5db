"""CSV: records of delimited fields, quoted ones over several lines, under a header that the checkpoint keeps.

Invariant: the fast way (csv.reader over a block in which every line is one record) and the careful way
(record ends found line by line, see `quoting.py`) give the same records. The fast way declines whatever
it could get wrong: an open quote, a lone `\\r`, undecodable bytes, records that are too long.

The header is the first record after a byte order mark, the skipped lines and blank lines. It is read
only at the top of the content and handed on in the state, so an appended row is never taken for it.
A later record equal to it is skipped. Records whose header is unknown are quarantined (`no_header`).
Limit: blank lines and a header that together exceed `max_record_bytes` are passed over by the reader as
too long, so the header is then unknown.

A quote that is never closed must not swallow a file: when it is still open after `max_record_bytes`,
or at an end that may not grow, the record's first line alone is quarantined (`unclosed_quote`) and
reading goes on in the next line. Blank lines are no records.
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from filecollect.domain.columns import Layout
from filecollect.parse.api import Parsed, Tail
from filecollect.parse.framing import Built, Frames, Gathered, bom_length, end_of_line
from filecollect.parse.quoting import Quoting
from filecollect.parse.spec import Spec
from filecollect.parse.table import TextItems, TextTable

_BLANK = re.compile(rb"(?:\r?\n)++")
_SENTINEL = "end\n"
_FILLER = ""

csv.field_size_limit(sys.maxsize)


@dataclass(slots=True)
class _Open:
    """The record at which the data ended: its start, whether a quote is open, and more than one line."""

    quote: bool = False
    first_end: int = -1


@dataclass(slots=True)
class _Rows:
    """Records as rows of fields, with their frames; `quoted` are fields in quotes that may look like NULL."""

    frames: Frames
    rows: list[list[str]]
    quoted: dict[int, list[int]]
    bad: dict[int, tuple[str, str]]


def headerless_names(count: int) -> list[str]:
    """Return the source names of columns without a header: c1, c2, ..."""
    return [f"c{number}" for number in range(1, count + 1)]


class CsvParser:
    """A Parser for one CSV generation; `header` comes from the checkpoint when it resumes."""

    def __init__(self, spec: Spec, layout: Layout, header: Sequence[str] | None) -> None:
        self._spec = spec
        self._layout = layout
        self._quoting = Quoting(spec.delimiter, spec.quote, spec.null)
        self._nulls = frozenset(spec.null) | {""}
        self._header: list[str] | None = None
        self._table: TextTable | TextItems | None = None
        # Without names, items have as many fields as each record has.
        self._width: int | None = None
        if isinstance(spec.header, tuple):
            self._use(list(spec.header))
        elif header is not None:
            self._use(list(header))
        elif spec.header is False:
            self._use_positions()

    def _use(self, header: list[str]) -> None:
        self._header = header
        self._width = len(header)
        self._table = (TextItems if self._layout.kind == "items" else TextTable)(self._layout, header, self._nulls)

    def _use_positions(self) -> None:
        if self._layout.kind == "items":
            self._table = TextItems(self._layout, [], self._nulls)
            return
        sources = {column.source_name for column in self._layout.columns}
        width = 0
        while f"c{width + 1}" in sources:
            width += 1
        self._width = width
        self._table = TextTable(self._layout, headerless_names(width), self._nulls)

    def state(self) -> dict[str, Any]:
        """Return what a resume needs."""
        dialect = {"delimiter": self._spec.delimiter, "quote": self._spec.quote}
        header = self._header if self._spec.header is True else None
        return {"format": "csv", "encoding": self._spec.encoding, "dialect": dialect, "header": header}

    def parse(self, data: bytes, *, offset: int, line: int, limit: int, tail: Tail) -> Parsed:
        """Parse at most `limit` records; see `Parser.parse`."""
        return _Parse(self, data, offset, line, limit, tail).run()


class _Parse:
    """One call of `CsvParser.parse`: where it is, and what it has found."""

    def __init__(self, parser: CsvParser, data: bytes, offset: int, line: int, limit: int, tail: Tail) -> None:
        self.parser = parser
        self.spec = parser._spec
        self.quoting = parser._quoting
        self.data = data
        self.offset = offset
        self.first_line = self.line = line
        self.limit = limit
        self.tail = tail
        self.position = bom_length(data, offset, self.spec.encoding)
        self.got = Gathered(parser._spec, parser._layout)

    def run(self) -> Parsed:
        start = self.position
        topped = self._top()
        if topped:
            while self.got.count < self.limit:
                blank = _BLANK.match(self.data, self.position)
                if blank is not None:
                    self._move(blank.end())
                if self.position >= len(self.data):
                    break
                if not self._block() and not self._careful():
                    break
        waits = self.tail is Tail.WAIT and len(self.data) < self.spec.max_record_bytes
        if self.position == start and (waits or (not topped and start < len(self.data))):
            # A byte order mark waits for what follows: a header is told by its offset.
            self.position = 0
        return self.got.parsed(self.position, self.line - self.first_line)

    def _move(self, position: int) -> None:
        self.line += self.data.count(b"\n", self.position, position)
        self.position = position

    # The top of the content: skipped lines and the header.

    def _top(self) -> bool:
        """Pass the skipped lines and read the header; return whether records can follow.

        The top is consumed as one: what was no header yet is read again from the very beginning.
        """
        skip = self.spec.skip_lines
        if self.line > skip + 1 or (self.offset > 0 and skip == 0):
            return True
        start = self.position, self.line
        while self.line <= skip and (end := end_of_line(self.data, self.position)) > 0:
            self._move(end)
        if self.line > skip:
            if self.parser._spec.header is not True or self.parser._header is not None:
                return True
            skipped = self.position, self.line
            blank = _BLANK.match(self.data, self.position)
            if blank is not None:
                self._move(blank.end())
            if self._header():
                return True
        else:
            skipped = self.position, self.line
            if self.tail is Tail.TAKE:
                self.position = len(self.data)
        if self.tail is Tail.TAKE and self.got.open_record is None:
            self.got.open_record = self.offset
        if self.got.open_record is None:
            # More skipped lines than may be held are let go; then the header is told by its line.
            self.position, self.line = skipped if len(self.data) >= self.spec.max_record_bytes else start
        return False

    def _header(self) -> bool:
        """Read the header; return False when there is none yet, or none but a refused one to the end."""
        data, start = self.data, self.position
        frames, opened = self._frames(1)
        if frames.lengths:
            end = start + frames.lengths[0]
            return self._take_header(start, end)
        if opened is None or start >= len(data):
            return False
        if opened.first_end > 0 and self._too_open(start):
            return self._take_header(start, opened.first_end)
        if self.tail is Tail.WAIT or (self.tail is Tail.TRY and (opened.quote or data.endswith(b"\0"))):
            return False
        if data[start:] == b"\r":
            self.position = len(data)
            return False
        if opened.first_end > 0 and opened.quote:
            return self._take_header(start, opened.first_end)
        last = Frames(data, self.offset, [self.offset + start], [len(data) - start], [self.line])
        if data.endswith(b"\0") or len(data) - start > self.spec.max_record_bytes:
            if self.tail is Tail.TRY:
                return False
            if data.endswith(b"\0"):
                self.got.refuse(last, 0, "truncated_record", "the file ends in the middle of its header")
            else:
                self.got.refuse_one_long(last, 0)
            self.got.open_record = self.offset + start
            self._move(len(data))
            return False
        self._take_header(start, len(data))
        # Everything is read again from the top when the header's line is continued.
        self.got.open_record = self.offset
        return False

    def _take_header(self, start: int, end: int) -> bool:
        if end - start > self.spec.max_record_bytes:
            frames = Frames(self.data, self.offset, [self.offset + start], [end - start], [self.line])
            self.got.refuse_one_long(frames, 0)
            self._move(end)
            return True
        text = self.data[start:end].decode(self.spec.encoding, "replace")
        self.parser._use(self.quoting.split(text)[0])
        self._move(end)
        return True

    # Blocks in which every line is a record.

    def _block(self) -> bool:
        """Take whole lines that are each one record; return False when a closer look is needed."""
        data = self.data[self.position :] if self.position else self.data
        lines = data.split(b"\n", self.limit - self.got.count)
        rest = lines.pop()
        if not lines:
            return False
        size = len(data) - len(rest)
        lengths = [len(line) + 1 for line in lines]
        if max(lengths) > self.spec.max_record_bytes:
            return False
        try:
            text = data[:size].decode(self.spec.encoding)
        except UnicodeDecodeError:
            return False
        if "\r" in text and text.count("\r") != text.count("\r\n"):
            return False
        delimiter, quote = self.spec.delimiter, self.spec.quote
        quoted = quote in text
        source = io.StringIO(text + _SENTINEL if quoted else text, newline="\n")
        rows = list(csv.reader(source, delimiter=delimiter, quotechar=quote))
        # An open quote swallows the sentinel; a record of several lines makes the counts differ.
        if quoted and rows.pop() != [_SENTINEL[:-1]]:
            return False
        if len(rows) != len(lines):
            return False
        offsets = list(accumulate(lengths, initial=self.offset + self.position))
        offsets.pop()
        frames = Frames(self.data, self.offset, offsets, lengths, range(self.line, self.line + len(lines)))
        found = _Rows(frames, rows, {}, {})
        if quoted and any(hint in text for hint in self.quoting.null_hints):
            self._look_for_quoted(found, text.split("\n"))
        self.position += size
        self.line += len(lines)
        self._emit(found)
        return True

    def _look_for_quoted(self, found: _Rows, texts: Sequence[str]) -> None:
        for index in range(len(found.rows)):
            if self.quoting.has_quoted_null(texts[index]):
                found.rows[index], found.quoted[index] = self.quoting.split(texts[index])

    # Line by line.

    def _frames(self, most: int) -> tuple[Frames, _Open | None]:
        """Find the ends of at most `most` records; the second value is the open record at the end, if any."""
        data, quoting, encoding = self.data, self.quoting, self.spec.encoding
        quote = self.spec.quote
        frames = Frames(data, self.offset, [], [], [])
        lines: list[int] = []
        start, line = self.position, self.line
        while len(lines) < most:
            position, in_quotes, count, first_end = start, False, 0, -1
            while True:
                end = end_of_line(data, position)
                piece = data[position : end if end > 0 else len(data)].decode(encoding, "replace")
                if in_quotes or quote in piece:
                    in_quotes = quoting.ends_open(piece, in_quotes)
                if end < 0:
                    frames.lines = lines
                    return frames, _Open(in_quotes, first_end)
                count += 1
                first_end = end if first_end < 0 else first_end
                if not in_quotes:
                    break
                position = end
                if end - start > self.spec.max_record_bytes:
                    frames.lines = lines
                    return frames, _Open(True, first_end)
            if count > 1 and end - start > self.spec.max_record_bytes:
                frames.lines = lines
                return frames, _Open(True, first_end)
            if data[start:end] not in (b"\n", b"\r\n"):
                frames.offsets.append(self.offset + start)
                frames.lengths.append(end - start)
                lines.append(line)
            start, line = end, line + count
        frames.lines = lines
        return frames, None

    def _too_open(self, start: int) -> bool:
        """Return whether the open record that starts at `start` is longer than a record may be."""
        size = len(self.data) - start
        limit = self.spec.max_record_bytes
        return size > limit or (size == limit and self.tail is Tail.WAIT)

    def _careful(self) -> bool:
        """Take records whose ends were found line by line; return whether to go on."""
        frames, opened = self._frames(self.limit - self.got.count)
        if frames.lengths:
            end = frames.offsets[-1] + frames.lengths[-1] - self.offset
            self._move(end)
            fitting = self.got.refuse_long(frames)
            if len(fitting):
                self._emit(self._read(fitting))
            return True
        return opened is not None and self._open(opened)

    def _read(self, frames: Frames) -> _Rows:
        """Split records into fields: ordinary ones by csv.reader, special ones to the letter."""
        found = _Rows(frames, [], {}, {})
        plain: list[str] = []
        special: dict[int, list[str]] = {}
        for index in range(len(frames)):
            raw = frames.raw(index, frames.lengths[index])
            try:
                text = raw.decode(self.spec.encoding)
            except UnicodeDecodeError as problem:
                special[index] = [_FILLER]
                bytes_found = raw[problem.start : problem.end][:8].hex(" ")
                found.bad[index] = (
                    "bad_encoding",
                    f"the bytes {bytes_found} at position {problem.start} of the record are not {problem.encoding}",
                )
                continue
            body = text.removesuffix("\n").removesuffix("\r")
            if "\r" in body or (self.spec.quote in text and self.quoting.has_quoted_null(text)):
                special[index], found.quoted[index] = self.quoting.split(text)
            else:
                plain.append(body + "\n")
        # Lines of one record must come one by one.
        lines = io.StringIO("".join(plain), newline="\n")
        rows = iter(list(csv.reader(lines, delimiter=self.spec.delimiter, quotechar=self.spec.quote)))
        found.rows = [special[index] if index in special else next(rows) for index in range(len(frames))]
        return found

    # The last record, which has no end.

    def _open(self, opened: _Open) -> bool:
        """Deal with the record at which the data ends; return whether to go on after it."""
        start, data = self.position, self.data
        if opened.first_end > 0 and (self._too_open(start) or (opened.quote and self.tail is Tail.TAKE)):
            frames = Frames(data, self.offset, [self.offset + start], [opened.first_end - start], [self.line])
            if frames.lengths[0] > self.spec.max_record_bytes:
                self.got.refuse_one_long(frames, 0)
            else:
                self.got.refuse(frames, 0, "unclosed_quote", "a quote that opens in this line is never closed")
            self._move(opened.first_end)
            return True
        if self.tail is Tail.WAIT:
            return False
        if data[start:] == b"\r":
            self.position = len(data)
            return False
        frames = Frames(data, self.offset, [self.offset + start], [len(data) - start], [self.line])
        too_long = frames.lengths[0] > self.spec.max_record_bytes
        rows = None if too_long or opened.quote or data.endswith(b"\0") else self._read(frames)
        if rows is not None and not rows.bad and self._fits(rows.rows[0]):
            self._emit(rows)
        elif self.tail is Tail.TRY:
            return False
        elif too_long:
            self.got.refuse_one_long(frames, 0)
        else:
            self.got.refuse(frames, 0, "truncated_record", "the file ends in the middle of this record")
        self.got.open_record = self.offset + start
        self._move(len(data))
        return False

    def _fits(self, row: Sequence[str]) -> bool:
        width = self.parser._width
        return width is None or len(row) == width or self.spec.ragged == "pad"

    # Rows to records.

    def _emit(self, found: _Rows) -> None:
        """Add rows of fields to what was gathered."""
        parser, rows, bad = self.parser, found.rows, found.bad
        header, width = parser._header, parser._width
        surplus: dict[int, dict[str, str]] = {}
        if parser._table is None:
            message = "the header of the file is not known, so its fields have no names"
            bad = dict.fromkeys(range(len(rows)), ("no_header", message)) | bad
        elif width is not None and set(map(len, rows)) != {width}:
            self._even(rows, width, bad, surplus)
        blank = [index for index, row in enumerate(rows) if not row] if [] in rows else []
        skipped = []
        if header is not None and header in rows:
            skipped = [index for index, row in enumerate(rows) if row == header and index not in bad]
        out = {*bad, *blank, *skipped}
        if out:
            # What is no row must not make a whole column go the slow way.
            self.got.drop(found.frames, Built([], bad=bad, skipped=skipped, blank=blank))
            places = {old: new for new, old in enumerate(index for index in range(len(rows)) if index not in out)}
            found = _Rows(
                found.frames.without(out),
                [rows[old] for old in places],
                {places[old]: fields for old, fields in found.quoted.items() if old in places},
                {},
            )
            surplus = {places[old]: more for old, more in surplus.items() if old in places}
        if not found.rows or parser._table is None:
            return
        if width is None:
            self.got.add(found.frames, self._unnamed(found))
            return
        quoted: dict[int, list[int]] = {}
        for index, fields in found.quoted.items():
            for place in fields:
                if place < width and found.rows[index][place] in parser._nulls:
                    quoted.setdefault(place, []).append(index)
        columns = list(zip(*found.rows, strict=True))
        self.got.add(found.frames, parser._table.build(columns, len(found.rows), quoted, surplus))

    def _unnamed(self, found: _Rows) -> Built:
        """Make items of rows without a header: each has c1, c2, ... for its own fields."""
        payloads: list[object] = []
        keys: list[object] = []
        built = Built([payloads, keys])
        for index, row in enumerate(found.rows):
            table = TextItems(self.parser._layout, headerless_names(len(row)), self.parser._nulls)
            quoted = {place: [0] for place in found.quoted.get(index, ())}
            one = table.build([[text] for text in row], 1, quoted, {})
            payloads.extend(one.columns[0])
            keys.extend(one.columns[1])
            if 0 in one.bad:
                built.bad[index] = one.bad[0]
        return built

    def _even(
        self, rows: list[list[str]], width: int, bad: dict[int, tuple[str, str]], surplus: dict[int, dict[str, str]]
    ) -> None:
        """Refuse the rows that have not `width` fields, or pad and cut them."""
        for index, row in enumerate(rows):
            count = len(row)
            if count == width or not row:
                continue
            if self.spec.ragged == "pad":
                more = {f"c{place + 1}": text for place, text in enumerate(row[width:], width) if text}
                if more:
                    surplus[index] = more
                rows[index] = row[:width] + [_FILLER] * (width - count)
            else:
                bad.setdefault(index, ("ragged", f"expected {width} fields, got {count}"))
