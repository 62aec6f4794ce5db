"""CSV: quote-aware framing with exact byte offsets, header in the checkpoint, columns by name.

`csv.reader` decides where a record ends; its line counter gives the bytes. A sentinel line behind the
last complete one shows whether a quote is still open. A quote that is never closed costs its first
physical line: that is quarantined and reading resumes on the next one. Blank lines are no records; a
record equal to the header is skipped.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from filecollect.domain.batch import BadRecord, Records
from filecollect.domain.columns import Layout
from filecollect.parse.api import Parsed, Tail
from filecollect.parse.convert import json_text, text_column
from filecollect.parse.framing import BOM, bad, starts, whole_lines, without
from filecollect.parse.items import item_key
from filecollect.parse.names import column_names
from filecollect.parse.spec import Spec

csv.field_size_limit(2**31 - 1)
SENTINEL = "\x1e\x1d\x1e"
HEADER_BYTES = 64 * 1024
"""Where the header is looked for first, so that a batch is not framed twice."""
_SURROGATE = re.compile("[\udc80-\udcff]")


class CsvParser:
    """Parse CSV records for one list of columns."""

    def __init__(self, spec: Spec, layout: Layout, header: Sequence[str] | None) -> None:
        self.spec = spec
        self.layout = layout
        self.delimiter = spec.delimiter or ","
        self.misfits: dict[str, int] = {}
        self.marked = False
        self.header: list[str] | None = None
        self.cells: list[int | None] = []
        self.loose: list[int] = []
        edge = re.escape(self.delimiter)
        self.empty_quotes = re.compile(f'(?:^|{edge})""(?={edge}|\r?\n|\r?$)', re.MULTILINE)
        given = header if header is not None else spec.header if isinstance(spec.header, tuple) else None
        if given is not None:
            self._use(list(given))

    def state(self) -> dict[str, Any]:
        """Return what a resume needs."""
        return {
            "format": "csv",
            "encoding": self.spec.encoding,
            "dialect": {"delimiter": self.delimiter, "quote": self.spec.quote},
            "header": self.header,
        }

    def _use(self, header: list[str]) -> None:
        """Match header cells to columns by their unique names."""
        self.header = header
        names = column_names(header, snake=self.spec.names == "snake")
        place = {name: at for at, name in enumerate(names)}
        by_cell = {cell: at for at, cell in reversed(list(enumerate(header)))}
        if self.layout.kind == "items":
            self.names = names
            return
        self.cells = [place.get(column.name, by_cell.get(column.source_name)) for column in self.layout.columns]
        used = {at for at in self.cells if at is not None}
        self.loose = [at for at in range(len(header)) if at not in used]

    # -- framing ---------------------------------------------------------------------------------

    def _reader(self, text: str) -> Iterator[list[str]]:
        return csv.reader(
            io.StringIO(text + SENTINEL + "\n", newline="\n"), delimiter=self.delimiter, quotechar=self.spec.quote
        )

    def frame(self, text: str, limit: int) -> tuple[list[list[str]], list[int], bool]:
        """Return rows, the count of lines up to the end of each, and whether a quote is left open.

        An open record is not among the rows. Rows that `csv` refuses come back as [None].
        """
        reader: Any = self._reader(text)
        rows: list[list[str]] = []
        try:
            rows = list(islice(reader, limit + 1))
            plain = reader.line_num == len(rows)
        except csv.Error:
            plain = False
        if plain:
            if (rows and rows[-1] == [SENTINEL]) or len(rows) > limit:
                rows.pop()
            return rows, list(range(1, len(rows) + 1)), False
        return self._frame_slowly(text, limit)

    def _frame_slowly(self, text: str, limit: int) -> tuple[list[list[str]], list[int], bool]:
        rows: list[list[str]] = []
        ends: list[int] = []
        lines = text.split("\n")
        lines.pop()
        start = 0
        while start <= len(lines) and len(rows) < limit:
            reader: Any = self._reader("".join(line + "\n" for line in lines[start:]))
            try:
                while len(rows) < limit:
                    row = next(reader)
                    if row == [SENTINEL]:
                        return rows, ends, False
                    if start + reader.line_num > len(lines):
                        return rows, ends, True
                    rows.append(row)
                    ends.append(start + reader.line_num)
                return rows, ends, False
            except csv.Error as problem:
                first = ends[-1] if ends else start
                if first >= len(lines):
                    return rows, ends, True
                rows.append([SENTINEL, str(problem)])
                ends.append(first + 1)
                start = first + 1
            except StopIteration:
                return rows, ends, False
        return rows, ends, False

    # -- parsing ---------------------------------------------------------------------------------

    def parse(self, data: bytes, *, offset: int, line: int, limit: int, tail: Tail) -> Parsed:
        """Parse at most `limit` records; see `parse.api.Parser`."""
        self.misfits = {}
        self.marked = False
        parsed = Parsed()
        if offset == 0 and not self._skip(data, parsed, tail):
            return parsed
        pieces: list[Records] = []
        while True:
            is_open = self.header is None and self._find_header(data, parsed, offset, line, max(1, limit))
            room = limit - len(parsed.bad) - parsed.skipped - sum(map(len, pieces))
            if room <= 0 or parsed.consumed >= len(data):
                break
            taken = 0
            if self.header is not None:
                taken, is_open = self._some(data, parsed, pieces, offset, line, room)
            rest = data[parsed.consumed :]
            if is_open and rest and (tail is Tail.TAKE or len(rest) >= self.spec.max_record_bytes) and b"\n" in rest:
                self._resync(rest, parsed, offset, line)
            elif not taken:
                if rest and not is_open and tail is not Tail.WAIT and b"\n" not in rest:
                    self._last(rest, parsed, pieces, offset, line, tail)
                break
        parsed.records = _joined(pieces, len(self.layout.columns))
        parsed.misfits = self.misfits
        return parsed

    def _skip(self, data: bytes, parsed: Parsed, tail: Tail) -> bool:
        """Pass the BOM and skipped lines; False when they are not all there yet."""
        if len(data) < len(BOM) and BOM.startswith(data) and tail is Tail.WAIT:
            return False
        position = len(BOM) if data.startswith(BOM) else 0
        for number in range(self.spec.skip_lines):
            end = data.find(b"\n", position) + 1
            if not end:
                return False
            position = end
            parsed.lines = number + 1
        parsed.consumed = position
        return True

    def _find_header(self, data: bytes, parsed: Parsed, offset: int, line: int, limit: int) -> bool:
        """Take the first complete record for the header, or its width where there is none; True if a quote is open."""
        while self.header is None and len(parsed.bad) < limit:
            rest = data[parsed.consumed :]
            lines, _ = whole_lines(rest[: rest.rfind(b"\n", 0, HEADER_BYTES) + 1] or rest)
            rows, ends, is_open = self.frame(self.text(b"".join(one + b"\n" for one in lines)), 1)
            if not rows:
                return is_open
            row = rows[0]
            size = sum(len(one) + 1 for one in lines[: ends[0]])
            if row and row[0] == SENTINEL:
                at = offset + parsed.consumed
                raw_bytes = self.spec.quarantine_raw_bytes
                parsed.bad.append(bad(rest[:size], at, line + parsed.lines, "bad_csv", row[-1], raw_bytes))
            elif row:
                self._take_header(row)
                if self.spec.header is not True:
                    return False
            parsed.consumed += size
            parsed.lines += ends[0]
        return False

    def _take_header(self, row: list[str]) -> None:
        if self.spec.header is True:
            self._use([cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for cell in row])
        else:
            self._use([f"c{at}" for at in range(1, len(row) + 1)])

    def text(self, data: bytes) -> str:
        """Return decoded bytes; in UTF-8 what cannot be decoded is marked, to be refused record by record."""
        try:
            return data.decode(self.spec.encoding)
        except UnicodeDecodeError:
            self.marked = True
            return data.decode(
                self.spec.encoding, "surrogateescape" if self.spec.encoding in {"utf-8", "ascii"} else "replace"
            )

    def _some(
        self, data: bytes, parsed: Parsed, pieces: list[Records], offset: int, line: int, room: int
    ) -> tuple[int, bool]:
        """Parse complete lines from where `parsed` stands; return records taken and whether a quote is open."""
        lines, _ = whole_lines(data[parsed.consumed :] if parsed.consumed else data)
        if not lines:
            return 0, False
        base = offset + parsed.consumed
        first = line + parsed.lines
        rows, ends, is_open = self.frame(self.text(b"\n".join(lines) + b"\n"), room)
        if not rows:
            return 0, is_open
        at = starts(lines, base)
        taken = self._rows(rows, ends, at, lines, first, parsed, pieces)
        parsed.consumed = at[ends[-1]] - offset
        parsed.lines += ends[-1]
        return taken, is_open

    def _rows(
        self,
        rows: list[list[str]],
        ends: list[int],
        at: list[int],
        lines: list[bytes],
        first: int,
        parsed: Parsed,
        pieces: list[Records],
    ) -> int:
        """Turn framed rows into records; return how many records they are (blank lines are none)."""
        begins = [0, *ends[:-1]]
        blank = [index for index, row in enumerate(rows) if not row]
        if blank:
            kept = [index for index, row in enumerate(rows) if row]
            rows, begins, ends = [rows[i] for i in kept], [begins[i] for i in kept], [ends[i] for i in kept]
        offsets = [at[begin] for begin in begins]
        lengths = [at[end] - start for end, start in zip(ends, offsets, strict=True)]
        numbers: Sequence[int] = [first + begin for begin in begins]
        wrong: dict[int, tuple[str, str]] = {}
        skipped: set[int] = set()
        most = self.spec.max_record_bytes
        count = len(self.header or ())
        for index, row in enumerate(rows):
            if lengths[index] > most:
                wrong[index] = ("record_too_long", f"the record has {lengths[index]} bytes, the limit is {most}")
            elif row[0] == SENTINEL:
                wrong[index] = ("bad_csv", row[-1])
            elif len(row) != count and self.spec.ragged == "quarantine":
                wrong[index] = ("ragged", f"expected {count} fields, got {len(row)}")
            elif row == self.header and self.spec.header is True:
                skipped.add(index)
        raws = [b"\n".join(lines[begin:end]) for begin, end in zip(begins, ends, strict=True)] if wrong else []
        records, said = self._records(rows, offsets, lengths, numbers, lines, begins, ends, set(wrong) | skipped)
        for index, why in said.items():
            wrong.setdefault(index, why)
        for index in sorted(wrong):
            raw = raws[index] + b"\n" if index < len(raws) else b"\n".join(lines[begins[index] : ends[index]]) + b"\n"
            reason, message = wrong[index]
            parsed.bad.append(bad(raw, offsets[index], numbers[index], reason, message, self.spec.quarantine_raw_bytes))
        parsed.skipped += len(skipped)
        gone = set(wrong) | skipped
        pieces.append(without(records, gone) if gone else records)
        return len(rows)

    def _records(
        self,
        rows: list[list[str]],
        offsets: list[int],
        lengths: list[int],
        numbers: Sequence[int],
        lines: list[bytes],
        begins: list[int],
        ends: list[int],
        ignored: set[int],
    ) -> tuple[Records, dict[int, tuple[str, str]]]:
        count = len(self.header or ())
        wrong: dict[int, tuple[str, str]] = {}
        surplus: dict[int, list[str]] = {}
        quoted: dict[int, set[int]] = {}
        nothing = [""] * count
        for index, row in enumerate(rows):
            if index in ignored:
                rows[index] = nothing
            elif self.marked and _SURROGATE.search("".join(row)):
                wrong[index] = ("bad_encoding", f"the record is not {self.spec.encoding}")
                rows[index] = nothing
            elif len(row) != count:
                surplus[index] = row[count:]
                rows[index] = [*row[:count], *nothing[len(row) :]]
        if any(b'""' in line for line in lines):
            for index in range(len(rows)):
                raw = self.text(b"\n".join(lines[begins[index] : ends[index]]))
                if '""' in raw and self.empty_quotes.search(raw):
                    quoted[index] = empty_cells(raw, self.delimiter, self.spec.quote)
        cells = list(zip(*rows, strict=True)) if rows else [()] * count
        values = [self._nulls(column) for column in cells]
        if self.layout.kind == "items":
            records = self._items(values, quoted, offsets, lengths, numbers, wrong)
            return records, wrong
        columns: list[Sequence[Any]] = []
        loose: dict[int, dict[str, Any]] = {}
        for column, at in zip(self.layout.columns, self.cells, strict=True):
            if at is None:
                columns.append([None] * len(rows))
                continue
            stored, misfits = text_column(values[at], column)
            for index in misfits:
                if index in ignored or index in wrong:
                    continue
                raw = cells[at][index]
                if column.declared:
                    wrong[index] = ("misfit", f"column {column.name} is {column.type}, got {raw[:200]!r}")
                else:
                    self.misfits[column.name] = self.misfits.get(column.name, 0) + 1
                    loose.setdefault(index, {})[column.source_name] = raw
            if column.base == "text":
                for index, empties in quoted.items():
                    if at in empties:
                        stored[index] = ""
            columns.append(stored)
        for name in self.layout.key:
            number = next(i for i, column in enumerate(self.layout.columns) if column.name == name)
            for index, value in enumerate(columns[number]):
                if value is None and index not in ignored:
                    wrong.setdefault(index, ("key_missing", f"key column {name} has no value"))
        for at in self.loose:
            for index, value in enumerate(values[at]):
                if at in quoted.get(index, ()):
                    value = ""
                if value is not None:
                    loose.setdefault(index, {})[(self.header or [])[at] or f"c{at + 1}"] = value
        for index, more in surplus.items():
            for number, value in enumerate(more, count + 1):
                loose.setdefault(index, {})[f"c{number}"] = value
        extras = {index: json_text(value) for index, value in loose.items()}
        return Records(columns, offsets, lengths, numbers, extras), wrong

    def _nulls(self, column: Sequence[str]) -> list[str | None]:
        null = self.spec.null
        if null:
            return [None if not value or value in null else value for value in column]
        if "" in column:
            return [value or None for value in column]
        return list(column)

    def _items(
        self,
        values: list[list[str | None]],
        quoted: dict[int, set[int]],
        offsets: list[int],
        lengths: list[int],
        numbers: Sequence[int],
        wrong: dict[int, tuple[str, str]],
    ) -> Records:
        payloads: list[str] = []
        keys: list[str | None] = []
        for index in range(len(offsets)):
            item: dict[str, str | None] = {name: values[at][index] for at, name in enumerate(self.names)}
            for at in quoted.get(index, ()):
                item[self.names[at]] = ""
            payloads.append(json_text(item))
            key = item_key([item.get(name) for name in self.layout.key]) if self.layout.key else None
            keys.append(key)
            if self.layout.key and key is None:
                wrong.setdefault(index, ("key_missing", f"key {', '.join(self.layout.key)} has no value"))
        return Records([payloads, keys], offsets, lengths, numbers, {})

    def _resync(self, rest: bytes, parsed: Parsed, offset: int, line: int) -> None:
        """Give up the first line of a record whose quote is never closed."""
        end = rest.index(b"\n") + 1
        parsed.bad.append(
            bad(
                rest[:end],
                offset + parsed.consumed,
                line + parsed.lines,
                "unclosed_quote",
                "a quote is opened on this line and never closed",
                self.spec.quarantine_raw_bytes,
            )
        )
        parsed.consumed += end
        parsed.lines += 1

    def _last(self, rest: bytes, parsed: Parsed, pieces: list[Records], offset: int, line: int, tail: Tail) -> None:
        """Deal with a last record that has no line end."""
        at, number = offset + parsed.consumed, line + parsed.lines
        if not rest.strip():
            if tail is Tail.TAKE:
                parsed.consumed += len(rest)
            return
        rows, _, is_open = self.frame(self.text(rest) + "\n", 2)
        why = None
        header = self.header is None and self.spec.header is True
        written = not is_open and len(rows) == 1 and bool(rows[0]) and not rest.endswith(b"\x00")
        if self.header is None and written and rows[0][0] != SENTINEL:
            if header and tail is not Tail.TAKE:
                return
            self._take_header(rows[0])
            if header:
                parsed.consumed += len(rest)
                parsed.open_record = at if offset else 0
                return
        if rest.endswith(b"\x00"):
            why = "the file ends in NUL bytes"
        elif is_open or len(rows) != 1 or not rows[0] or rows[0][0] == SENTINEL:
            why = "the last record has an open quote"
        elif len(rows[0]) != len(self.header or ()):
            why = f"the last record has {len(rows[0])} of {len(self.header or ())} fields"
        if why is not None:
            if tail is Tail.TAKE:
                raw_bytes = self.spec.quarantine_raw_bytes
                parsed.bad.append(bad(rest, at, number, "truncated_record", why, raw_bytes))
                parsed.consumed += len(rest)
                parsed.open_record = at
            return
        before = len(parsed.bad)
        self._rows(rows, [1], [at, at + len(rest)], [rest], number, parsed, pieces)
        if len(parsed.bad) > before:
            last: BadRecord = parsed.bad.pop()
            raw = rest[: self.spec.quarantine_raw_bytes]
            parsed.bad.append(BadRecord(at, len(rest), number, raw, last.reason, last.message))
        parsed.consumed += len(rest)
        parsed.open_record = at


def _joined(pieces: list[Records], width: int) -> Records:
    if not pieces:
        return Records([[] for _ in range(width)])
    whole = pieces[0]
    for piece in pieces[1:]:
        start = len(whole)
        whole = Records(
            [[*a, *b] for a, b in zip(whole.columns, piece.columns, strict=True)],
            [*whole.offsets, *piece.offsets],
            [*whole.lengths, *piece.lengths],
            [*whole.lines, *piece.lines],
            whole.extras | {start + index: extra for index, extra in piece.extras.items()},
        )
    return whole


def empty_cells(raw: str, delimiter: str, quote: str) -> set[int]:
    """Return which fields of one record's text are exactly an empty pair of quotes."""
    found: set[int] = set()
    field, at, start = 0, 0, 0
    text = raw.rstrip("\r\n")
    while at <= len(text):
        if at < len(text) and at == start and text[at] == quote:
            at += 1
            while at < len(text):
                if text[at] == quote:
                    if text[at + 1 : at + 2] != quote:
                        break
                    at += 1
                at += 1
            at += 1
            continue
        if at == len(text) or text[at] == delimiter:
            if text[start:at] == quote * 2:
                found.add(field)
            field, start = field + 1, at + 1
        at += 1
    return found
