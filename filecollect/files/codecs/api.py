"""What a codec must do: decode one block, forward only, in bounded pieces.

A block (gzip member, zstd frame) can be decoded without any other. Where it starts and ends in the raw
bytes is found while decoding; a codec reads no files and knows no offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol


class Damaged(Exception):
    """The raw bytes are not what the format allows; the message is a phrase."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a call brought: content, how many raw bytes it took, whether the block ended with them."""

    content: bytes
    used: int
    ended: bool


class Decoder(Protocol):
    """Decode one block from its first byte."""

    def decode(self, raw: memoryview, most: int) -> Decoded:
        """Decode what follows the bytes taken so far, about `most` content bytes.

        Nothing taken and nothing brought means that more raw bytes are needed. Raises Damaged, or
        Unsupported for what is sound but not read.
        """


class Codec(Protocol):
    """A compressed format."""

    name: ClassVar[str]
    magic: ClassVar[bytes]
    """The first bytes of a block."""
    bytewise: ClassVar[bool]
    """Whether the content before damage can be had by feeding single bytes."""

    def gap(self, raw: bytes) -> int | None:
        """Return how many bytes that belong to no block begin here; None when `raw` is too short to tell.

        It may be more than `raw` holds.
        """

    def decoder(self) -> Decoder:
        """Return a decoder for the next block; earlier ones are used no more."""
