"""One task's file, from its checkpoint on: open, prove, read, parse, in steps that can be committed.

Invariant: a step starts at the committed checkpoint and ends at a record boundary that is not past
the round's upper bound; its spans tile. Nothing here writes; a stream that is thrown away loses
nothing. The file is proven (size, head, guard) on the same open handle at opening and once more
right before each commit, so bytes of a file that was replaced meanwhile never become rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from filecollect import failpoints
from filecollect.domain.batch import BadRecord, Extension, Piece, Records, Span, Step
from filecollect.domain.position import CHAIN_BLOCK, GUARD_LENGTH, HEAD_LENGTHS, Chain, Checkpoint, Proof, head_length
from filecollect.errors import Replaced
from filecollect.files.filesystem import FileHandle, FileStat, FileSystem
from filecollect.files.fingerprint import ChainDigest, digest, guard, head_at, proves
from filecollect.files.fingerprint import hasher as new_hasher
from filecollect.files.holes import end_of_hole
from filecollect.files.paths import os_path
from filecollect.files.reader import PlainReader
from filecollect.parse.api import Parsed, Tail
from filecollect.parse.build import make_parser
from filecollect.pipeline.plan import Plan
from filecollect.store.tasks import Task

YOUNG_S = 5.0
"""A file younger than this may still be written: a last record that does not parse is left."""
EXTENDED_BYTES = 1024 * 1024
"""A ledger row is extended only up to this size."""
SMALLEST_READ = 64 * 1024
SKIP_READ = 1024 * 1024


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
            self._prove(self.checkpoint, task.head)
            self.reader = PlainReader(self.handle, self.bound)
            self._at(self.checkpoint)
        except BaseException:
            self.handle.close()
            raise
        self.tail = Tail.WAIT if self.endless else self.last_tail(now)
        self.extending = False
        self._row: _OpenRow | None = None
        self._next_row: _OpenRow | None = None
        self.head = self._head()
        self.limit_rows = max(1, plan.settings.batch_rows >> min(task.attempt_count, 30))
        failpoints.hit("after_open")

    def _at(self, checkpoint: Checkpoint) -> None:
        self.checkpoint = checkpoint
        self.buffer = b""
        self.read_to = checkpoint.offset
        self.chain = ChainDigest.resume(self.handle, checkpoint.chain, checkpoint.offset)
        self.parser = make_parser(self.plan.spec, self.plan.layout, checkpoint.parser or None)
        self.record_bytes = 200.0

    def last_tail(self, now: float) -> Tail:
        """Return what to do with a last record without its end: a young file may still be written to."""
        return Tail.TRY if now - self.stat.mtime_ns / 1e9 < YOUNG_S else Tail.TAKE

    def refresh(self) -> bool:
        """Look at the size of a tailed file; return whether it has grown. Raises Replaced when it shrank."""
        self.stat = self.handle.stat()
        if self.stat.size < self.bound:
            raise Replaced(
                f"the file has {self.stat.size} bytes, it had {self.bound}", path=self.task.path, offset=self.stat.size
            )
        grown = self.stat.size > self.bound
        if grown:
            self.bound = self.reader.bound = self.stat.size
            if self.head.length < HEAD_LENGTHS[-1]:
                self._prove(self.checkpoint, self.head)
                self.head = self._head()
        return grown

    def end_here(self, tail: Tail) -> None:
        """Take what is there as all there is (or, with WAIT, no longer): the last record may lack its end."""
        self.tail = tail

    def committed(self) -> None:
        """Note that the last step stands."""
        self._row, self._next_row = self._next_row, None

    def rewind(self, checkpoint: Checkpoint, limit_rows: int) -> None:
        """Start again at `checkpoint`, which was not committed past, with smaller batches."""
        self._row = self._next_row = None
        self._at(checkpoint)
        self.limit_rows = limit_rows

    def close(self) -> None:
        """Let go of the file."""
        self.handle.close()

    def _prove(self, checkpoint: Checkpoint, head: Proof) -> None:
        size = self.handle.stat().size
        if size < checkpoint.offset:
            raise Replaced(
                f"the file has {size} bytes, {checkpoint.offset} were read", path=self.task.path, offset=size
            )
        if not proves(self.handle, head, head.length):
            raise Replaced("the file begins with other bytes than the ones read", path=self.task.path, offset=0)
        if not proves(self.handle, checkpoint.guard, checkpoint.offset):
            raise Replaced(
                "the bytes before the checkpoint are not the ones read", path=self.task.path, offset=checkpoint.offset
            )

    def _head(self) -> Proof:
        return head_at(self.handle, head_length(self.bound))

    def prove(self, step: Step) -> None:
        """Prove once more that the open file holds what was parsed and what stands before it; raise Replaced."""
        self._prove(step.old, self.head)
        self._prove(step.new, self.head)

    def completed_record(self) -> bool:
        """Return whether the last record, emitted without its end, has been continued meanwhile."""
        if self.checkpoint.open_record is None or self.bound <= self.checkpoint.offset:
            return False
        following = self.reader.read(self.checkpoint.offset, 2)
        return not (following.startswith(b"\n") or b"\r\n".startswith(following))

    @property
    def finished(self) -> bool:
        """Return whether everything up to the bound is read."""
        return self.checkpoint.offset >= self.bound

    @property
    def left(self) -> int:
        """Return how many bytes up to the bound are not read."""
        return self.bound - self.checkpoint.offset

    def next(self, room: int) -> Step | None:
        """Return the next step of at most `room` records, None when nothing can be read now.

        The stream moves on to the step's end; a step that is not committed must be rewound.
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
            ended = self.read_to >= self.bound
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
                self._fill(len(self.buffer) * 2)
                continue
            got.add(parsed, self.buffer[:consumed], 1 if prefix else 0)
            self.buffer = self.buffer[consumed:]
            if got.count:
                self.record_bytes = max(1.0, got.size / got.count)
        if got.size == 0:
            return None
        return self._step(old, got)

    def _fill(self, size: int) -> bool:
        missing = size - len(self.buffer)
        if missing <= 0 or self.read_to >= self.bound:
            return False
        data = self.reader.read(self.read_to, missing)
        if not data:
            raise Replaced("the file ends before its bound", path=self.task.path, offset=self.read_to)
        self.read_to += len(data)
        self.buffer = self.buffer + data if self.buffer else data
        return True

    def _line_end(self) -> int:
        return 2 if self.buffer.startswith(b"\r\n") else 1 if self.buffer.startswith((b"\n", b"\r")) else 0

    def _step(self, old: Checkpoint, got: _Gathered) -> Step:
        data = b"".join(got.data)
        self.chain.update(data)
        end = old.offset + len(data)
        pieces = self._pieces(old, got, data)
        self.checkpoint = old.moved(
            offset=end,
            records=old.records + len(got.records),
            lines=old.lines + got.lines,
            guard=self._guard(data, end),
            open_record=got.open_record,
            parser=self.parser.state(),
            chain=self.chain.chain(),
        )
        failpoints.hit("after_fetch")
        return Step(old, self.checkpoint, pieces)

    def _guard(self, data: bytes, end: int) -> Proof:
        length = min(GUARD_LENGTH, end)
        return Proof(length, digest(data[-length:])) if len(data) >= length else guard(self.handle, end)

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
            _piece(data[at:], cut, start_line + data[:at].count(b"\n"), last, after, 0, {}),
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
        position = end_of_hole(self.handle, old.offset, self.bound) if self.reader.codec == "plain" else old.offset
        if position in (old.offset, self.bound):
            return None
        self.read_to = position
        self.checkpoint = old.moved(
            offset=position, guard=guard(self.handle, position), chain=Chain(position // CHAIN_BLOCK, "")
        )
        self.chain = ChainDigest.resume(self.handle, self.checkpoint.chain, position)
        self._next_row = None
        span = Span(old.offset, position, old.lines + 1, 0, 0, 0, "", "skipped")
        return Step(old, self.checkpoint, (Piece(span, Records([[] for _ in self.plan.layout.columns])),))

    def _too_long(self, old: Checkpoint) -> Step:
        """Pass over a record longer than may be held, in bounded memory, up to the next line end."""
        start = old.offset
        raw = self.buffer[: self.plan.spec.quarantine_raw_bytes]
        span_hasher = new_hasher()
        position = start
        ended = False
        last = b""
        while position < self.bound and not ended:
            data = self.reader.read(position, SKIP_READ)
            if not data:
                raise Replaced("the file ends before its bound", path=self.task.path, offset=position)
            at = data.find(b"\n")
            ended = at >= 0
            data = data[: at + 1] if ended else data
            span_hasher.update(data)
            self.chain.update(data)
            position += len(data)
            last = (last + data)[-GUARD_LENGTH:]
        self._next_row = None
        length = position - start
        limit = self.plan.settings.max_record_bytes
        bad = BadRecord(
            start, length, old.lines + 1, raw, "record_too_long", f"the record has {length} bytes, the limit is {limit}"
        )
        span = Span(start, position, old.lines + 1, 0, 1, 0, span_hasher.hexdigest())
        self.buffer = b""
        self.read_to = position
        self.checkpoint = old.moved(
            offset=position,
            lines=old.lines + int(ended),
            guard=Proof(len(last), digest(last))
            if len(last) == min(GUARD_LENGTH, position)
            else guard(self.handle, position),
            open_record=None if ended else start,
            parser=self.parser.state(),
            chain=self.chain.chain(),
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
