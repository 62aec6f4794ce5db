"""What a file is by its first bytes, and that texts are not taken for anything else."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sqlite3
import struct
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from filecollect.files.magic import compression, looks_binary, unsupported_kind


def zipped(*members: str) -> bytes:
    """Return a zip archive with some empty members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for member in members:
            archive.writestr(
                zipfile.ZipInfo(member), "application/vnd.oasis.opendocument.text" if member == "mimetype" else ""
            )
    return out.getvalue()


def tarred() -> bytes:
    """Return a tar archive of one file."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.csv"))
    return out.getvalue()


PNG = b"\x89PNG\r\n\x1a\n" + bytes.fromhex("0000000d49484452")


@pytest.mark.parametrize(
    ("head", "name", "kind"),
    [
        (PNG, "a.png", "a PNG image"),
        (PNG, "a.csv", "a PNG image"),
        (b"\xff\xd8\xff\xe0\x00\x10JFIF\x00", "a.jpg", "a JPEG image"),
        (b"GIF89a\x01\x00\x01\x00\x80\x00\x00", "a.gif", "a GIF image"),
        (b"RIFF\x24\x00\x00\x00WEBPVP8 \x18\x00\x00\x00", "a.webp", "a WebP image"),
        (b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00", "a.wav", "an audio or video file"),
        (b"BM" + struct.pack("<IIII", 70, 0, 54, 40), "a.bmp", "a bitmap image"),
        (b"II*\x00\x08\x00\x00\x00", "a.tif", "a TIFF image"),
        (b"\x00\x00\x01\x00\x01\x00\x10\x10\x00\x00", "a.ico", "an icon"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "a.pdf", "a PDF document"),
        (zipped("[Content_Types].xml", "xl/workbook.xml"), "a", "an office document"),
        (zipped("x"), "a.XLSX", "an office document"),
        (zipped("mimetype", "content.xml"), "a", "an office document"),
        (zipped("a.csv"), "a.zip", "a zip archive"),
        (zipped(), "a.zip", "an empty zip archive"),
        (bytes.fromhex("d0cf11e0a1b11ae1"), "a.xls", "an old office document"),
        (b"\x37\x7f\x06\x82\x00\x2d\xe2\x18", "o.db-wal", "an SQLite write-ahead log"),
        (bytes.fromhex("d9d505f920a163d7"), "o.db-journal", "an SQLite journal"),
        (b"\x00" * 8 + b"DUCK\x40\x00\x00\x00", "a.duckdb", "a DuckDB database"),
        (b"LPKSHHRH\x00\x00\x00\x00", "system.journal", "a systemd journal"),
        (b"REDIS0011\xfa\tredis-ver\x057.2.4\xfe\x00", "dump.rdb", "a Redis database"),
        (b"MZ\x90\x00\x03\x00\x00\x00", "a.exe", "an executable"),
        (b"\xca\xfe\xba\xbe\x00\x00\x00\x41", "A.class", "an executable"),
        (b"\xcf\xfa\xed\xfe\x07\x00\x00\x01", "a", "an executable"),
        (b"\x00asm\x01\x00\x00\x00", "a.wasm", "a WebAssembly module"),
        (b"PAR1\x15\x04\x15\x10", "a.parquet", "a Parquet file"),
        (b"Obj\x01\x04\x16avro.schema", "a.avro", "an Avro file"),
        (b"ORC\x0a\x03\x00\x00\x00", "a.orc", "an ORC file"),
        (b"7z\xbc\xaf\x27\x1c\x00\x04", "a.7z", "a 7z archive"),
        (b"Rar!\x1a\x07\x01\x00", "a.rar", "a RAR archive"),
        (tarred(), "a.tar", "a tar archive"),
        (b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00", "a.mp4", "an audio or video file"),
        (b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00", "a.heic", "an image"),
        (b"ID3\x04\x00\x00\x00\x00\x00\x23", "a.mp3", "an audio file"),
        (b"fLaC\x00\x00\x00\x22", "a.flac", "an audio file"),
        (b"OggS\x00\x02\x00\x00", "a.ogg", "an audio or video file"),
        (b"\x1f\x9d\x90abc", "a.Z", "a compress (.Z) file"),
    ],
    ids=lambda value: value if isinstance(value, str) else "head",
)
def test_a_file_without_records_is_known(head: bytes, name: str, kind: str) -> None:
    """Headers written by hand from the formats' specifications, or by their own libraries."""
    assert unsupported_kind(head, name) == kind


