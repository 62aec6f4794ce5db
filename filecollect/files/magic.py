"""What a file is by its first bytes, for files that hold no records.

Signatures are those of the formats' own specifications (PNG, GIF89a, ISO 32000, APPNOTE.TXT, SQLite's
file format, ELF, PE, Parquet, Avro, Arrow, RFC 8878, RFC 1952 ...), as collected in file(1)'s magic.
A text may begin with the letters of any of them, so a signature made of letters is believed only when
bytes that no text holds stand near it. What is not listed is None: not known is not refused.
"""

from __future__ import annotations

import re
from typing import Literal

Compression = Literal["gzip", "zstd", "bzip2", "xz", "lz4"]

SAMPLE_BYTES = 8192
_TEXT_CONTROL = frozenset({1, 7, 8, 9, 10, 11, 12, 13, 26, 27, 28, 29, 30, 31})
"""Control characters that texts do hold: FIX and Hive separate by SOH, JSON sequences by RS."""
_NULS = re.compile(rb"\x00{64,}")
_CONTROL = bytes(set(range(32)) - _TEXT_CONTROL | {127})

# Signatures that no text begins with.
_CERTAIN: tuple[tuple[int, bytes, str], ...] = (
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"II*\x00", "a TIFF image"),
    (0, b"MM\x00*", "a TIFF image"),
    (0, b"8BPS\x00\x01", "a Photoshop image"),
    (0, b"PK\x05\x06\x00\x00", "an empty zip archive"),
    (0, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an old office document"),
    (0, b"SQLite format 3\x00", "an SQLite database"),
    (0, b"\x37\x7f\x06\x82", "an SQLite write-ahead log"),
    (0, b"\x37\x7f\x06\x83", "an SQLite write-ahead log"),
    (0, b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7", "an SQLite journal"),
    (0, b"\x00\x01\x00\x00Standard ", "an Access database"),
    (12, b"\x62\x31\x05\x00", "a Berkeley database"),
    (0, b"\x7fELF\x01", "an executable"),
    (0, b"\x7fELF\x02", "an executable"),
    (0, b"\xca\xfe\xba\xbe", "an executable"),
    (0, b"\xfe\xed\xfa\xce", "an executable"),
    (0, b"\xfe\xed\xfa\xcf", "an executable"),
    (0, b"\xce\xfa\xed\xfe", "an executable"),
    (0, b"\xcf\xfa\xed\xfe", "an executable"),
    (0, b"\x00asm", "a WebAssembly module"),
    (0, b"Obj\x01", "an Avro file"),
    (0, b"ARROW1\x00\x00", "an Arrow file"),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (0, b"\x93NUMPY", "a NumPy array"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (0, b"Rar!\x1a\x07", "a RAR archive"),
    (257, b"ustar\x00", "a tar archive"),
    (257, b"ustar  \x00", "a tar archive"),
    (0, b"MSCF\x00\x00\x00\x00", "a cabinet archive"),
    (0, b"\xed\xab\xee\xdb", "an RPM package"),
    (0, b"!<arch>\n", "an ar archive"),
    (0, b"\x1f\x9d", "a compress (.Z) file"),
    (0, b"\x1aE\xdf\xa3", "a video file"),
    (0, b"\x00\x00\x01\xba", "a video file"),
    (0, b"\x00\x00\x01\xb3", "a video file"),
    (0, b"OggS\x00", "an audio or video file"),
    (0, b"\xd4\xc3\xb2\xa1", "a packet capture"),
    (0, b"\xa1\xb2\xc3\xd4", "a packet capture"),
    (0, b"\x0a\x0d\x0d\x0a", "a packet capture"),
)
# Signatures in letters or numbers that a text may hold too: believed beside bytes of no text.
_DOUBTFUL: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(expression, re.DOTALL), kind)
    for expression, kind in (
        (rb"GIF8[79]a", "a GIF image"),
        (rb"RIFF.{4}WEBP", "a WebP image"),
        (rb"RIFF.{4}(WAVE|AVI )", "an audio or video file"),
        (rb"\x00\x00[\x01\x02]\x00[^\x00]\x00", "an icon"),
        (rb"BM.{4}\x00{4}.{4}[\x0c\x28\x34\x38\x40\x6c\x7c]\x00\x00\x00", "a bitmap image"),
        (rb"MZ", "an executable"),
        (rb"PAR[1E]", "a Parquet file"),
        (rb"ORC", "an ORC file"),
        (rb"FEA1", "a Feather file"),
        (rb".{8}DUCK", "a DuckDB database"),
        (rb"REDIS\d{4}", "a Redis database"),
        (rb"LPKSHHRH", "a systemd journal"),
        (rb"\x00\x00\x00.ftyp(avif|avis|heic|heix|mif1|msf1)", "an image"),
        (rb"\x00\x00\x00.ftyp", "an audio or video file"),
        (rb"ID3[\x02-\x04]", "an audio file"),
        (rb"\xff[\xfb\xf3\xf2][^\xf0-\xff]", "an audio file"),
        (rb"fLaC", "an audio file"),
        (rb"(wOFF|wOF2|OTTO)", "a font"),
    )
)
_OFFICE = (".docx", ".xlsx", ".pptx", ".docm", ".xlsm", ".pptm", ".odt", ".ods", ".odp", ".epub")
_COMPRESSIONS: tuple[tuple[re.Pattern[bytes], Compression], ...] = (
    (re.compile(rb"\x1f\x8b\x08"), "gzip"),
    (re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"), "zstd"),
    (re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"), "bzip2"),
    (re.compile(rb"\xfd7zXZ\x00"), "xz"),
    (re.compile(rb"\x04\x22\x4d\x18"), "lz4"),
)


def unsupported_kind(head: bytes, name: str) -> str | None:
    """Return what a file is that holds no records, as a short phrase; None when it may hold some.

    `head` is the first bytes of the file, 4 KiB are plenty; `name` only chooses between phrases.
    """
    if head.startswith(b"PK\x03\x04"):
        office = name.casefold().endswith(_OFFICE) or b"[Content_Types].xml" in head[:4096]
        return "an office document" if office or b"mimetypeapplication/" in head[:128] else "a zip archive"
    if re.match(rb"%PDF-\d\.\d\s", head):
        return "a PDF document"
    for at, signature, kind in _CERTAIN:
        if head.startswith(signature, at):
            return kind
    if head[:64].translate(None, _CONTROL) != head[:64]:
        for expression, kind in _DOUBTFUL:
            if expression.match(head):
                return kind
    return None


def compression(head: bytes) -> Compression | None:
    """Return the compression of a file by its magic, None for a plain one."""
    return next((name for expression, name in _COMPRESSIONS if expression.match(head)), None)


def looks_binary(head: bytes) -> bool:
    """Return whether bytes hold what no text does; UTF-16 and UTF-32 are text, a stray NUL is data.

    NULs at either end and long runs of them are left out: a crash or a truncation under an open writer
    leaves them behind.
    """
    sample = head.rstrip(b"\x00")[:SAMPLE_BYTES]
    if not sample:
        return bool(head)
    if sample.startswith((b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")) or _wide(sample):
        return False
    sample = _NULS.sub(b"", head.strip(b"\x00"))[:SAMPLE_BYTES]
    odd = len(sample) - len(sample.translate(None, _CONTROL))
    if odd * 50 <= len(sample):
        return False
    return odd >= 8 or odd * 3 > len(sample) or (odd > 1 and not _utf8(sample))


def _wide(sample: bytes) -> bool:
    """Return whether NULs stand as in UTF-16 or UTF-32 of mostly Latin text, in whichever byte order."""
    if len(sample) <= 8:
        return False
    nul = [lane.count(0) / len(lane) for lane in (sample[start::4] for start in range(4))]
    shape = "".join("0" if share > 0.9 else "x" if share < 0.1 else "?" for share in nul)
    return shape in {"x0x0", "0x0x", "x000", "000x"}


def _utf8(sample: bytes) -> bool:
    """Return whether bytes are UTF-8, but for a character cut at the end."""
    try:
        sample.decode("utf-8")
    except UnicodeDecodeError as problem:
        return problem.start >= len(sample) - 3 and problem.reason == "unexpected end of data"
    return True
