"""One task's file, from its checkpoint on: open, prove, read, parse, in steps that can be committed.

Invariant: a step starts at the committed checkpoint and ends at a record boundary that is not past
the round's upper bound; its spans tile. Nothing here writes; a stream that is thrown away loses
nothing. The file is proven on the same open handle at opening and once more right before each commit,
so bytes of a file that was replaced meanwhile never become rows.

The bound is a size on disk; offsets are content's. Compressed content may end inside a block that is
not whole: complete records before are read, the stream is `truncated` and not finished. Damage is
raised when every record before it has been handed out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from filecollect import failpoints
from filecollect.domain.batch import BadRecord, Extension, Piece, Records, Span, Step
from filecollect.domain.position import CHAIN_BLOCK, GUARD_LENGTH, HEAD_LENGTHS, Chain, Checkpoint, head_length
from filecollect.errors import Corrupt, FilecollectError, Replaced, Unsupported
from filecollect.files.filesystem import FileHandle, FileStat, FileSystem
from filecollect.files.fingerprint import digest, head_at, proves
from filecollect.files.fingerprint import hasher as new_hasher
from filecollect.files.holes import end_of_hole
from filecollect.files.paths import os_path
from filecollect.parse.api import Parsed, Tail
from filecollect.parse.build import make_parser
from filecollect.pipeline.plan import Plan
from filecollect.pipeline.proof import chain_at, guard_length, proofs, raw_head, raw_proven, resumed
from filecollect.store.tasks import Task

YOUNG_S = 5.0
"""A file younger than this may still be written: a last record that does not parse is left."""
EXTENDED_BYTES = 1024 * 1024
"""A ledger row is extended only up to this size."""
SMALLEST_READ = 64 * 1024
SKIP_READ = 1024 * 1024
_LINE_END = 8
"""Bytes of the longest line end, CRLF in UTF-32."""


@dataclass(slots=True)
class _Gathered:
    """What successive parses of one step have brought so far."""

    records: Records = field(default_factory=Records)
    bad: list[BadRecord] = field(default_factory=list)
    skipped: int = 0
    misfits: dict[str, int] = field(default_factory=dict)
    data: list[bytes] = field(default_factory=list)
    lines: int = 0
    size: int = 0
    open_record: int | None = None

    @property
    def count(self) -> int:
        return len(self.records) + len(self.bad) + self.skipped

    def add(self, parsed: Parsed, consumed: bytes, prefix_lines: int) -> None:
        if not len(self.records):
            self.records = parsed.records
        elif len(parsed.records):
            self.records = joined(self.records, parsed.records)
        self.bad += parsed.bad
        self.skipped += parsed.skipped
        for name, count in parsed.misfits.items():
            self.misfits[name] = self.misfits.get(name, 0) + count
        self.data.append(consumed)
        self.size += len(consumed)
        self.lines += parsed.lines + prefix_lines
        self.open_record = parsed.open_record


def joined(first: Records, second: Records) -> Records:
    """Return the records of two neighbouring parses as one."""
    start = len(first)
    return Records(
        [[*a, *b] for a, b in zip(first.columns, second.columns, strict=True)],
        first.offsets + second.offsets,
        first.lengths + second.lengths,
        [*first.lines, *second.lines],
        first.extras | {start + index: extra for index, extra in second.extras.items()},
    )


def split_before(records: Records, offset: int) -> tuple[Records, Records]:
    """Return the records before content `offset`, and those from it on."""
    at = sum(1 for one in records.offsets if one < offset)
    halves = []
    for part, shift in ((slice(None, at), 0), (slice(at, None), at)):
        low, high = (0, at) if shift == 0 else (at, len(records))
        extras = {index - shift: extra for index, extra in records.extras.items() if low <= index < high}
        halves.append(
            Records(
                [column[part] for column in records.columns],
                records.offsets[part],
                records.lengths[part],
                records.lines[part],
                extras,
            )
        )
    return halves[0], halves[1]


class _OpenRow:
    """The newest ledger row of this stream, which the next commit may extend."""

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.hasher = new_hasher()

    def with_span(self, data: bytes) -> _OpenRow:
        """Return the row as it is with one more span."""
        longer = _OpenRow(self.start)
        longer.end = self.end + len(data)
        longer.hasher = self.hasher.copy()
        longer.hasher.update(data)
        return longer


class Stream:
    """An open, proven file at the checkpoint of its task; an endless one, without a bound, is tailed."""

    def __init__(self, files: FileSystem, task: Task, plan: Plan, *, now: float) -> None:
        """Open and prove the file; raise FileUnavailable or Replaced."""
        self.task = task
        self.plan = plan
        self.checkpoint = task.position
        self.handle: FileHandle = files.open(os_path(task.path))
        try:
            self.stat: FileStat = self.handle.stat()
            self.endless = task.bound is None and plan.settings.follow
            self.bound = self.stat.size if task.bound is None else min(task.bound, self.stat.size)
            self.content, proven = resumed(self.handle, self.bound, self.checkpoint)
            self.raw_head = raw_head(self.handle, self.content, self.bound)
            self.read_to = 0
            self._prove_opened(proven)
            self._at(self.checkpoint)
            guard = self.checkpoint.guard if proven else self.checkpoint.whole_guard
            if guard is None or not proves(self.content, guard, self.checkpoint.offset):
                raise self._replaced("the bytes before the checkpoint are not the ones read", self.checkpoint.offset)
        except BaseException:
            self.handle.close()
            raise
        self.tail = Tail.WAIT if self.endless else self.last_tail(now)
        self.extending = False
        self.misfits_told = False
        self._row: _OpenRow | None = None
        self._next_row: _OpenRow | None = None
        self.limit_rows = max(1, plan.settings.batch_rows >> min(task.attempt_count, 30))
        failpoints.hit("after_open")

    def _prove_opened(self, proven: bool) -> None:
        """Prove the head, unless raw bytes did, and take the longest head there is now."""
        old, size = self.checkpoint, self.stat.size
        if self.content.codec == "plain" and size < old.offset:
            raise self._replaced(f"the file has {size} bytes, {old.offset} were read", size)
        self.head = self.task.head
        if not proven:
            if not proves(self.content, self.head, self.head.length):
                raise self._replaced("the file begins with other bytes than the ones read", 0)
            self._lengthen_heads()

    def _lengthen_heads(self) -> None:
        """Take the longest heads that there are now, as far as no earlier block need be decoded for it."""
        self.raw_head = raw_head(self.handle, self.content, self.bound)
        near = self.content.codec == "plain" or self.read_to <= HEAD_LENGTHS[-1]
        if near and self.head.length < HEAD_LENGTHS[-1]:
            self.head = head_at(self.content, head_length(len(self.content.read_at(0, HEAD_LENGTHS[-1]))))

    def _at(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.buffer = b""
        self.read_to = checkpoint.offset
        self.problem: FilecollectError | None = None
        self.chain = chain_at(self.content, checkpoint)
        length = checkpoint.guard.length
        self.last = self.content.read_at(checkpoint.offset - length, length)
        self.raw_offset = min(self.content.raw_offset_at(checkpoint.offset), self.bound)
        self.parser = make_parser(self.plan.spec, self.plan.layout, checkpoint.parser or None)
        self.record_bytes = 200.0

    def last_tail(self, now: float) -> Tail:
        """Return what to do with a last record without its end: a young file may still be written to."""
        return Tail.TRY if now - self.stat.mtime_ns / 1e9 < YOUNG_S else Tail.TAKE

    def refresh(self) -> bool:
        """Look at the size of a tailed file; return whether it has grown. Raises Replaced when it shrank."""
        self.stat = self.handle.stat()
        if self.stat.size < self.bound:
            raise self._replaced(f"the file has {self.stat.size} bytes, it had {self.bound}", self.stat.size)
        grown = self.stat.size > self.bound
        if grown:
            self.bound = self.stat.size
            self.content.grow(self.bound)
            if self.head.length < HEAD_LENGTHS[-1] or self.raw_head is not None:
                self._prove(self.checkpoint)
                self._lengthen_heads()
        return grown

    def end_here(self, tail: Tail) -> None:
        """Take what is there as all there is (or, with WAIT, no longer): the last record may lack its end."""
        self.tail = tail

    def committed(self, displaced: str | None) -> None:
        """Note that the last step stands, and which row its open record has displaced."""
        self.checkpoint = replace(self.checkpoint, displaced=displaced)
        self._row, self._next_row = self._next_row, None

    def rewind(self, checkpoint: Checkpoint, limit_rows: int) -> None:
        """Start again at `checkpoint`, which was not committed past, with smaller batches."""
        self._row = self._next_row = None
        self._at(checkpoint)
        self.limit_rows = limit_rows

    def close(self) -> None:
        """Let go of the file."""
        self.handle.close()

    def _replaced(self, message: str, offset: int) -> Replaced:
        return Replaced(message, path=self.task.path, offset=offset)

    def prove(self, step: Step) -> None:
        """Prove once more that the open file holds what was parsed and what stands before it; raise Replaced."""
        if self.content.codec == "plain":
            self._prove(step.old)
        self._prove(step.new)

    def _prove(self, checkpoint: Checkpoint) -> None:
        if self.content.codec != "plain":
            speaks_of_it = checkpoint.offset > 0 and checkpoint.codec == self.content.codec
            if (speaks_of_it and not raw_proven(self.handle, checkpoint)) or not self.content.unchanged():
                raise self._replaced("the compressed bytes are not the ones read", checkpoint.offset)
            return
        size = self.handle.stat().size
        if size < checkpoint.offset:
            raise self._replaced(f"the file has {size} bytes, {checkpoint.offset} were read", size)
        if not proves(self.content, self.head, self.head.length):
            raise self._replaced("the file begins with other bytes than the ones read", 0)
        if not proves(self.content, checkpoint.guard, checkpoint.offset):
            raise self._replaced("the bytes before the checkpoint are not the ones read", checkpoint.offset)

    def completed_record(self) -> bool:
        """Return whether the last record, emitted without its end, has been continued meanwhile."""
        if self.checkpoint.open_record is None or self.content.end(self.checkpoint.offset) is not None:
            return False
        following = self.content.read_at(self.checkpoint.offset, _LINE_END)
        return self.parser.ends.leading(following) == 0

    @property
    def finished(self) -> bool:
        """Return whether everything up to the bound is read, and is whole."""
        end = self.content.end(self.checkpoint.offset)
        return end is not None and end.complete

    @property
    def left(self) -> int:
        """Return how many bytes on disk up to the bound are not read."""
        return self.bound - self.raw_offset

    @property
    def raw_position(self) -> int:
        """Return how far the file is read on disk: all of it when it is finished."""
        return self.bound if self.finished else self.raw_offset

    @property
    def truncated(self) -> int | None:
        """Return the raw size of the last block, of which all that can be read is read; None when it is whole."""
        end = self.content.end(self.read_to)
        return end.raw_left if end is not None and not end.complete else None

    @property
    def content_digest(self) -> str | None:
        """Return the digest of everything read, None where it could not be kept."""
        return None if self.chain is None else self.chain.final()

    def next(self, room: int) -> Step | None:
        """Return the next step of at most `room` records, None when nothing can be read now.

        The stream moves on to the step's end; a step that is not committed must be rewound. Raises
        Corrupt or Unsupported when what follows can never be read.
        """
        if self.finished:
            return None
        if self.checkpoint.offset == self.task.start_offset and not self.buffer:
            skipped = self._skip_nuls()
            if skipped is not None:
                return skipped
        settings = self.plan.settings
        limit = min(room, self.limit_rows)
        old = self.checkpoint
        got = _Gathered()
        line = old.lines + 1
        while got.count < limit and got.size < settings.batch_bytes:
            wanted = int(self.record_bytes * (limit - got.count) * 1.2) + 1
            if not self._fill(min(max(wanted, SMALLEST_READ), settings.batch_bytes)) and not self.buffer:
                break
            offset = old.offset + got.size
            prefix = self._line_end() if offset == old.offset and old.open_record is not None else 0
            ended = self._ended
            tail = self.tail if ended else Tail.WAIT
            parsed = self.parser.parse(
                self.buffer[prefix:] if prefix else self.buffer,
                offset=offset + prefix,
                line=line + got.lines + (1 if prefix else 0),
                limit=limit - got.count,
                tail=tail,
            )
            consumed = parsed.consumed + prefix
            if consumed == 0:
                if ended:
                    break
                if len(self.buffer) >= settings.max_record_bytes:
                    if got.size == 0:
                        return self._too_long(old)
                    break
                if not self._fill(len(self.buffer) * 2):
                    break
                continue
            got.add(parsed, self.buffer[:consumed], 1 if prefix else 0)
            self.buffer = self.buffer[consumed:]
            if got.count:
                self.record_bytes = max(1.0, got.size / got.count)
        if got.size == 0:
            if self.problem is not None:
                raise self.problem
            return None
        return self._step(old, got)

    @property
    def _ended(self) -> bool:
        """Return whether the content ends, whole, where the buffer does."""
        end = self.content.end(self.read_to)
        return end is not None and end.complete

    def _fill(self, size: int) -> bool:
        """Read on until the buffer holds `size` bytes; False when it did not grow."""
        missing = size - len(self.buffer)
        if missing <= 0:
            return False
        data = self._more(self.read_to, missing)
        if not data:
            return False
        self.read_to += len(data)
        self.buffer = self.buffer + data if self.buffer else data
        return True

    def _more(self, offset: int, length: int) -> bytes:
        """Return content bytes, none at the end or at damage, which is kept to be raised later."""
        try:
            data = self.content.read_at(offset, length)
        except (Corrupt, Unsupported) as problem:
            self.problem = problem
            return b""
        if not data and self.content.end(offset) is None:
            raise self._replaced("the file ends before its bound", offset)
        return data

    def _line_end(self) -> int:
        return self.parser.ends.leading(self.buffer[:_LINE_END])

    def _step(self, old: Checkpoint, got: _Gathered) -> Step:
        data = b"".join(got.data)
        end = old.offset + len(data)
        self._passed(data, end)
        pieces = self._pieces(old, got, data)
        self.checkpoint = old.moved(
            offset=end,
            records=old.records + len(got.records),
            lines=old.lines + got.lines,
            open_record=got.open_record,
            displaced=None,
            **self._standing(end),
        )
        failpoints.hit("after_fetch")
        return Step(old, self.checkpoint, pieces)

    def _passed(self, data: bytes, end: int) -> None:
        """Take note of content that is done with and ends at `end`."""
        if self.chain is not None:
            self.chain.update(data)
        self.last = (self.last + data[-GUARD_LENGTH:])[-GUARD_LENGTH:]

    def _standing(self, end: int) -> dict[str, Any]:
        """Return what a checkpoint at `end` says besides counts."""
        if not self.buffer:
            # Whether a block ends here is seen one byte later: then a resume starts behind it.
            self.content.end(end)
        self.raw_offset = max(self.raw_offset, self.content.raw_offset_at(end))
        if len(self.last) < (length := guard_length(self.content, end)):
            self.last = self.content.read_at(end - length, length)
        return {
            **proofs(self.handle, self.content, end, self.last),
            "raw_head": self.raw_head,
            "parser": self.parser.state(),
            "chain": None if self.chain is None else self.chain.chain(),
        }

    def _pieces(self, old: Checkpoint, got: _Gathered, data: bytes) -> tuple[Piece, ...]:
        start_line = old.lines + 1
        cut = got.open_record
        self._next_row = None
        if cut is None or cut == old.offset:
            piece = _piece(data, old.offset, start_line, got.records, got.bad, got.skipped, got.misfits)
            return (self._extended(piece) if self.endless and cut is None else piece,)
        first, last = split_before(got.records, cut)
        before = [bad for bad in got.bad if bad.offset < cut]
        after = [bad for bad in got.bad if bad.offset >= cut]
        at = cut - old.offset
        return (
            _piece(data[:at], old.offset, start_line, first, before, got.skipped, got.misfits),
            _piece(data[at:], cut, start_line + self.parser.ends.count(data, 0, at), last, after, 0, {}),
        )

    def _extended(self, piece: Piece) -> Piece:
        """Let a small piece become part of the ledger row before it, while `extending` allows that."""
        row = self._row
        if not self.extending or row is None or row.end + len(piece.data) - row.start > EXTENDED_BYTES:
            self._next_row = _OpenRow(piece.span.start).with_span(piece.data)
            return piece
        self._next_row = row.with_span(piece.data)
        return replace(piece, extends=Extension(row.start, self._next_row.hasher.hexdigest()))

    def _skip_nuls(self) -> Step | None:
        """Pass over a hole at the start of the generation; None when there is none, or nothing else yet."""
        old = self.checkpoint
        plain = self.content.codec == "plain"
        position = end_of_hole(self.handle, old.offset, self.bound) if plain else old.offset
        if position in (old.offset, self.bound):
            return None
        self.read_to = position
        length = min(GUARD_LENGTH, position)
        self.last = self.content.read_at(position - length, length)
        chain = Chain(position // CHAIN_BLOCK, "")
        self.chain = chain_at(self.content, old.moved(offset=position, chain=chain))
        self.checkpoint = old.moved(offset=position, **self._standing(position) | {"parser": old.parser})
        self._next_row = None
        span = Span(old.offset, position, old.lines + 1, 0, 0, 0, "", "skipped")
        return Step(old, self.checkpoint, (Piece(span, Records([[] for _ in self.plan.layout.columns])),))

    def _too_long(self, old: Checkpoint) -> Step:
        """Pass over a record longer than may be held, in bounded memory."""
        start = position = old.offset
        raw = self.buffer[: self.plan.spec.quarantine_raw_bytes]
        span_hasher = new_hasher()
        ended = False
        data = self.buffer
        skip = self.parser.skip()
        while data and not ended:
            at = skip.feed(data)
            ended = at >= 0
            data, rest = (data[:at], data[at:]) if ended else (data, b"")
            span_hasher.update(data)
            position += len(data)
            self._passed(data, position)
            data = rest if ended else self._more(position, SKIP_READ)
        self._next_row = None
        length = position - start
        limit = self.plan.settings.max_record_bytes
        bad = BadRecord(
            start, length, old.lines + 1, raw, "record_too_long", f"the record has {length} bytes, the limit is {limit}"
        )
        span = Span(start, position, old.lines + 1, 0, 1, 0, span_hasher.hexdigest())
        self.buffer = data
        self.read_to = position + len(data)
        self.checkpoint = old.moved(
            offset=position,
            lines=old.lines + skip.lines,
            open_record=None if ended else start,
            displaced=None,
            **self._standing(position),
        )
        failpoints.hit("after_fetch")
        return Step(old, self.checkpoint, (Piece(span, Records([[] for _ in self.plan.layout.columns]), (bad,)),))


def _piece(
    data: bytes,
    start: int,
    line: int,
    records: Records,
    bad: Sequence[BadRecord],
    skipped: int,
    misfits: dict[str, int],
) -> Piece:
    span = Span(start, start + len(data), line, len(records), len(bad), skipped, digest(data))
    return Piece(span, records, tuple(bad), misfits, data)
