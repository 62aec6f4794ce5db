"""How the files of one source are read, decided once and stored in `collection_source`.

Invariant: with a Spec and a list of columns the same bytes always become the same records, so a Spec
holds everything that changes a record. `Wanted` is what the user forced; None there means "decide".
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

FORMATS = frozenset({"csv", "jsonl", "lines"})
MAX_RECORD_BYTES = 1 << 20
QUARANTINE_RAW_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Spec:
    """A decided format. `encoding` is a Python codec name in which every ASCII byte stands for itself.

    `header` is True (the first record names the columns), False (c1, c2, ...) or the columns' names.
    `delimiter`, `quote`, `header`, `null` and `ragged` matter to CSV only. `skip_lines` physical lines
    at the top of a file are passed over. A record longer than `max_record_bytes` is quarantined with
    its first `quarantine_raw_bytes`.
    """

    format: str
    encoding: str = "utf-8"
    delimiter: str = ","
    quote: str = '"'
    header: bool | tuple[str, ...] = True
    null: tuple[str, ...] = ()
    skip_lines: int = 0
    ragged: str = "quarantine"
    max_record_bytes: int = MAX_RECORD_BYTES
    quarantine_raw_bytes: int = QUARANTINE_RAW_BYTES
    names: str = "keep"

    def to_json(self) -> dict[str, Any]:
        """Return the stored form; tuples become lists."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Spec:
        """Read the stored form; what an older version did not store has its default."""
        known = {field.name for field in fields(cls)}
        stored: dict[str, Any] = {
            name: tuple(part) if isinstance(part, list) else part for name, part in value.items() if name in known
        }
        return cls(**stored)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user said about a source's format; None means "decide by content"."""

    format: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    header: bool | tuple[str, ...] | None = None
    null: tuple[str, ...] = ()
    skip_lines: int = 0
    ragged: str = "quarantine"
    max_record_bytes: int = MAX_RECORD_BYTES
    quarantine_raw_bytes: int = QUARANTINE_RAW_BYTES
    names: str = "keep"
