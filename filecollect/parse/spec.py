"""How the files of one source are read, decided once and stored in `collection_source`.

Invariant: with a Spec and a list of columns the same bytes always become the same records, so a Spec
holds everything that changes a record. `Wanted` is what the user forced; None there means "decide".
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

FORMATS = frozenset({"csv", "json", "jsonl", "lines"})
MAX_RECORD_BYTES = 1 << 20
QUARANTINE_RAW_BYTES = 64 * 1024
UNDECODABLE = "_undecodable"
"""The key in `_extra` that holds the bytes which were replaced in a row, in hex; they count as misfits of it."""


@dataclass(frozen=True, slots=True)
class Spec:
    """A decided format. `encoding` is a Python codec name (see `encoding.py`), `newline` what ends a line.

    `header` is True (the first record names the columns), False (c1, c2, ...) or the columns' names.
    `delimiter`, `quote` (empty: none), `escape`, `comment`, `header`, `null`, `ragged` and `decimal` matter to
    CSV only. With `bare` a JSON record that is no object becomes a field `value`; nested objects are
    flattened `flatten` levels deep. `skip_lines` physical lines at the top of a file are passed over.
    `time_formats` and `time_zone` say how times are written. A record longer than `max_record_bytes` is
    quarantined with its first `quarantine_raw_bytes`.
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
    newline: str = "\n"
    encoding_errors: str = "quarantine"
    escape: str = ""
    comment: str = ""
    decimal: str = "."
    bare: bool = False
    flatten: int = 0
    time_formats: tuple[str, ...] = ()
    time_zone: str | None = None

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
    encoding_errors: str = "quarantine"
    quote: str | None = None
    escape: str | None = None
    comment: str | None = None
    decimal: str = "."
    flatten: int = 0
    time_formats: tuple[str, ...] = ()
    time_zone: str | None = None
