"""Decompressed content of an open file, read by content offset.

Whatever the codec, the bytes read and their offsets are those of the decompressed content, and nothing
past the raw bound is looked at. Reading forward is cheap; reading back is, too, within the last few
KiB, and starts again at a known block otherwise. Damage is raised as Corrupt only when every good byte
before it has been read.
"""

from __future__ import annotations

from typing import Protocol

from filecollect.domain.position import Block
from filecollect.errors import Unsupported
from filecollect.files.codecs import CODECS, SUFFIXES
from filecollect.files.codecs.api import Codec
from filecollect.files.filesystem import FileHandle
from filecollect.files.magic import compression
from filecollect.files.packed import End, PackedContent

__all__ = ["Content", "End", "PlainContent", "codec_of", "open_content"]

_MAGIC_BYTES = 16


class Content(Protocol):
    """Decompressed content by content offset."""

    codec: str

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to `length` content bytes; fewer only at the end of what can be decoded.

        Raises Corrupt when damage begins at `offset`, Replaced when the file ends before its bound.
        """

    def end(self, offset: int) -> End | None:
        """Return how the content ends when it does not go beyond `offset`; None when it does, or is damaged."""

    def size_up_to(self, offset: int) -> int:
        """Return the content's size; of compressed content that goes on after `offset`, `offset` + 1.

        An unfinished or damaged block goes on: what is to be read there is not known yet.
        """

    def raw_offset_at(self, content_offset: int) -> int:
        """Return the on-disk offset up to which `content_offset` has surely got; the bound only when complete."""

    def block_at(self, content_offset: int) -> Block | None:
        """Return the block from which a resume at `content_offset` starts, None for plain content."""

    def grow(self, bound: int) -> None:
        """Let the file go on up to a later bound."""

    def unchanged(self) -> bool:
        """Return whether the raw bytes that were read last are still there; plain content is not asked."""


class PlainContent:
    """A plain file: content is what is on disk."""

    codec = "plain"

    def __init__(self, handle: FileHandle, bound: int) -> None:
        self.handle = handle
        self.bound = bound

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to `length` content bytes from `offset`, none past the bound."""
        return self.handle.read_at(offset, max(0, min(length, self.bound - offset)))

    def end(self, offset: int) -> End | None:
        """Return the end at the bound, None before it."""
        return End(self.bound, True) if offset >= self.bound else None

    def size_up_to(self, offset: int) -> int:
        """Return the bound."""
        return self.bound

    def raw_offset_at(self, content_offset: int) -> int:
        """Return the offset itself."""
        return content_offset

    def block_at(self, content_offset: int) -> Block | None:
        """Return None: any place can be resumed at."""
        return None

    def grow(self, bound: int) -> None:
        """Move the bound."""
        self.bound = bound

    def unchanged(self) -> bool:
        """Return True: plain content is proven by its own bytes."""
        return True


def codec_of(handle: FileHandle, bound: int) -> str:
    """Return the codec of a file by its magic; raise Unsupported for one that is not read.

    The name is asked only where a file is still too short to show its magic.
    """
    head = handle.read_at(0, min(_MAGIC_BYTES, bound))
    found = compression(head)
    if found is None:
        named = [codec for suffix, codec in SUFFIXES.items() if handle.path.lower().endswith(suffix)]
        return named[0].name if named and _may_begin(named[0], head) else PlainContent.codec
    if found not in CODECS:
        raise Unsupported(f"{found} files are not read by this version; decompress it first", path=handle.path)
    return found


def _may_begin(codec: type[Codec], head: bytes) -> bool:
    """Return whether a few bytes may be the first ones of a file that is being written."""
    return 0 < len(head) < len(codec.magic) and (codec.magic.startswith(head) or codec().gap(head) is None)


def open_content(handle: FileHandle, bound: int, codec: str | None = None, start: Block | None = None) -> Content:
    """Return the content of an open file within `bound` raw bytes, told by magic unless `codec` is said.

    `start` is a block known from a checkpoint, to be decoded first. Raises Unsupported.
    """
    codec = codec_of(handle, bound) if codec is None else codec
    if codec == PlainContent.codec:
        return PlainContent(handle, bound)
    return PackedContent(handle, bound, CODECS[codec](), start)
