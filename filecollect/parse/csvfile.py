"""CSV: records of delimited fields, quoted ones over several lines, under a header that the checkpoint keeps.

Invariant: the fast way (csv.reader over a block in which every line is one record) and the careful way
(record ends found line by line, see `quoting.py`) give the same records. The fast way declines whatever
it could get wrong: an open quote, a lone `\\r`, undecodable bytes, escapes, records that are too long. All
looking for delimiters and quotes is done in decoded text, all places are those of the file's bytes.

The header is the first record after a byte order mark, the skipped lines and blank lines. It is read
only at the top of the content and handed on in the state, so an appended row is never taken for it.
A later record equal to it is skipped. Records whose header is unknown are quarantined (`no_header`).
Limit: blank lines and a header that together exceed `max_record_bytes` are passed over by the reader as
too long, so the header is then unknown.

A quote that is never closed must not swallow a file: when it is still open after `max_record_bytes`,
or at an end that may not grow, the record's first line alone is quarantined (`unclosed_quote`) and
reading goes on in the next line. Blank lines are no records. Lines that begin with the `comment` are skipped;
before the header they belong to the top, like the lines that `skip_lines` counts.

Where `\\r` ends lines, text is read with `\\r` and `\\n` exchanged, and values are exchanged back.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from filecollect.domain.columns import Layout
from filecollect.parse.api import Parsed, Tail
from filecollect.parse.csvrows import FILLER, RowMaker, Rows
from filecollect.parse.encoding import encoding_message, replace_undecodable
from filecollect.parse.framing import Frames, Gathered
from filecollect.parse.lineends import LineEnds, LineSkip, bom_length
from filecollect.parse.quoting import Escaping, Quoting
from filecollect.parse.spec import Spec

_SENTINEL = "end\n"
_EXCHANGE = str.maketrans("\r\n", "\n\r")

csv.field_size_limit(sys.maxsize)


@dataclass(slots=True)
class _Open:
    """The record at which the data ended: its start, whether a quote is open, and more than one line."""

    quote: bool = False
    first_end: int = -1


def make_quoting(spec: Spec) -> Quoting | Escaping:
    """Return the quoting rules of a spec."""
    if spec.escape or not spec.quote:
        return Escaping(spec.delimiter, spec.quote, spec.escape, spec.null)
    return Quoting(spec.delimiter, spec.quote, spec.null)


def reader_options(spec: Spec) -> dict[str, Any]:
    """Return how csv.reader is to read records without escapes."""
    if not spec.quote:
        return {"delimiter": spec.delimiter, "quoting": csv.QUOTE_NONE}
    return {"delimiter": spec.delimiter, "quotechar": spec.quote}


class CsvParser:
    """A Parser for one CSV generation; `header` comes from the checkpoint when it resumes."""

    def __init__(self, spec: Spec, layout: Layout, header: Sequence[str] | None) -> None:
        self._spec = spec
        self._layout = layout
        self._quoting = make_quoting(spec)
        self._rows = RowMaker(spec, layout, header)
        self.ends = LineEnds(spec.encoding, spec.newline)
        self._blank = self.ends.blank_lines()
        self._comment = spec.comment.encode(spec.encoding)

    def state(self) -> dict[str, Any]:
        """Return what a resume needs."""
        spec = self._spec
        dialect = {"delimiter": spec.delimiter, "quote": spec.quote}
        said = {"newline": spec.newline, "escape": spec.escape, "comment": spec.comment}
        dialect |= {name: value for name, value in said.items() if value != Spec.__dataclass_fields__[name].default}
        header = self._rows.header if spec.header is True else None
        return {"format": "csv", "encoding": spec.encoding, "dialect": dialect, "header": header}

    def skip(self) -> LineSkip:
        """Return what finds the end of a line too long to be held."""
        return self.ends.skip()

    def parse(self, data: bytes, *, offset: int, line: int, limit: int, tail: Tail) -> Parsed:
        """Parse at most `limit` records; see `Parser.parse`."""
        return _Parse(self, data, offset, line, limit, tail).run()


class _Parse:
    """One call of `CsvParser.parse`: where it is, and what it has found."""

    def __init__(self, parser: CsvParser, data: bytes, offset: int, line: int, limit: int, tail: Tail) -> None:
        self.parser = parser
        self.spec = parser._spec
        self.quoting = parser._quoting
        self.rows = parser._rows
        self.ends = parser.ends
        self.comment = parser._spec.comment
        self.swapped = parser._spec.newline == "\r"
        self.reader = reader_options(parser._spec)
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
                blank = self.parser._blank.match(self.data, self.position)
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
        self.line += self.ends.count(self.data, self.position, position)
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
        while self.line <= skip and (end := self.ends.after(self.data, self.position)) > 0:
            self._move(end)
        if self.line > skip:
            if self.parser._spec.header is not True or self.rows.header is not None:
                return True
            skipped = self.position, self.line
            self._pass_comments()
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

    def _pass_comments(self) -> None:
        """Move past the blank lines and comments before the header."""
        while True:
            blank = self.parser._blank.match(self.data, self.position)
            if blank is not None:
                self._move(blank.end())
            if not self.comment or not self.data.startswith(self.parser._comment, self.position):
                return
            end = self.ends.after(self.data, self.position)
            if end < 0:
                if self.tail is Tail.TAKE:
                    self.position = len(self.data)
                return
            self._move(end)

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
        if self.tail is Tail.WAIT or (self.tail is Tail.TRY and (opened.quote or self.ends.ends_in_nul(data))):
            return False
        if self.ends.is_half(data[start:]):
            self.position = len(data)
            return False
        if opened.first_end > 0 and opened.quote:
            return self._take_header(start, opened.first_end)
        last = Frames(data, self.offset, [self.offset + start], [len(data) - start], [self.line])
        if self.ends.ends_in_nul(data) or len(data) - start > self.spec.max_record_bytes:
            if self.tail is Tail.TRY:
                return False
            if self.ends.ends_in_nul(data):
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
        text = self._text(self.data[start:end], "replace")
        self.rows.use(self._as_written([self.quoting.split(text)[0]])[0])
        self._move(end)
        return True

    def _text(self, raw: bytes, errors: str = "strict") -> str:
        text = raw.decode(self.spec.encoding, errors)
        return text.translate(_EXCHANGE) if self.swapped else text

    def _as_written(self, rows: list[list[str]]) -> list[list[str]]:
        return [[text.translate(_EXCHANGE) for text in row] for row in rows] if self.swapped else rows

    def _is_comment(self, text: str) -> bool:
        if self.comment and text.startswith(self.comment):
            return True
        # What ends the data in files of PostgreSQL's COPY.
        return bool(self.spec.escape) and not self.spec.quote and text.rstrip("\r\n") == "\\."

    # Blocks in which every line is a record.

    def _block(self) -> bool:
        """Take whole lines that are each one record; return False when a closer look is needed."""
        data = self.data[self.position :] if self.position else self.data
        lines = self.ends.split(data, self.limit - self.got.count)
        rest = lines.pop()
        if not lines:
            return False
        size = len(data) - len(rest)
        lengths = [len(line) + self.ends.unit for line in lines]
        if max(lengths) > self.spec.max_record_bytes:
            return False
        try:
            text = self._text(data[:size])
        except UnicodeDecodeError:
            return False
        if self.spec.escape and self.spec.escape in text:
            return False
        if "\r" in text and text.count("\r") != text.count("\r\n"):
            return False
        quote = self.spec.quote
        quoted = bool(quote) and quote in text
        source = io.StringIO(text + _SENTINEL if quoted else text, newline="\n")
        rows = list(csv.reader(source, **self.reader))
        # An open quote swallows the sentinel; a record of several lines makes the counts differ.
        if quoted and rows.pop() != [_SENTINEL[:-1]]:
            return False
        if len(rows) != len(lines):
            return False
        offsets = list(accumulate(lengths, initial=self.offset + self.position))
        offsets.pop()
        frames = Frames(self.data, self.offset, offsets, lengths, range(self.line, self.line + len(lines)))
        found = Rows(frames, rows)
        if quoted and any(hint in text for hint in self.quoting.null_hints):
            self._look_for_quoted(found, text.split("\n"))
        if self.comment and self.comment in text:
            found.skipped = {index for index, one in enumerate(text.split("\n")) if one.startswith(self.comment)}
        found.rows = self._as_written(found.rows)
        self.position += size
        self.line += len(lines)
        self.rows.add(found, self.got)
        return True

    def _look_for_quoted(self, found: Rows, texts: Sequence[str]) -> None:
        for index in range(len(found.rows)):
            if self.quoting.has_quoted_null(texts[index]):
                found.rows[index], found.quoted[index] = self.quoting.split(texts[index])

    # Line by line.

    def _frames(self, most: int) -> tuple[Frames, _Open | None]:
        """Find the ends of at most `most` records; the second value is the open record at the end, if any."""
        data, quoting = self.data, self.quoting
        quote = self.spec.quote
        frames = Frames(data, self.offset, [], [], [])
        lines: list[int] = []
        start, line = self.position, self.line
        while len(lines) < most:
            position, in_quotes, count, first_end = start, 0, 0, -1
            while True:
                end = self.ends.after(data, position)
                piece = self._text(data[position : end if end > 0 else len(data)], "replace")
                if count == 0 and self.comment and piece.startswith(self.comment):
                    pass
                elif in_quotes or quote in piece:
                    in_quotes = quoting.ends_open(piece, in_quotes)
                if end < 0:
                    frames.lines = lines
                    return frames, _Open(bool(in_quotes), first_end)
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
            if not self.ends.is_blank(data[start:end]):
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
                self.rows.add(self._read(fitting), self.got)
            return True
        return opened is not None and self._open(opened)

    def _read(self, frames: Frames) -> Rows:
        """Split records into fields: ordinary ones by csv.reader, special ones to the letter."""
        found = Rows(frames, [])
        plain: list[str] = []
        special: dict[int, list[str]] = {}
        for index in range(len(frames)):
            raw = frames.raw(index, frames.lengths[index])
            try:
                text = raw.decode(self.spec.encoding)
            except UnicodeDecodeError as problem:
                if self.spec.encoding_errors != "replace":
                    special[index] = [FILLER]
                    found.bad[index] = ("bad_encoding", encoding_message(problem))
                    continue
                text, found.replaced[index] = replace_undecodable(raw, self.spec.encoding)
            text = text.translate(_EXCHANGE) if self.swapped else text
            body = text.removesuffix("\n").removesuffix("\r")
            if self._is_comment(text):
                special[index] = [FILLER]
                found.skipped.add(index)
            elif "\r" in body or self.quoting.is_special(text):
                special[index], found.quoted[index] = self.quoting.split(text)
            else:
                plain.append(body + "\n")
        # Lines of one record must come one by one.
        lines = io.StringIO("".join(plain), newline="\n")
        rows = iter(list(csv.reader(lines, **self.reader)))
        found.rows = self._as_written(
            [special[index] if index in special else next(rows) for index in range(len(frames))]
        )
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
        if self.ends.is_half(data[start:]):
            self.position = len(data)
            return False
        frames = Frames(data, self.offset, [self.offset + start], [len(data) - start], [self.line])
        too_long = frames.lengths[0] > self.spec.max_record_bytes
        rows = None if too_long or opened.quote or self.ends.ends_in_nul(data) else self._read(frames)
        if rows is not None and not rows.bad and (rows.skipped or self.rows.fits(rows.rows[0])):
            self.rows.add(rows, self.got)
        elif self.tail is Tail.TRY:
            return False
        elif too_long:
            self.got.refuse_one_long(frames, 0)
        else:
            self.got.refuse(frames, 0, "truncated_record", "the file ends in the middle of this record")
        self.got.open_record = self.offset + start
        self._move(len(data))
        return False
