"""zstd (RFC 8878): frames one after another, skippable frames between them.

A frame is walked by the sizes in its block headers, so the decompressor is handed one block of at most
128 KiB content at a time: output is bounded whatever the frame claims, and the frame's end is known
exactly. The table of the seekable format is a skippable frame. Frames with a window above 128 MiB
(zstd(1)'s own limit) or a dictionary are refused before any memory is taken.
"""

from __future__ import annotations

from typing import ClassVar

import zstandard

from filecollect.errors import Unsupported
from filecollect.files.codecs.api import Damaged, Decoded

WINDOW_LIMIT = 128 * 1024 * 1024
_BLOCK_LIMIT = 128 * 1024
_SHORTEST_HEADER, _LONGEST_HEADER = 5, 18
_CHECKSUM = 4
_RLE, _RESERVED = 1, 3
_SINGLE_SEGMENT = 0x20
_SKIPPABLE = b"\x2a\x4d\x18"
"""What follows the first byte (50 to 5F) of a skippable frame."""


class Zstd:
    """The zstd format."""

    name: ClassVar[str] = "zstd"
    magic: ClassVar[bytes] = b"\x28\xb5\x2f\xfd"
    bytewise: ClassVar[bool] = False

    def __init__(self) -> None:
        self._context = zstandard.ZstdDecompressor(max_window_size=WINDOW_LIMIT)

    def gap(self, raw: bytes) -> int | None:
        """Return the length of the skippable frame that `raw` begins with."""
        if (raw[:1] and raw[0] & 0xF0 != 0x50) or not _SKIPPABLE.startswith(raw[1:4]):
            return 0
        return 8 + int.from_bytes(raw[4:8], "little") if len(raw) >= 8 else None

    def decoder(self) -> _Frame:
        """Return a decoder for the next frame."""
        return _Frame(self._context)


class _Frame:
    """One frame: its header, its blocks, its checksum."""

    def __init__(self, context: zstandard.ZstdDecompressor) -> None:
        self._frame = context.decompressobj()
        self._begun = False
        self._last = False
        self._checksum = 0

    def decode(self, raw: memoryview, most: int) -> Decoded:
        """Decode the next block, up to 128 KiB; a block is not cut at `most`."""
        size = self._header(raw) if not self._begun else self._checksum if self._last else self._block(raw)
        if size == 0 or size > len(raw):
            return Decoded(b"", 0, False)
        if not self._begun:
            self._begin(raw[:size])
        elif not self._last:
            self._last = bool(raw[0] & 1)
        try:
            content = self._frame.decompress(raw[:size])
        except zstandard.ZstdError as problem:
            raise Damaged(str(problem).rpartition(": ")[2]) from problem
        return Decoded(content, size, self._frame.eof)

    def _header(self, raw: memoryview) -> int:
        """Return the header's size, 0 while it is not known."""
        start = bytes(raw[:_LONGEST_HEADER])
        if not (start.startswith(Zstd.magic) or Zstd.magic.startswith(start)):
            raise Damaged("these bytes are no zstd frame")
        return zstandard.frame_header_size(start) if len(start) >= _SHORTEST_HEADER else 0

    def _begin(self, header: memoryview) -> None:
        if not header[4] & _SINGLE_SEGMENT:
            _check_window(1 << (10 + (header[5] >> 3)))
        try:
            facts = zstandard.get_frame_parameters(bytes(header))
        except zstandard.ZstdError as problem:
            raise Damaged(f"a damaged frame header: {problem}") from problem
        if facts.dict_id:
            raise Unsupported(f"the zstd frame needs the dictionary {facts.dict_id}")
        _check_window(facts.window_size)
        self._begun = True
        self._checksum = _CHECKSUM if facts.has_checksum else 0

    def _block(self, raw: memoryview) -> int:
        """Return the size of the block that `raw` begins with, 0 while it is not known."""
        if len(raw) < 3:
            return 0
        header = int.from_bytes(raw[:3], "little")
        kind, size = header >> 1 & 3, header >> 3
        if kind == _RESERVED or size > _BLOCK_LIMIT:
            raise Damaged("a damaged block header")
        return 3 + (1 if kind == _RLE else size)


def _check_window(size: int) -> None:
    if size > WINDOW_LIMIT:
        raise Unsupported(
            f"the zstd frame needs a window of {size >> 20} MiB, {WINDOW_LIMIT >> 20} MiB are allowed",
            hint="decompress it first: zstd -d --long=31",
        )
