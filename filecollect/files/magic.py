"""What a file is by its first bytes, for files that hold no records.

Signatures are those of the formats' own specifications, as collected in file(1)'s magic and the
list of file signatures. Short ones ("BM", "MZ") are only believed with more of the header.
"""

from __future__ import annotations

_SIGNATURES: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"GIF87a", "a GIF image"),
    (0, b"GIF89a", "a GIF image"),
    (8, b"WEBP", "a WebP image"),
    (0, b"II*\x00", "a TIFF image"),
    (0, b"MM\x00*", "a TIFF image"),
    (0, b"\x00\x00\x01\x00", "an icon"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"PK\x03\x04", "a zip archive or office document"),
    (0, b"PK\x05\x06", "an empty zip archive"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old office document"),
    (0, b"SQLite format 3\x00", "an SQLite database"),
    (0, b"\x7fELF", "an executable"),
    (0, b"\xca\xfe\xba\xbe", "an executable"),
    (0, b"\xcf\xfa\xed\xfe", "an executable"),
    (0, b"\xce\xfa\xed\xfe", "an executable"),
    (0, b"\x00asm", "a WebAssembly module"),
    (0, b"PAR1", "a Parquet file"),
    (0, b"Obj\x01", "an Avro file"),
    (0, b"ORC", "an ORC file"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"Rar!\x1a\x07", "a RAR archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"OggS", "an audio or video file"),
    (0, b"ID3", "an audio file"),
    (4, b"ftyp", "a video file"),
    (0, b"\x1aE\xdf\xa3", "a video file"),
    (0, b"fLaC", "an audio file"),
)
_NEED_NULS = frozenset({b"ORC", b"PAR1", b"ID3", b"OggS", b"fLaC", b"ftyp", b"WEBP"})
_COMPRESSIONS: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b\x08", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\x00", "xz"),
    (b"\x04\x22\x4d\x18", "lz4"),
)
_CONTROL = bytes(set(range(32)) - {7, 8, 9, 10, 11, 12, 13, 27} | {127})


def unsupported_kind(head: bytes, name: str) -> str | None:
    """Return what a file is that holds no records, as a short phrase; None when it may hold some."""
    for at, signature, kind in _SIGNATURES:
        if head[at : at + len(signature)] == signature and (signature not in _NEED_NULS or _binary(head)):
            return kind
    if head[:2] == b"BM" and len(head) > 14 and head[6:10] == bytes(4):
        return "a bitmap image"
    if head[:2] == b"MZ" and _binary(head[:64]):
        return "an executable"
    if head[:4] == b"RIFF" and head[8:12] in {b"WAVE", b"AVI "}:
        return "an audio or video file"
    return None


def compression(head: bytes) -> str | None:
    """Return the compression of a file by its magic, None for a plain one."""
    for signature, name in _COMPRESSIONS:
        if head.startswith(signature) and (name != "bzip2" or head[4:10] == b"1AY&SY"):
            return name
    return None


def looks_binary(head: bytes) -> bool:
    """Return whether bytes hold NULs or control characters that no text has; UTF-16 and UTF-32 are text."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")):
        return False
    sample = head[:8192].rstrip(b"\x00")
    if not sample:
        return bool(head)
    odd, even = sample[1::2], sample[::2]
    if len(sample) > 8 and max(odd.count(0) / len(odd), even.count(0) / len(even)) > 0.9 > 0.1 > min(
        odd.count(0) / len(odd), even.count(0) / len(even)
    ):
        return False
    return _binary(sample)


def _binary(data: bytes) -> bool:
    return len(data) - len(data.translate(None, _CONTROL)) > len(data) * 0.02
