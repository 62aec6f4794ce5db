"""Line framing with exact byte offsets, and the gathering of blocks into one `Parsed`.

Invariant: a frame is a record's bytes, its line end included; frames, blank lines, a byte order mark,
skipped lines, the CSV header and what stands between JSON values tile what a parse consumes. A `\\r`
before `\\n` belongs to the line end, and so does a `\\r` that is the last of an unterminated record (half
a line end); see `lineends.py`.

Bytes of NUL at the very end are "not yet written" (a crash can leave them): such a last record waits,
and becomes `truncated_record` when it may wait no longer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, compress
from typing import Any, Protocol

from filecollect.domain.batch import BadRecord, Records
from filecollect.domain.columns import Layout
from filecollect.parse.api import Parsed, Skip, Tail
from filecollect.parse.lineends import LineEnds, bom_length
from filecollect.parse.spec import UNDECODABLE, Spec


@dataclass(slots=True)
class Frames:
    """Where records are: `data[0]` is at content offset `base`; the lists run in step."""

    data: bytes
    base: int
    offsets: list[int]
    lengths: list[int]
    lines: Sequence[int]

    def __len__(self) -> int:
        return len(self.offsets)

    def raw(self, index: int, most: int) -> bytes:
        """Return at most `most` first bytes of a record."""
        start = self.offsets[index] - self.base
        return self.data[start : start + min(most, self.lengths[index])]

    def without(self, dropped: Collection[int]) -> Frames:
        """Return the frames that are not in `dropped`."""
        keep = [index not in dropped for index in range(len(self))]
        return Frames(
            self.data,
            self.base,
            list(compress(self.offsets, keep)),
            list(compress(self.lengths, keep)),
            list(compress(self.lines, keep)),
        )


@dataclass(slots=True)
class Built:
    """What a format made of frames, by position: values, `_extra` texts, misfits and refusals.

    A position in `bad` (reason and message), `skipped` or `blank` (no record at all) has meaningless
    values.
    """

    columns: list[Sequence[object]]
    extras: dict[int, str] = field(default_factory=dict)
    misfits: list[tuple[int, str]] = field(default_factory=list)
    bad: dict[int, tuple[str, str]] = field(default_factory=dict)
    skipped: list[int] = field(default_factory=list)
    blank: list[int] = field(default_factory=list)
    replaced: dict[int, str] = field(default_factory=dict)
    """What could not be decoded in a record and was replaced, in hex."""


class Gathered:
    """The records and bad records of the blocks of one parse."""

    def __init__(self, spec: Spec, layout: Layout) -> None:
        self._most_raw = spec.quarantine_raw_bytes
        self._limit = spec.max_record_bytes
        self._width = len(layout.columns)
        self._has_extra = layout.kind != "items"
        # The key of items is checked by whoever builds them: it is not among the columns.
        in_key = () if layout.kind == "items" else layout.key
        self._key = [(index, column.name) for index, column in enumerate(layout.columns) if column.name in in_key]
        self._blocks: list[Records] = []
        self.bad: list[BadRecord] = []
        self.skipped = 0
        self.misfits: dict[str, int] = {}
        self.count = 0
        self.open_record: int | None = None

    def refuse(self, frames: Frames, index: int, reason: str, message: str) -> None:
        """Add one bad record."""
        self.bad.append(
            BadRecord(
                frames.offsets[index],
                frames.lengths[index],
                frames.lines[index],
                frames.raw(index, self._most_raw),
                reason,
                message,
            )
        )
        self.count += 1

    def refuse_long(self, frames: Frames) -> Frames:
        """Add the frames longer than a record may be as bad records and return the others."""
        limit = self._limit
        if max(frames.lengths, default=0) <= limit:
            return frames
        long = {index for index, length in enumerate(frames.lengths) if length > limit}
        for index in sorted(long):
            self.refuse_one_long(frames, index)
        return frames.without(long)

    def refuse_one_long(self, frames: Frames, index: int) -> None:
        """Add one frame that is longer than a record may be."""
        message = f"the record has {frames.lengths[index]} bytes, the limit is {self._limit}"
        self.refuse(frames, index, "record_too_long", message)

    def drop(self, frames: Frames, built: Built) -> Collection[int]:
        """Count what `built` says is no row, and return its positions."""
        silent = {*built.skipped, *built.blank}
        for index in sorted(built.bad.keys() - silent):
            self.refuse(frames, index, *built.bad[index])
        self.skipped += len(built.skipped)
        self.count += len(built.skipped)
        return built.bad.keys() | silent

    def add(self, frames: Frames, built: Built) -> None:
        """Add a block of records; those without a key become bad, those in `built.bad` are."""
        if not len(frames):
            return
        for position, name in self._key:
            values = built.columns[position]
            if None in values:
                for index, value in enumerate(values):
                    if value is None:
                        built.bad.setdefault(index, ("key_missing", f"the key column {name} has no value"))
        for index, found in built.replaced.items():
            built.misfits.append((index, UNDECODABLE))
            if self._has_extra:
                built.extras[index] = _with_undecodable(built.extras.get(index, "{}"), found)
        columns, extras, misfits = built.columns, built.extras, built.misfits
        dropped = self.drop(frames, built)
        if dropped:
            keep = [index not in dropped for index in range(len(frames))]
            frames = frames.without(dropped)
            columns = [list(compress(values, keep)) for values in columns]
            places = list(accumulate(keep, initial=0))
            extras = {places[index]: text for index, text in extras.items() if index not in dropped}
            misfits = [one for one in misfits if one[0] not in dropped]
        for _, name in misfits:
            self.misfits[name] = self.misfits.get(name, 0) + 1
        self._blocks.append(Records(columns, frames.offsets, frames.lengths, frames.lines, extras))
        self.count += len(frames)

    def parsed(self, consumed: int, lines: int) -> Parsed:
        """Return everything gathered, in content order."""
        self.bad.sort(key=lambda record: record.offset)
        return Parsed(consumed, lines, self._records(), self.bad, self.skipped, self.misfits, self.open_record)

    def _records(self) -> Records:
        blocks = [block for block in self._blocks if len(block)]
        if len(blocks) == 1:
            return blocks[0]
        joined = Records(columns=[[] for _ in range(self._width)])
        columns: list[list[object]] = [[] for _ in range(self._width)]
        lines: list[int] = []
        for block in blocks:
            joined.extras.update((len(joined) + index, text) for index, text in block.extras.items())
            for whole, part in zip(columns, block.columns, strict=True):
                whole.extend(part)
            joined.offsets.extend(block.offsets)
            joined.lengths.extend(block.lengths)
            lines.extend(block.lines)
        joined.columns = list(columns)
        joined.lines = lines
        return joined


def _with_undecodable(extra: str, found: str) -> str:
    comma = "" if extra == "{}" else ","
    return f'{extra[:-1]}{comma}"{UNDECODABLE}":"{found}"}}'


class LineFormat(Protocol):
    """A format in which every line is a record."""

    name: str
    ends: LineEnds
    blank: re.Pattern[bytes]
    """Matches one or more whole lines that are no records."""

    def is_whole(self, line: bytes) -> bool:
        """Return whether an unterminated line can be a complete record."""

    def build(self, lines: Sequence[bytes]) -> Built:
        """Make values of lines; `\\n` is cut off, `\\r` is not."""


class LineParser:
    """A Parser for formats in which every line is a record."""

    def __init__(self, spec: Spec, layout: Layout, line_format: LineFormat) -> None:
        self._spec = spec
        self._layout = layout
        self._format = line_format
        self.ends = line_format.ends

    def state(self) -> dict[str, Any]:
        """Return what a resume needs."""
        dialect = {"newline": self.ends.newline} if self.ends.newline != "\n" else None
        return {"format": self._format.name, "encoding": self._spec.encoding, "dialect": dialect, "header": None}

    def skip(self) -> Skip:
        """Return what finds the end of a line too long to be held."""
        return self.ends.skip()

    def parse(self, data: bytes, *, offset: int, line: int, limit: int, tail: Tail) -> Parsed:
        """Parse at most `limit` lines that are records; see `Parser.parse`."""
        first_line, ends = line, self.ends
        got = Gathered(self._spec, self._layout)
        position = start = bom_length(data, offset, self._spec.encoding)
        while line <= self._spec.skip_lines and (end := ends.after(data, position)) > 0:
            position, line = end, line + 1
        if line <= self._spec.skip_lines:
            done = position if tail is Tail.WAIT else len(data)
            return got.parsed(done if position > start or tail is not Tail.WAIT else 0, line - first_line)
        while got.count < limit:
            if (blank := self._format.blank.match(data, position)) is not None:
                line += ends.count(data, position, blank.end())
                position = blank.end()
            # The first split costs nothing when the block is all there is.
            lines = ends.split(data[position:] if position else data, limit - got.count)
            rest = lines.pop()
            if lines:
                lengths = [len(one) + ends.unit for one in lines]
                offsets = list(accumulate(lengths, initial=offset + position))
                position = offsets.pop() - offset
                numbers = range(line, line + len(lines))
                line += len(lines)
                self._add(got, Frames(data, offset, offsets, lengths, numbers), lines)
                continue
            if rest and self._last(got, data, position, offset, line, tail):
                position = len(data)
            break
        if position == start and tail is Tail.WAIT and len(data) < self._spec.max_record_bytes:
            # A byte order mark waits for its first record, but does not make that too long.
            position = 0
        return got.parsed(position, line - first_line)

    def _add(self, got: Gathered, frames: Frames, lines: list[bytes]) -> None:
        fitting = got.refuse_long(frames)
        if len(fitting) != len(frames):
            limit = self._spec.max_record_bytes
            lines = [one for one, length in zip(lines, frames.lengths, strict=True) if length <= limit]
        if lines:
            got.add(fitting, self._format.build(lines))

    def _last(self, got: Gathered, data: bytes, position: int, offset: int, line: int, tail: Tail) -> bool:
        """Deal with a last line without an end; return whether it is consumed."""
        if tail is Tail.WAIT:
            return False
        rest = data[position:]
        text = self.ends.bare(rest)
        frames = Frames(data, offset, [offset + position], [len(rest)], [line])
        if len(rest) > self._spec.max_record_bytes:
            if tail is Tail.TRY:
                return False
            got.refuse_one_long(frames, 0)
        elif self._format.blank.fullmatch(text + self.ends.mark):
            return True
        elif not self.ends.ends_in_nul(rest) and self._format.is_whole(text):
            got.add(frames, self._format.build([text]))
        elif tail is Tail.TRY:
            return False
        else:
            got.refuse(frames, 0, "truncated_record", "the file ends in the middle of this record")
        got.open_record = offset + position
        return True
