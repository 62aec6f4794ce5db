"""What was decided about how to read a source's files: stored with the source, never guessed again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Spec:
    """The format of a source's files; sizes in bytes."""

    format: str
    encoding: str = "utf-8"
    delimiter: str | None = None
    quote: str = '"'
    header: bool | tuple[str, ...] | None = None
    null: tuple[str, ...] = ()
    skip_lines: int = 0
    ragged: str = "quarantine"
    names: str = "keep"
    max_record_bytes: int = 1 << 20
    quarantine_raw_bytes: int = 1 << 16

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        value = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: list(one) if isinstance(one, tuple) else one for name, one in value.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Spec:
        """Read the stored form."""
        read: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in value.items()}
        return cls(**read)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user forced; None = to be decided from the content."""

    format: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    header: bool | Sequence[str] | None = None
    null: tuple[str, ...] = ()
    skip_lines: int = 0
    ragged: str = "quarantine"
    names: str = "keep"
    max_record_bytes: int = 1 << 20
    quarantine_raw_bytes: int = 1 << 16
