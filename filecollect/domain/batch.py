"""What one task contributes to one commit, and the check that its spans tile.

Records travel in columns (one sequence per table column): CSV converts whole columns at C speed, the
commit zips them into rows once, and counting NULLs is one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from filecollect.domain.position import Checkpoint
from filecollect.errors import InvariantError


@dataclass(frozen=True, slots=True)
class BadRecord:
    """An input record that cannot become a row: where it is, its first bytes, and why not.

    `offset` and `length` are content bytes (the line end included), `line` is 1-based, `raw` holds at
    most `quarantine_raw_bytes`, `reason` is a short stable word, `message` a sentence.
    """

    offset: int
    length: int
    line: int
    raw: bytes
    reason: str
    message: str


@dataclass(slots=True)
class Records:
    """Parsed records in columns: `columns[c][i]` is record i's value for table column c.

    `offsets[i]` is the content offset of the record's first byte, `lengths[i]` its bytes with the
    line end, `lines[i]` its 1-based line; `extras` maps a record index to its `_extra` JSON text.
    """

    columns: list[Sequence[object]] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    lines: Sequence[int] = field(default_factory=list)
    extras: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of content that is accounted for by one ledger row."""

    start: int
    end: int
    start_line: int
    row_count: int
    quarantined_count: int
    skipped_count: int
    digest: str
    kind: Literal["data", "skipped"] = "data"


def check_tiling(spans: Sequence[Span], start: int, end: int) -> None:
    """Raise InvariantError unless `spans` cover [start, end) in order, without gap or overlap."""
    position = start
    for span in spans:
        if span.start != position or span.end < span.start:
            raise InvariantError(f"ledger span [{span.start}, {span.end}) does not continue at {position}")
        position = span.end
    if position != end:
        raise InvariantError(f"ledger spans end at {position}, the checkpoint at {end}")


@dataclass(frozen=True, slots=True)
class Extension:
    """The ledger row that a span is added to: where it starts, and its digest with the span."""

    start: int
    digest: str


@dataclass(frozen=True, slots=True)
class Piece:
    """One span with the records and bad records that were parsed from it.

    `data` is the span's content, for the raw bytes of records that the database refuses. With
    `extends` the span becomes part of the task's newest ledger row instead of a new one.
    """

    span: Span
    records: Records
    bad: tuple[BadRecord, ...] = ()
    misfits: dict[str, int] = field(default_factory=dict)
    data: bytes = b""
    extends: Extension | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A task's way from its old checkpoint to a new one, in pieces that tile."""

    old: Checkpoint
    new: Checkpoint
    pieces: tuple[Piece, ...]

    def __post_init__(self) -> None:
        check_tiling([piece.span for piece in self.pieces], self.old.offset, self.new.offset)

    @property
    def row_count(self) -> int:
        """Return the number of parsed records."""
        return sum(len(piece.records) for piece in self.pieces)

    @property
    def misfits(self) -> dict[str, int]:
        """Return how many values did not fit, by column."""
        counts: dict[str, int] = {}
        for piece in self.pieces:
            for name, count in piece.misfits.items():
                counts[name] = counts.get(name, 0) + count
        return counts
