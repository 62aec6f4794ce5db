"""Compressed formats, one module each; a further one is a module and a line in this table."""

from __future__ import annotations

from filecollect.files.codecs.api import Codec
from filecollect.files.codecs.gzip import Gzip
from filecollect.files.codecs.zstd import Zstd

CODECS: dict[str, type[Codec]] = {Gzip.name: Gzip, Zstd.name: Zstd}
SUFFIXES: dict[str, type[Codec]] = {".gz": Gzip, ".zst": Zstd}
"""The usual suffixes: only asked where a file is too short to show its magic."""
