"""The part that JSONL and plain lines share: one record a line, blank lines are none.

A subclass turns a list of lines into columns. Lines longer than `max_record_bytes` are bad records;
a last line without its end is taken, tried or left as `Tail` says; a run of NULs at the very end is
not yet written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from filecollect.domain.batch import BadRecord, Records
from filecollect.domain.columns import Layout
from filecollect.parse.api import Parsed, Tail
from filecollect.parse.framing import BOM, bad, starts, whole_lines, without
from filecollect.parse.spec import Spec


class LineParser:
    """Parse one record a line."""

    blank_chars: bytes | None = None
    """What a line of nothing else is blank: None = any white space."""

    def __init__(self, spec: Spec, layout: Layout) -> None:
        self.spec = spec
        self.layout = layout
        self.misfits: dict[str, int] = {}
        self.key_at = [
            index for index, column in enumerate(layout.columns) if layout.kind == "table" and column.name in layout.key
        ]

    def state(self) -> dict[str, Any]:
        """Return what a resume needs."""
        return {"format": self.spec.format, "encoding": self.spec.encoding, "dialect": None, "header": None}

    def records(self, lines: Sequence[bytes]) -> tuple[list[Sequence[Any]], dict[int, str], dict[int, tuple[str, str]]]:
        """Return columns, extras by index, and (reason, message) of bad lines by index.

        A bad line still has a place in every column.
        """
        raise TypeError("a LineParser knows no format")

    def is_whole(self, line: bytes) -> bool:
        """Return whether a last line without its end is a record."""
        _, _, wrong = self.records([line])
        return not wrong

    def parse(self, data: bytes, *, offset: int, line: int, limit: int, tail: Tail) -> Parsed:
        """Parse at most `limit` records; see `parse.api.Parser`."""
        self.misfits = {}
        parsed = Parsed()
        lines, rest = whole_lines(data)
        lines, open_line = self._upto(lines, limit), False
        if len(lines) == data.count(b"\n") and tail is not Tail.WAIT and rest:
            room = limit - sum(1 for one in lines if not self.blank(one))
            text = rest.rstrip(b"\x00") if tail is Tail.TRY else rest
            whole = (
                text == rest and not rest.endswith(b"\x00") and (self.blank(rest) or self.is_whole(self._bare(rest)))
            )
            open_line = room > 0 and (whole or tail is Tail.TAKE)
            self.misfits = {}
        at = starts(lines, offset)
        numbers: Sequence[int] = range(line, line + len(lines))
        parsed.consumed = at[-1] - offset
        parsed.lines = len(lines)
        if open_line:
            lines.append(rest)
            at.append(at[-1] + len(rest))
            numbers = range(line, line + len(lines))
            parsed.consumed += len(rest)
        kept = [index for index, one in enumerate(lines) if not self.blank(one)]
        if open_line and kept and kept[-1] == len(lines) - 1:
            parsed.open_record = at[-2]
        if len(kept) == len(lines):
            offsets, chosen = at[:-1], lines
        else:
            offsets, chosen = [at[index] for index in kept], [lines[index] for index in kept]
            numbers = [numbers[index] for index in kept]
        lengths = [len(one) + 1 for one in chosen]
        if open_line and parsed.open_record is not None:
            lengths[-1] -= 1
        bare = [self._bare(one) for one in chosen]
        if offset == 0 and bare and offsets[0] == 0:
            bare[0] = bare[0].removeprefix(BOM)
        wrong: dict[int, tuple[str, str]] = {}
        most = self.spec.max_record_bytes
        if max(lengths, default=0) > most:
            for index, size in enumerate(lengths):
                if size > most:
                    wrong[index] = ("record_too_long", f"the record has {size} bytes, the limit is {most}")
                    bare[index] = b""
        columns, extras, said = self.records(bare)
        wrong = said | wrong
        for column in self.key_at:
            for index, value in enumerate(columns[column]):
                if value is None and index not in wrong:
                    name = self.layout.columns[column].name
                    wrong[index] = ("key_missing", f"key column {name} has no value")
        if parsed.open_record is not None and tail is Tail.TAKE and len(lines) - 1 in kept:
            last = len(chosen) - 1
            if last in wrong and wrong[last][0] in {"bad_json", "bad_encoding"}:
                wrong[last] = ("truncated_record", f"the last record has no end: {wrong[last][1]}")
            elif chosen[last].endswith(b"\x00"):
                wrong[last] = ("truncated_record", "the file ends in NUL bytes")
        parsed.records = Records(columns, offsets, lengths, numbers, extras)
        if wrong:
            parsed.bad = [self._bad(data, offset, parsed.records, index, wrong[index]) for index in sorted(wrong)]
            parsed.records = without(parsed.records, wrong)
        parsed.misfits = self.misfits
        return parsed

    def _bad(self, data: bytes, base: int, records: Records, index: int, why: tuple[str, str]) -> BadRecord:
        start = records.offsets[index] - base
        raw = data[start : start + records.lengths[index]]
        return bad(raw, records.offsets[index], records.lines[index], *why, self.spec.quarantine_raw_bytes)

    def _upto(self, lines: list[bytes], limit: int) -> list[bytes]:
        """Return the first lines that hold at most `limit` records."""
        if len(lines) <= limit:
            return lines
        end, full = 0, 0
        while end < len(lines) and full < limit:
            more = limit - full
            full += sum(1 for one in lines[end : end + more] if not self.blank(one))
            end = min(len(lines), end + more)
        return lines[:end]

    def blank(self, line: bytes) -> bool:
        """Return whether a line holds no record."""
        return not line.strip(self.blank_chars)

    @staticmethod
    def _bare(line: bytes) -> bytes:
        return line[:-1] if line.endswith(b"\r") else line
