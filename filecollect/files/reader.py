"""Reading content up to a bound; other codecs stand behind the same protocol."""

from __future__ import annotations

from typing import Protocol

from filecollect.files.filesystem import FileHandle


class ContentReader(Protocol):
    """Read decompressed content by content offset."""

    codec: str

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` content bytes from `offset`, none past the bound."""

    def raw_offset_at(self, content_offset: int) -> int:
        """Return the on-disk offset that belongs to a content offset."""


class PlainReader:
    """A plain file: content is what is on disk."""

    codec = "plain"

    def __init__(self, handle: FileHandle, bound: int) -> None:
        self.handle = handle
        self.bound = bound

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` content bytes from `offset`, none past the bound."""
        return self.handle.read_at(offset, max(0, min(length, self.bound - offset)))

    def raw_offset_at(self, content_offset: int) -> int:
        """Return the on-disk offset that belongs to a content offset."""
        return content_offset