def test_real_files_of_this_machine_are_known(tmp_path: Path) -> None:
    """A database and an executable that nobody made for the test."""
    database = sqlite3.connect(tmp_path / "a.db")
    database.execute("create table t(x)")
    database.close()
    assert unsupported_kind((tmp_path / "a.db").read_bytes()[:4096], "a.csv") == "an SQLite database"
    with open(sys.executable, "rb") as program:
        assert unsupported_kind(program.read(4096), "python") == "an executable"


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"B",
        b"BM,name\n1,2\n",
        b"MZ,country\nMZ,Mozambique\n",
        b"GIF89a,format\n1,2\n",
        b"PAR1,PAR2\n1,2\n",
        b"ORC,name\nORC,Orcus\n",
        b"ID3,tag\n",
        b"RIFF1234WAVE\n",
        b"xxxxftyp,brand\n",
        b"OggS,fLaC\n",
        b"REDIS0011 started\n",
        b"%PDF-files,count\n3,4\n",
        b"PK,value\n1,2\n",
        b"Obj,1\n",
        b"x" * 257 + b"ustar is a word here\n",
        b"BZh9 is how bzip2 begins\n",
        b"7z,rar\n",
        b"\xef\xbb\xbfid,name\n",
        "id,name\n1,ü\n".encode("utf-16"),
        "\ufeffid\n".encode("utf-32-be"),
        "ÿûò,x\n".encode("latin-1"),
    ],
)
def test_a_text_that_begins_like_a_signature_is_a_text(text: bytes) -> None:
    """Short signatures need more than their letters."""
    assert unsupported_kind(text, "a.csv") is None
    assert compression(text) is None
    assert not looks_binary(text)


def test_compressions_are_told_by_their_own_libraries_output() -> None:
    """Empty and filled; a zstd stream may begin with a skippable frame."""
    for data in (b"", b"a,b\n1,2\n"):
        assert compression(gzip.compress(data)) == "gzip"
        assert compression(bz2.compress(data)) == "bzip2"
        assert compression(lzma.compress(data)) == "xz"
        assert compression(zstandard.compress(data)) == "zstd"
    assert compression(b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd") == "zstd"
    assert compression(b"\x04\x22\x4d\x18\x64\x40\xa7") == "lz4"
    assert compression(b"\x1f\x8b") is None


@pytest.mark.parametrize(
    ("head", "binary"),
    [
        (bytes(range(256)), True),
        (bytes(range(128, 256)) + b"\x00\x02\x03" * 9, True),
        (b"\x02\x03\x04", True),
        (b"\x00" * 100, True),
        (b"a,b\n1,\x00\n", False),
        (b"a,b\n1,2\n" + b"\x00" * 5000, False),
        (b"\x00" * 5000 + b"a,b\n1,2\n", False),
        (b"8=FIX.4.2\x019=65\x0135=A\x0149=B\x01", False),
        (b"\x1e{}\n\x1e{}\n\x1e{}\n", False),
        (b"\x1b[31mred\x1b[0m\n", False),
        (b"a\tb\r\n\x0c\x1a", False),
        ("größe;straße\n".encode("latin-1") * 9, False),
        ("日本語,テキスト\n".encode("shift-jis") * 9, False),
        ("日本語,テキスト\n".encode("euc-jp") * 9, False),
        ("id,name\n1,two\n".encode("utf-16-le"), False),
        ("id,name\n1,two\n".encode("utf-16-be"), False),
        ("id,name\n1,two\n".encode("utf-32-le"), False),
        ("id,name\n1,two\n".encode("utf-32-be"), False),
        ("日本語".encode("utf-16"), False),
    ],
)
def test_binary_content_is_told_from_every_text(head: bytes, binary: bool) -> None:
    """A stray NUL, separators of old formats, NUL runs at the ends and wide encodings are text."""
    assert looks_binary(head) is binary


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=200))
def test_no_text_without_control_characters_is_binary(text: str) -> None:
    """In UTF-8, and nothing about it looks like another kind of file."""
    assert not looks_binary(text.encode())
    assert unsupported_kind(text.encode(), "a.csv") is None or text.startswith(("%PDF-", "!<arch>"))


@given(st.binary(max_size=600))
def test_any_bytes_have_an_answer(head: bytes) -> None:
    """Nothing raises, at any length."""
    unsupported_kind(head, "x")
    compression(head)
    looks_binary(head)
