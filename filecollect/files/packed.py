"""Compressed content: blocks decoded one after another, a piece at a time.

Only a window of decoded content is held: the last piece and a few KiB before it. Known blocks are
remembered, the older ones thinned out when they are many, so a million tiny blocks cost little; a
place before a forgotten block is reached from an earlier one.

An inflater that meets damage drops what the same call had decoded. Where the codec allows it, the
block is decoded again then, single bytes at a time from where the call began, so that every byte
before the damage is handed out. (A checksum that does not match says only that some byte of its block
is wrong; it is met last, after the content.)
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from filecollect.domain.position import Block
from filecollect.errors import Corrupt, FilecollectError, Replaced, Unsupported
from filecollect.files.codecs.api import Codec, Damaged, Decoded, Decoder
from filecollect.files.filesystem import FileHandle

FIRST_READ = 4 * 1024
RAW_READ = 32 * 1024
"""Raw bytes of the first read after a start, doubled up to the usual read."""
PIECE = 256 * 1024
"""Content bytes decoded at once."""
BACK = 4 * 1024
"""Content bytes kept before the last piece."""
KNOWN = 16 * 1024
"""Blocks and marks that are remembered."""
_SEEN = 256


@dataclass(frozen=True, slots=True)
class End:
    """Where content ends within its raw bound: complete, or inside a block that is not whole (yet).

    `raw_left` are the raw bytes of the block that is not whole.
    """

    offset: int
    complete: bool
    raw_left: int = 0


class PackedContent:
    """The content of a compressed file; see `files.content.Content`."""

    def __init__(self, handle: FileHandle, bound: int, codec: Codec, start: Block | None = None) -> None:
        self.handle = handle
        self.bound = bound
        self.codec = codec.name
        self._codec = codec
        first = Block(0, 0, 0)
        self._blocks = [first] if start is None or start.content_offset == 0 else [first, start]
        if start is not None and start.content_offset == 0:
            self._blocks = [start]
        self._marks: list[tuple[int, int]] = []
        self._seen = (0, b"")
        self._begin(self._blocks[-1])

    def _begin(self, block: Block) -> None:
        self._block = block
        self._decoder: Decoder | None = None
        self._raw = b""
        self._taken = 0
        self._raw_at = block.raw_offset
        self._read_size = FIRST_READ
        self._window = b""
        self._window_at = block.content_offset
        self._end: End | None = None
        self._problem: FilecollectError | None = None
        self._bytewise_from: int | None = None

    # -- content ---------------------------------------------------------------------------------

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to `length` content bytes from `offset`; raise what is wrong when it begins there."""
        if offset < self._window_at:
            self._begin(self.block_at(offset))
        parts: list[bytes] = []
        while length > 0 and self._reach(offset):
            at = offset - self._window_at
            part = self._window[at : at + length]
            parts.append(part)
            offset += len(part)
            length -= len(part)
        if length > 0 and not parts and self._problem is not None:
            raise self._problem
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def end(self, offset: int) -> End | None:
        """Return how the content ends when it does not go beyond `offset`."""
        return None if self._reach(offset) else self._end

    def size_up_to(self, offset: int) -> int:
        """Return the content's size, or `offset` + 1 when it goes on, is unfinished or damaged there."""
        end = self.end(offset)
        if end is not None and end.complete:
            return end.offset
        return offset + 1 if self._decoded >= offset else self._decoded

    @property
    def _decoded(self) -> int:
        return self._window_at + len(self._window)

    def _reach(self, offset: int) -> bool:
        """Decode until the byte at `offset` is in the window or before it; False when it cannot be had."""
        while offset >= self._decoded:
            if self._end is not None or self._problem is not None:
                return False
            self._advance()
        return True

    # -- places ----------------------------------------------------------------------------------

    def block_at(self, content_offset: int) -> Block:
        """Return the last known block that starts at or before `content_offset`."""
        return self._blocks[bisect_right(self._blocks, content_offset, key=lambda one: one.content_offset) - 1]

    def raw_offset_at(self, content_offset: int) -> int:
        """Return the raw offset up to which `content_offset` has surely got."""
        if self._end is not None and self._end.complete and content_offset >= self._end.offset:
            return self.bound
        raw = self.block_at(content_offset).raw_offset
        index = bisect_right(self._marks, content_offset, key=lambda mark: mark[0]) - 1
        if index >= 0:
            raw = max(raw, self._marks[index][1])
        return min(raw, self.bound - 1)

    def grow(self, bound: int) -> None:
        """Let the file go on up to a later bound: a block that was not whole is decoded further."""
        self.bound = bound
        self._end = None

    def unchanged(self) -> bool:
        """Return whether the raw bytes that were read last are still there."""
        end, data = self._seen
        return self.handle.read_at(end - len(data), len(data)) == data

    def _note(self, block: Block) -> None:
        """Remember where a block starts; of empty ones only the last."""
        self._block = block
        last = self._blocks[-1]
        if block.index > last.index:
            if block.content_offset == last.content_offset:
                self._blocks.pop()
            self._blocks.append(block)
            _thin(self._blocks)

    # -- decoding --------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Take one step: begin a block, decode a piece, pass a gap, read raw bytes, or find the end."""
        if self._decoder is None and not self._between():
            return
        decoded = self._decode()
        if decoded is None:
            return
        if decoded.content:
            if self._decoded > max(self._block.content_offset, self._marks[-1][0] if self._marks else 0):
                self._marks.append((self._decoded, self._raw_at))
                _thin(self._marks)
            kept = self._window[-BACK:]
            self._window_at = self._decoded - len(kept)
            self._window = kept + decoded.content
        self._take(decoded.used)
        if decoded.ended:
            self._decoder = None
            self._note(Block(self._block.index + 1, self._raw_at, self._decoded))
        elif not decoded.used and not decoded.content and not self._read():
            self._unfinished()

    def _between(self) -> bool:
        """Stand between blocks; return whether one has begun."""
        raw = self._raw[self._taken : self._taken + FIRST_READ]
        if not raw:
            if not self._read():
                self._end = End(self._decoded, True)
            return False
        gap = self._codec.gap(raw)
        if gap == 0:
            self._decoder = self._codec.decoder()
            return True
        if gap is None and self._read():
            return False
        if gap is None or self._raw_at + gap > self.bound:
            self._unfinished()
        else:
            self._take(gap)
        return False

    def _unfinished(self) -> None:
        self._end = End(self._decoded, False, self.bound - self._block.raw_offset)

    def _decode(self) -> Decoded | None:
        assert self._decoder is not None
        raw = memoryview(self._raw)[self._taken :]
        if self._bytewise_from is not None:
            raw = raw[: max(1, self._bytewise_from - self._raw_at)]
        try:
            return self._decoder.decode(raw, PIECE)
        except Damaged as damage:
            if self._codec.bytewise and self._bytewise_from is None:
                at = self._raw_at
                self._begin(self._block)
                self._bytewise_from = at
            else:
                self._problem = Corrupt(
                    f"the {self.codec} data is damaged at byte {self._raw_at} of the file: {damage}",
                    path=self.handle.path,
                    offset=self._decoded,
                    hint="the rows before it are kept; put a whole copy in its place and load it again",
                )
        except Unsupported as refused:
            self._problem = Unsupported(refused.message, path=self.handle.path, offset=self._decoded, hint=refused.hint)
        return None

    def _take(self, count: int) -> None:
        self._raw_at += count
        self._taken += count
        if self._taken >= len(self._raw):
            self._raw, self._taken = b"", 0

    def _read(self) -> bool:
        """Read more raw bytes; False at the bound."""
        rest = self._raw[self._taken :]
        at = self._raw_at + len(rest)
        data = self.handle.read_at(at, min(self._read_size, self.bound - at))
        if not data:
            if at < self.bound:
                raise Replaced("the file ends before its bound", path=self.handle.path, offset=at)
            return False
        self._read_size = min(2 * self._read_size, RAW_READ)
        self._raw, self._taken = rest + data, 0
        self._seen = (at + len(data), data[-_SEEN:])
        return True


def _thin(places: list[Any]) -> None:
    """Drop every second of the older half when there are too many; the first one stays."""
    if len(places) > KNOWN:
        del places[1 : KNOWN // 2 : 2]
