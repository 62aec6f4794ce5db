"""The Parser protocol: a buffer that starts at a record boundary becomes records and bad records.

`parse` keeps no bytes: what it does not consume is handed in again, longer, by the caller. So any
chunk size gives the same records, and a parser can be rebuilt from the checkpoint at any time
(`state()` is stored there: format, encoding, dialect, the generation's header).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from filecollect.domain.batch import BadRecord, Records
from filecollect.parse.lineends import LineEnds


class Tail(Enum):
    """What to do with a last record that has no end yet."""

    WAIT = "wait"
    """Leave it: the file may grow."""
    TRY = "try"
    """Emit it if it parses, else leave it."""
    TAKE = "take"
    """Emit it if it parses, else quarantine it as `truncated_record`."""


@dataclass(slots=True)
class Parsed:
    """What a parser made of a buffer.

    `consumed` bytes (a record boundary) and `lines` line ends are done with; `skipped` counts records
    left out on purpose (comments, repeated headers), not blank lines; `misfits` counts per column
    values of an inferred column that went to `_extra`; `open_record` is the content offset of a last
    record that was taken without a line end.
    """

    consumed: int = 0
    lines: int = 0
    records: Records = field(default_factory=Records)
    bad: list[BadRecord] = field(default_factory=list)
    skipped: int = 0
    misfits: dict[str, int] = field(default_factory=dict)
    open_record: int | None = None


class Skip(Protocol):
    """Finds the end of a record too long to be held, which comes in pieces."""

    lines: int
    """Line ends met so far."""

    def feed(self, data: bytes) -> int:
        """Return the position in `data` after the record's end, -1 while it has not come."""


class Parser(Protocol):
    """Turn bytes of one format into records for one list of columns."""

    @property
    def ends(self) -> LineEnds:
        """Return how lines end in this file."""

    def parse(self, data: bytes, *, offset: int, line: int, limit: int, tail: Tail) -> Parsed:
        """Parse at most `limit` records of `data`.

        `data` starts at content offset `offset`, a record boundary, on 1-based line `line`. Never
        raises for any bytes: what cannot become a row is a BadRecord. When `data` is at least
        `max_record_bytes` long and holds no record end, nothing is consumed; the caller then passes
        over the record with `skip()`.
        """

    def skip(self) -> Skip:
        """Return what finds the end of a record that begins where nothing was consumed."""

    def state(self) -> dict[str, Any]:
        """Return what a resume needs, as stored in the checkpoint's `parser`."""
