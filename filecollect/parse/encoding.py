"""Which encoding a file's bytes are in, decided on its first bytes; and what becomes of undecodable ones.

Order: a byte order mark (it outweighs what the user said), what the user said, the NUL pattern of
UTF-16 and UTF-32, strict UTF-8 (a last character may be cut), then the statistics of chardetng for
legacy encodings. A file that is UTF-8 but for a few broken bytes stays UTF-8: its broken records are
quarantined, instead of all others read wrong.

Read are UTF-16 and UTF-32 in either byte order, and every encoding in which ASCII characters are
their own bytes. In some of these (CP932, GBK, Big5) a byte like `|` or `\\` can be half of another
character, so nothing but line ends is ever looked for before decoding. Encodings with shift sequences
(ISO-2022, HZ, UTF-7) are refused: a line of them cannot be read without all lines before it.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

import chardetng_py  # type: ignore[import-untyped]

from filecollect.errors import Unsupported
from filecollect.parse.lineends import BOMS, bom_length, unit_of

_SUPERSETS = {
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gbk": "gb18030",
    "gb2312": "gb18030",
    "utf-8-sig": "utf-8",
    "utf-16": "utf-16-le",
    "utf-32": "utf-32-le",
}
"""Codecs that decode the same text and more: what the web (and chardetng) means by these names."""
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_ASCII = bytes(range(128))
_SHIFTING = ("iso2022", "hz", "utf-7")
_WIDE_SAMPLE = 8192
_ODD = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffd\ufffe\uffff]")
_CONTROL = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
_HINT = "convert it to UTF-8, for example with iconv"
_MOST_SHOWN = 32


def usable_encoding(name: str) -> str:
    """Return the codec to use for an encoding; raise Unsupported for one that is not read."""
    try:
        codec = codecs.lookup(name).name
        codec = _SUPERSETS.get(codec, codec)
        if unit_of(codec) > 1:
            return codec
        # Codecs with shift sequences read ASCII as it is until one comes.
        transparent = not codec.startswith(_SHIFTING) and _ASCII.decode(codec) == _ASCII.decode("ascii")
    except (LookupError, UnicodeError, TypeError, ValueError):
        transparent = False
    if not transparent:
        raise Unsupported(f"{name} text is not read by this version", hint=_HINT)
    return codec


def marked_encoding(data: bytes) -> str | None:
    """Return the encoding whose byte order mark `data` begins with."""
    return next((encoding for bom, encoding in BOMS if data.startswith(bom)), None)


def may_become_mark(data: bytes) -> bool:
    """Return whether more bytes could make `data` begin with a byte order mark, or with a longer one."""
    return any(len(data) < len(bom) and bom.startswith(data) for bom, _ in BOMS)


def decide_encoding(head: bytes, wanted: str | None) -> tuple[str, str]:
    """Return the codec and one sentence why; raise Unsupported for encodings that are not read."""
    marked = marked_encoding(head)
    if marked is not None:
        return marked, f"encoding {marked.upper()}: it begins with a byte order mark"
    if wanted is not None:
        codec = usable_encoding(wanted)
        found = wide_encoding(head) if codecs.lookup(wanted).name in ("utf-16", "utf-32") else None
        return found or codec, f"encoding {wanted}: as asked for"
    wide = wide_encoding(head)
    if wide is not None:
        return wide, f"encoding {wide.upper()}: NUL bytes stand where it has them"
    if head.isascii():
        return "utf-8", "encoding UTF-8: all of the sample is ASCII"
    if _is_utf8(head):
        return "utf-8", "encoding UTF-8: all of the sample is valid"
    whole = len(_MULTIBYTE.findall(head))
    broken = sum(map((0x80).__le__, _MULTIBYTE.sub(b"", head)))
    if whole >= 10 * broken:
        return "utf-8", f"encoding UTF-8: {whole} characters of the sample are valid, {broken} bytes are not"
    codec = usable_encoding(chardetng_py.detect(head))
    return codec, f"encoding {codec}: the sample is not UTF-8, and looks most like it"


def _is_utf8(head: bytes) -> bool:
    try:
        # Not the last step: a character may be cut by the sample's end.
        codecs.getincrementaldecoder("utf-8")("strict").decode(head, final=False)
    except UnicodeDecodeError:
        return False
    return True


def wide_encoding(head: bytes) -> str | None:
    """Return UTF-16 or UTF-32 without a byte order mark, told by where NUL bytes stand; None for neither.

    Also text without Latin letters has line ends, digits or blanks, whose other byte is NUL.
    """
    sample = head[:_WIDE_SAMPLE]
    lanes = [sample[start::4].count(0) for start in range(4)]
    quarter = len(sample) // 4
    if quarter and lanes[2] >= 0.9 * quarter and lanes[3] >= 0.9 * quarter and not lanes[0]:
        return _confirmed("utf-32-le", sample)
    if quarter and lanes[0] >= 0.9 * quarter and lanes[1] >= 0.9 * quarter and not lanes[3]:
        return _confirmed("utf-32-be", sample)
    even, odd = lanes[0] + lanes[2], lanes[1] + lanes[3]
    half = len(sample) // 2
    if half < 2 or max(even, odd) < max(2, 0.02 * half) or min(even, odd) > 0.1 * max(even, odd):
        return None
    if max(even, odd) < 0.3 * half and not _CONTROL.search(sample) and _is_utf8(sample):
        # ASCII with a NUL here and there; in UTF-16 other letters would look like control characters.
        return None
    return _confirmed("utf-16-le" if odd > even else "utf-16-be", sample)


def _confirmed(codec: str, sample: bytes) -> str | None:
    """Return the codec if the sample is text in it: a few NULs in other text are data."""
    text = sample[: len(sample) - len(sample) % unit_of(codec)].decode(codec, "replace")
    return codec if len(_ODD.findall(text[:-1])) <= 0.02 * len(text) else None


def sample_text(head: bytes, encoding: str) -> tuple[str, str]:
    """Return the text of a file's first bytes, and `\\r` or `\\n` as what ends its lines.

    Good enough to look at, not to store: a byte order mark is left out, lines end in `\\n` whatever they
    end in, and a lone `\\r` between such lines is a blank.
    """
    data = head[bom_length(head, 0, encoding) :]
    text = data[: len(data) - len(data) % unit_of(encoding)].decode(encoding, "replace")
    if "\n" not in text and "\r" in text[:-1]:
        return text.replace("\r", "\n"), "\r"
    return text.replace("\r\n", "\n").replace("\r", " "), "\n"


def decoded(
    lines: Sequence[bytes], encoding: str, errors: str
) -> tuple[list[str], dict[int, tuple[str, str]], dict[int, str]]:
    """Return the texts of lines, sentences that refuse the undecodable ones, and what was replaced.

    With `errors` "quarantine" an undecodable line is refused by position (and has an empty text), with
    "replace" its bad bytes become U+FFFD and are returned in hex by position.
    """
    newline = "\n".encode(encoding)
    try:
        texts = newline.join(lines).decode(encoding).split("\n")
        if len(texts) == len(lines):
            return texts, {}, {}
    except UnicodeDecodeError:
        pass
    texts, bad, replaced = [], {}, {}
    for index, line in enumerate(lines):
        try:
            texts.append(line.decode(encoding))
        except UnicodeDecodeError as problem:
            if errors == "replace":
                text, replaced[index] = replace_undecodable(line, encoding)
                texts.append(text)
                continue
            texts.append("")
            bad[index] = ("bad_encoding", encoding_message(problem))
    return texts, bad, replaced


def encoding_message(problem: UnicodeDecodeError) -> str:
    """Return the sentence that refuses undecodable bytes."""
    found = problem.object[problem.start : problem.end][:8].hex(" ")
    return f"the bytes {found} at position {problem.start} of the record are not {problem.encoding}"


def replace_undecodable(raw: bytes, encoding: str) -> tuple[str, str]:
    """Return the text of a record with U+FFFD for what cannot be decoded, and the first such bytes in hex."""
    pieces: list[str] = []
    found: list[str] = []
    while len(found) < _MOST_SHOWN:
        try:
            pieces.append(raw.decode(encoding))
            return "".join(pieces), " ".join(found)
        except UnicodeDecodeError as problem:
            pieces += [raw[: problem.start].decode(encoding), "\ufffd"]
            found.append(raw[problem.start : problem.end].hex())
            raw = raw[problem.end :]
    return "".join(pieces) + raw.decode(encoding, "replace"), f"{' '.join(found)} ..."
