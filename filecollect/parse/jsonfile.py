"""JSON documents: values one after another, over any number of lines, in an array or not.

Records are the elements of an array at the top, or the values themselves (concatenated JSON, with
blanks, commas or nothing in between); a file may hold both, and several arrays. A frame is exactly the
value's bytes; what stands between values is consumed with what comes next: `[`, `]`, commas, blanks.

A position is the end of a value, of a bracket of the array, or of the last line end before the next
value. Whether an array is open there is in the state, so a resume knows what a `[` or `]` means.

Broken JSON is bounded and passed over: what begins no value is bad up to the end of its line, a comma or
the next object. A bracket that does not close within `max_record_bytes`, or by an end that may not grow, is bad
up to the next line that begins as its own line does (`unclosed_bracket`), and without such a line it is
too long, or truncated. Limit: an array that is cut off right after an element looks complete.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from filecollect.domain.columns import Layout
from filecollect.parse.api import Parsed, Tail
from filecollect.parse.framing import Frames, Gathered
from filecollect.parse.jsonl import records_builder
from filecollect.parse.jsonscan import BETWEEN, JsonSkip, Scan, junk_end, value_end
from filecollect.parse.lineends import LineEnds, bom_length
from filecollect.parse.spec import Spec

_OPENERS = b"{["
_BEGINNERS = b'{["'
_QUOTE = 0x22


@dataclass(frozen=True, slots=True)
class _Found:
    """One thing in a scan: a value, or (`reason`) something bad; `after` is the position behind it."""

    start: int
    after: int
    reason: str = ""
    message: str = ""
    open: bool = False


class JsonParser:
    """A Parser for one JSON document; `array` comes from the checkpoint when it resumes."""

    def __init__(self, spec: Spec, layout: Layout, array: str | None) -> None:
        self._spec = spec
        self._layout = layout
        self._array = array
        self.ends = LineEnds(spec.encoding, spec.newline)
        self._scan = Scan(self.ends, spec.encoding)
        self._build = records_builder(spec, layout, compacted=True)

    def state(self) -> dict[str, Any]:
        """Return what a resume needs; `array` is None (nothing yet), "none", "open" or "closed"."""
        dialect = {"newline": self.ends.newline} if self.ends.newline != "\n" else None
        state = {"format": "json", "encoding": self._spec.encoding, "dialect": dialect, "header": None}
        return state | {"array": self._array}

    def skip(self) -> JsonSkip:
        """Return what finds the end of a value too long to be held."""
        self._array = self._array or "none"
        return JsonSkip(self._scan)

    def parse(self, data: bytes, *, offset: int, line: int, limit: int, tail: Tail) -> Parsed:
        """Parse at most `limit` values; see `Parser.parse`."""
        unit, first_line = self.ends.unit, line
        start = bom_length(data, offset, self._spec.encoding)
        scan = self._scan.of(data)
        got = Gathered(self._spec, self._layout)
        begin = position = start // unit
        while line <= self._spec.skip_lines and (end := scan.find(b"\n", position) + 1) > 0:
            position, line = end, line + 1
        if line <= self._spec.skip_lines and tail is not Tail.WAIT:
            position = len(scan)
        walk = _Walk(self, scan, position, tail, cut=len(scan) * unit < len(data))
        starts: list[int] = []
        lengths: list[int] = []
        lines: list[int] = []
        counted = position
        taken = done = 0
        for found in walk.run() if line > self._spec.skip_lines else ():
            line += scan.count(b"\n", counted, found.start)
            counted = found.start
            length = (found.after - found.start) * unit
            if found.open and found.reason:
                # Half a character at the very end is part of what is cut off there.
                length += len(data) - len(scan) * unit
                done = len(data)
            if found.reason:
                frames = Frames(data, offset, [offset + found.start * unit], [length], [line])
                if found.reason == "record_too_long":
                    got.refuse_one_long(frames, 0)
                else:
                    got.refuse(frames, 0, found.reason, found.message)
            else:
                starts.append(offset + found.start * unit)
                lengths.append(length)
                lines.append(line)
            if found.open:
                got.open_record = offset + found.start * unit
            taken += 1
            if taken >= limit:
                break
        if starts:
            self._add(got, Frames(data, offset, starts, lengths, lines))
        self._array = walk.array_at_boundary
        consumed = walk.boundary
        line += scan.count(b"\n", counted, consumed)
        done = max(done, consumed * unit)
        if consumed == begin and tail is Tail.WAIT and len(data) < self._spec.max_record_bytes:
            # A byte order mark waits for what follows.
            done = 0
        if tail is Tail.TAKE and consumed == len(scan) and done < len(data) and taken < limit:
            # Half a character.
            got.open_record = offset + done
            frames = Frames(data, offset, [offset + done], [len(data) - done], [line])
            got.refuse(frames, 0, "truncated_record", "the file ends in the middle of a character")
            done = len(data)
        return got.parsed(done, line - first_line)

    def _add(self, got: Gathered, frames: Frames) -> None:
        got.add(frames, self._build([frames.raw(index, length) for index, length in enumerate(frames.lengths)]))


class _Walk:
    """One way through a scan; `boundary` is how far it is consumed, `cut` tells of half a character."""

    def __init__(self, parser: JsonParser, scan: bytes, start: int, tail: Tail, *, cut: bool = False) -> None:
        self.scan = scan
        self.cut = cut
        self.tail = tail
        self.array = self.array_at_boundary = parser._array
        self.boundary = start
        self.most = parser._spec.max_record_bytes // parser.ends.unit

    def _to(self, position: int) -> None:
        self.boundary = position
        self.array_at_boundary = self.array

    def run(self) -> Iterator[_Found]:
        """Find values and bad stretches; the boundary stands behind what was yielded."""
        scan = self.scan
        while True:
            start = BETWEEN.match(scan, self.boundary).end()  # type: ignore[union-attr]
            line_end = scan.rfind(b"\n", self.boundary, start) + 1
            if line_end:
                self._to(line_end)
            if start == len(scan):
                if self.tail is not Tail.WAIT:
                    self._to(start)
                return
            first = scan[start : start + 1]
            if first == b"[" and self.array in (None, "closed"):
                self.array = "open"
                self._to(start + 1)
                continue
            if first == b"]" and self.array in ("open", "closed"):
                self.array = "closed"
                self._to(start + 1)
                continue
            found = self._value(start)
            if found is None:
                return
            if self.array is None:
                self.array = "none"
            self._to(found.after)
            yield found

    def _value(self, start: int) -> _Found | None:
        """Return the value or bad stretch that begins at `start`; None when its end has not come."""
        scan = self.scan
        quoted = scan[start] == _QUOTE
        end = value_end(scan, start)
        if end == -2 or (end - self.boundary > self.most and scan[start] not in _BEGINNERS):
            end = scan.find(b"\n", start) if quoted else junk_end(scan, start)
            if end > 0 and end - self.boundary <= self.most:
                text = scan[start : min(end, start + 40)].decode("ascii", "replace").rstrip()
                return _Found(start, end, "bad_json", f"{text!r} begins no JSON value")
        goes_on = end == len(scan) and scan[start] not in _BEGINNERS
        if end > 0 and not goes_on and end - self.boundary <= self.most:
            return _Found(start, end)
        final = self.tail is not Tail.WAIT
        held = len(scan) - self.boundary
        full = held > self.most or (held == self.most and (not final or self.cut))
        if scan[start] in _OPENERS and (full or self.tail is Tail.TAKE):
            again = self._next_alike(start)
            if again > 0:
                return _Found(start, again, "unclosed_bracket", "a bracket that opens in this record is never closed")
        if end > 0 and not goes_on:
            return _Found(self.boundary, end, "record_too_long")
        if not final:
            return None
        if full:
            return None if self.tail is Tail.TRY else _Found(self.boundary, len(scan), "record_too_long", open=True)
        if goes_on:
            return _Found(start, end, open=True)
        if self.tail is Tail.TRY:
            return None
        return _Found(start, len(scan), "truncated_record", "the file ends in the middle of this record", open=True)

    def _next_alike(self, start: int) -> int:
        """Return where the next line begins that starts with the same blanks and bracket, -1 for none."""
        scan = self.scan
        indent = scan[self.boundary : start]
        if indent.strip(b" \t"):
            indent = b""
        found = scan.find(b"\n" + indent + scan[start : start + 1], start, self.boundary + self.most)
        return found + 1 if found > 0 else -1


def sample_values(text: str, *, cut: bool) -> tuple[list[str], int]:
    """Return the values in a sample, as written, and how many bad stretches stand between them."""
    parser = JsonParser(Spec("json"), Layout(()), None)
    scan = text.encode("utf-8", "replace")
    values: list[str] = []
    bad = 0
    for found in _Walk(parser, scan, 0, Tail.WAIT if cut else Tail.TAKE).run():
        if found.reason:
            bad += 1
        else:
            values.append(scan[found.start : found.after].decode())
    return values, bad
