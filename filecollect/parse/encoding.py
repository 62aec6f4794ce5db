"""Which encoding a file's bytes are in, decided on its first bytes.

Order: what the user said, a byte order mark, the NUL pattern of UTF-16, strict UTF-8 (a last character
may be cut), then the statistics of chardetng for legacy encodings. A file that is UTF-8 but for a few
broken bytes stays UTF-8: its broken records are quarantined, instead of all others read wrong.

Only encodings in which every ASCII byte stands for itself are read: there a byte `\\n` is always a line
end, so byte offsets of records are exact.
"""

from __future__ import annotations

import codecs
import re

import chardetng_py  # type: ignore[import-untyped]

from filecollect.errors import Unsupported
from filecollect.parse.framing import UTF8_BOM

_WIDE_BOMS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_SUPERSETS = {"shift_jis": "cp932", "euc_kr": "cp949", "gbk": "gb18030", "gb2312": "gb18030", "utf-8-sig": "utf-8"}
"""Codecs that decode the same text and more: what the web (and chardetng) means by these names."""
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_ASCII = bytes(range(128))
_SHIFTING = ("iso2022", "hz", "utf-7")
_HINT = "convert it to UTF-8, for example with iconv"


def usable_encoding(name: str) -> str:
    """Return the codec to use for an encoding; raise Unsupported for one that is not read."""
    try:
        codec = codecs.lookup(name).name
        codec = _SUPERSETS.get(codec, codec)
        # Codecs with shift sequences read ASCII as it is until one comes.
        transparent = not codec.startswith(_SHIFTING) and _ASCII.decode(codec) == _ASCII.decode("ascii")
    except (LookupError, UnicodeError, TypeError, ValueError):
        transparent = False
    if not transparent:
        raise Unsupported(f"{name} text is not read by this version", hint=_HINT)
    return codec


def decide_encoding(head: bytes, wanted: str | None) -> tuple[str, str]:
    """Return the codec and one sentence why; raise Unsupported for UTF-16 and UTF-32."""
    for bom, name in _WIDE_BOMS:
        if head.startswith(bom):
            raise Unsupported(f"{name} text is not read by this version (told by its byte order mark)", hint=_HINT)
    if wanted is not None:
        return usable_encoding(wanted), f"encoding {wanted}: as asked for"
    if head.startswith(UTF8_BOM):
        return "utf-8", "encoding UTF-8: it begins with a byte order mark"
    if _looks_wide(head):
        raise Unsupported("UTF-16 text is not read by this version (every other byte is NUL)", hint=_HINT)
    if head.isascii():
        return "utf-8", "encoding UTF-8: all of the sample is ASCII"
    try:
        # Not the last step: a character may be cut by the sample's end.
        codecs.getincrementaldecoder("utf-8")("strict").decode(head, final=False)
    except UnicodeDecodeError:
        pass
    else:
        return "utf-8", "encoding UTF-8: all of the sample is valid"
    whole = len(_MULTIBYTE.findall(head))
    broken = sum(map((0x80).__le__, _MULTIBYTE.sub(b"", head)))
    if whole >= 10 * broken:
        return "utf-8", f"encoding UTF-8: {whole} characters of the sample are valid, {broken} bytes are not"
    codec = usable_encoding(chardetng_py.detect(head))
    return codec, f"encoding {codec}: the sample is not UTF-8, and looks most like it"


def _looks_wide(head: bytes) -> bool:
    even, odd = head[0:4000:2].count(0), head[1:4000:2].count(0)
    half = min(len(head), 4000) // 2
    return half >= 2 and max(even, odd) >= 0.7 * half and min(even, odd) <= 0.1 * half
