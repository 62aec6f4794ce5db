"""Compressed files for tests, made by independent tools: gzip(1), zstd(1), Python's gzip, zstandard.

`FORMS` maps a name to a function that packs content which comes in parts; every part becomes a block
of its own where the form has blocks. Next to the bytes it returns where each block begins on disk.
"""

from __future__ import annotations

import gzip
import struct
import subprocess
import zlib
from collections.abc import Callable, Sequence

import zstandard

Packed = tuple[bytes, list[int]]
"""The raw bytes, and the raw offset of each block; the last one is where a next block would begin."""


def by_command(*command: str, data: bytes) -> bytes:
    """Return what a command makes of standard input."""
    return subprocess.run(command, input=data, capture_output=True, check=True).stdout


def joined(blocks: Sequence[bytes]) -> Packed:
    """Return blocks one after another."""
    starts = [0]
    for block in blocks:
        starts.append(starts[-1] + len(block))
    return b"".join(blocks), starts


def plain(parts: Sequence[bytes]) -> Packed:
    """No compression, no blocks."""
    return b"".join(parts), []


def gzip_one(parts: Sequence[bytes]) -> Packed:
    """One member by gzip(1)."""
    return joined([by_command("gzip", "-c", data=b"".join(parts))])


def gzip_members(parts: Sequence[bytes]) -> Packed:
    """A member for each part, by Python's gzip, which writes the time."""
    return joined([gzip.compress(part, mtime=number) for number, part in enumerate(parts)])


def gzip_fields(parts: Sequence[bytes]) -> Packed:
    """Members with all optional header fields of RFC 1952: extra, name, comment, header CRC."""
    blocks = []
    for part in parts:
        head = b"\x1f\x8b\x08" + bytes([2 | 4 | 8 | 16]) + struct.pack("<LBB", 77, 2, 3)
        head += struct.pack("<H", 6) + b"XY\x02\x00ab" + b"name.log\0" + b"a comment\0"
        head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
        deflate = zlib.compressobj(wbits=-15)
        body = deflate.compress(part) + deflate.flush()
        blocks.append(head + body + struct.pack("<LL", zlib.crc32(part), len(part)))
    return joined(blocks)


def bgzf(parts: Sequence[bytes]) -> Packed:
    """BGZF as in the SAM specification 4.1: small members with their size in a BC field, an empty one last."""
    blocks = []
    for part in [*parts, b""]:
        deflate = zlib.compressobj(wbits=-15)
        body = deflate.compress(part) + deflate.flush()
        head = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + struct.pack("<HBBHH", 6, 66, 67, 2, len(body) + 25)
        blocks.append(head + body + struct.pack("<LL", zlib.crc32(part), len(part)))
    return joined(blocks)


def gzip_padded(parts: Sequence[bytes]) -> Packed:
    """Members with zeros behind the last, as on tapes; gzip(1) allows them."""
    raw, starts = gzip_members(parts)
    return raw + b"\0" * 700, starts


def zstd_one(parts: Sequence[bytes]) -> Packed:
    """One frame by zstd(1) from a pipe: no content size, a checksum."""
    return joined([by_command("zstd", "-c", data=b"".join(parts))])


def zstd_sized(parts: Sequence[bytes]) -> Packed:
    """A frame for each part, with content size and checksum."""
    return joined([zstandard.ZstdCompressor(write_checksum=True).compress(part) for part in parts])


def zstd_bare(parts: Sequence[bytes]) -> Packed:
    """A frame for each part, with neither content size nor checksum."""
    bare = zstandard.ZstdCompressor(write_content_size=False, write_checksum=False)
    return joined([bare.compress(part) for part in parts])


def zstd_skippable(parts: Sequence[bytes]) -> Packed:
    """Skippable frames before, between and after the frames; they count to no block."""
    starts, raw = [0], b""
    for number, part in enumerate(parts):
        raw += struct.pack("<LL", 0x184D2A50 + number % 16, 5) + b"hello"
        raw += zstandard.ZstdCompressor(write_checksum=True).compress(part)
        starts.append(len(raw))
    return raw + struct.pack("<LL", 0x184D2A5F, 0), starts


def zstd_seekable(parts: Sequence[bytes]) -> Packed:
    """The seekable format of zstd's contrib: frames, then their table in a skippable frame."""
    frames = [zstandard.ZstdCompressor(write_checksum=True).compress(part) for part in parts]
    table = b"".join(struct.pack("<LL", len(frame), len(part)) for frame, part in zip(frames, parts, strict=True))
    table += struct.pack("<LBL", len(frames), 0, 0x8F92EAB1)
    raw, starts = joined(frames)
    return raw + struct.pack("<LL", 0x184D2A5E, len(table)) + table, starts


FORMS: dict[str, Callable[[Sequence[bytes]], Packed]] = {
    "plain": plain,
    "gzip": gzip_one,
    "gzip_members": gzip_members,
    "gzip_fields": gzip_fields,
    "bgzf": bgzf,
    "gzip_padded": gzip_padded,
    "zstd": zstd_one,
    "zstd_sized": zstd_sized,
    "zstd_bare": zstd_bare,
    "zstd_skippable": zstd_skippable,
    "zstd_seekable": zstd_seekable,
}
MANY = [name for name in FORMS if name not in {"plain", "gzip", "zstd"}]
"""The forms in which every part is a block."""


def suffix(form: str) -> str:
    """Return the usual suffix of a form."""
    return "" if form == "plain" else ".zst" if form.startswith("zstd") else ".gz"
