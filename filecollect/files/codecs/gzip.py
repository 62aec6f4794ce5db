"""gzip (RFC 1952): members one after another; BGZF is the same with small members.

Header fields, CRC-32 and length are read and checked by the inflater. As with gzip(1), zeros may
follow a member. `isal`, where it is installed (extra `fast`), inflates about three times faster; it
has zlib's interface, so nothing else differs.
"""

from __future__ import annotations

import zlib
from typing import Any, ClassVar

from filecollect.files.codecs.api import Damaged, Decoded

try:
    from isal import isal_zlib

    inflaters: Any = isal_zlib
except ImportError:
    inflaters = zlib

_GZIP_FORMAT = 16 + zlib.MAX_WBITS


class Gzip:
    """The gzip format."""

    name: ClassVar[str] = "gzip"
    magic: ClassVar[bytes] = b"\x1f\x8b\x08"
    bytewise: ClassVar[bool] = True

    def gap(self, raw: bytes) -> int:
        """Return the number of zeros that `raw` begins with."""
        return len(raw) - len(raw.lstrip(b"\x00"))

    def decoder(self) -> _Member:
        """Return a decoder for the next member."""
        return _Member()


class _Member:
    """One member."""

    def __init__(self) -> None:
        self._inflater = inflaters.decompressobj(wbits=_GZIP_FORMAT)
        self._seen = b""

    def decode(self, raw: memoryview, most: int) -> Decoded:
        """Inflate at most `most` bytes."""
        if len(self._seen) < len(Gzip.magic):
            self._seen += raw[: len(Gzip.magic) - len(self._seen)]
            if not Gzip.magic.startswith(self._seen):
                raise Damaged("these bytes are no gzip member")
        try:
            content = self._inflater.decompress(raw, most)
        except inflaters.error as problem:
            raise Damaged(str(problem).rpartition(": ")[2] or "it cannot be inflated") from problem
        ended = self._inflater.eof
        # At the end an older unconsumed tail may still be standing there.
        left = self._inflater.unused_data if ended else self._inflater.unconsumed_tail
        return Decoded(content, len(raw) - len(left), ended)
