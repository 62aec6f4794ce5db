"""Where JSON values begin and end, without reading them: brackets are paired outside of strings.

A line end inside a string is never JSON, so it closes the string here: a quote that is missing cannot
swallow more than its line, and the decoder refuses the record. Which bracket closes which is left
to the decoder, too.

All positions are those of a scan: bytes in which every ASCII character stands for itself and nothing
else looks like one. For UTF-8 and single-byte encodings that is the content as it is; in UTF-16 and
UTF-32 it has one byte for each code unit, and in CP932, GBK and their like two-byte characters are
masked, because their second byte may look like a bracket.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal

from filecollect.parse.lineends import LineEnds

_STRING = rb'"(?:[^"\\\n]++|\\[^\n])*+"'
_NO_BRACKET = rb'[^"{}\[\]]++|' + _STRING
_REGEX_LEVELS = 6


def _nested(levels: int) -> bytes:
    inner = rb"[{\[](?:" + _NO_BRACKET + rb")*+[}\]]"
    for _ in range(levels):
        inner = rb"[{\[](?:" + _NO_BRACKET + rb"|" + inner + rb")*+[}\]]"
    return inner


BETWEEN = re.compile(rb"[\s,\x1e]*+")
"""What stands between values: blanks, commas, and the record separators of RFC 7464."""
_BRACKETED = re.compile(_nested(_REGEX_LEVELS))
_QUOTED = re.compile(_STRING)
_SCALAR = re.compile(rb"(?:-?[0-9][0-9.eE+-]*+|true|false|null)(?=[\s,\]}\x1e]|\Z)")
_JUNK = re.compile(rb"[^\n{][^\n,{\]]*+")
_JUNK_STOP = re.compile(rb"[\n,{\]]")
_NEXT = re.compile(rb'["{}\[\]]')
_IN_STRING = re.compile(rb'["\\\n]')
_BLANKS = re.compile(rb"[ \t\r\n]*+")
_COLON = re.compile(rb"[ \t\r\n]*+:[ \t\r\n]*+")
_TOKEN = re.compile(rb'[{\[]|[}\]]|"(?:[^"\\\n]++|\\[^\n])*+("|\\?\n|\\?\Z)')

_EXCHANGE = bytes.maketrans(b"\r\n", b"\n\r")
_LEADS = {
    "cp932": rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]",
    "shift": rb"[\x81-\x9f\xe0-\xfc][\x40-\x7e\x80-\xfc]",
    "gb180": rb"[\x81-\xfe][\x30-\x39\x40-\x7e\x80-\xfe]",
    "big5": rb"[\x81-\xfe][\x40-\x7e\xa1-\xfe]",
    "big5h": rb"[\x81-\xfe][\x40-\x7e\xa1-\xfe]",
    "cp950": rb"[\x81-\xfe][\x40-\x7e\xa1-\xfe]",
    "johab": rb"[\x84-\xf9][\x31-\x7e\x81-\xfe]",
}
"""Two-byte characters whose second byte may be ASCII, by the first letters of the codec."""


class Scan:
    """Makes the scan of content in one encoding."""

    def __init__(self, ends: LineEnds, encoding: str) -> None:
        self.unit = ends.unit
        self._encoding = encoding
        two = _LEADS.get(encoding[:5])
        self._two = None if two is None else re.compile(two, re.DOTALL)
        self.masks = two is not None
        self._swap = ends.newline == "\r"

    def of(self, data: bytes) -> bytes:
        """Return the scan of `data`; half a code unit at its end is left out."""
        scan = data
        if self._two is not None:
            scan = self._two.sub(b"xx", data)
        elif self.unit > 1:
            scan = self._narrow(data[: len(data) - len(data) % self.unit])
        return scan.translate(_EXCHANGE) if self._swap else scan

    def _narrow(self, data: bytes) -> bytes:
        try:
            scan = data.decode(self._encoding).encode("latin-1", "replace")
        except UnicodeDecodeError:
            scan = b""
        if len(scan) * self.unit == len(data):
            return scan
        # Characters of two units, or undecodable ones: unit by unit.
        order: Literal["little", "big"] = "little" if self._encoding.endswith("le") else "big"
        units = (int.from_bytes(data[at : at + self.unit], order) for at in range(0, len(data), self.unit))
        return bytes(unit if unit < 256 else 0x3F for unit in units)


def value_end(scan: bytes, start: int) -> int:
    """Return where the value that begins at `start` ends, -1 when the scan ends first, -2 when none begins.

    A number or word that ends with the scan is returned as it is: it may go on.
    """
    first = scan[start : start + 1]
    if first in (b"{", b"["):
        match = _BRACKETED.match(scan, start)
        return match.end() if match is not None else _walk(scan, start)
    if first == b'"':
        match = _QUOTED.match(scan, start)
        if match is not None:
            return match.end()
        return -2 if scan.find(b"\n", start) >= 0 else -1
    match = _SCALAR.match(scan, start)
    return match.end() if match is not None else -2


def junk_end(scan: bytes, start: int) -> int:
    """Return where what is no JSON ends: before a line end, a comma or the next object, -1 when the scan ends first."""
    match = _JUNK.match(scan, start)
    assert match is not None
    return match.end() if match.end() < len(scan) else -1


def _walk(scan: bytes, start: int) -> int:
    depth = 0
    for token in _TOKEN.finditer(scan, start):
        first = scan[token.start()]
        if first in b"{[":
            depth += 1
        elif first in b"}]":
            depth -= 1
            if depth == 0:
                return token.end()
    return -1


_State = Callable[["JsonSkip", bytes, int], tuple[int, Any]]
"""A step of `JsonSkip`: from a position to the next one and what to do there, None at the end."""


class JsonSkip:
    """Finds the end of a value too long to be held, with what stands before it, piece by piece."""

    def __init__(self, scan: Scan) -> None:
        self._scan = scan
        self._rest = b""
        self._state: _State = _skip_between
        self.depth = 0
        self.lines = 0

    def feed(self, data: bytes) -> int:
        """Return the position in `data` after the value, -1 while it goes on."""
        kept = len(self._rest)
        whole = self._rest + data
        scan = self._scan.of(whole)
        if self._scan.masks and scan[-1:] >= b"\x80":
            # The first half of a character.
            scan = scan[:-1]
        position = 0
        state: _State | None = self._state
        while position < len(scan) and state is not None:
            position, state = state(self, scan, position)
        self.lines += scan.count(b"\n", 0, position)
        if state is None:
            return position * self._scan.unit - kept
        self._rest = whole[position * self._scan.unit :]
        self._state = state
        return -1


def _skip_between(skip: JsonSkip, scan: bytes, position: int) -> tuple[int, _State | None]:
    end = BETWEEN.match(scan, position).end()  # type: ignore[union-attr]
    if end == len(scan):
        return end, _skip_between
    return (end, _skip_nested) if scan[end] in b'{["' else (end + 1, _skip_junk)


def _skip_nested(skip: JsonSkip, scan: bytes, position: int) -> tuple[int, _State | None]:
    token = _NEXT.search(scan, position)
    if token is None:
        return len(scan), _skip_nested
    if token[0] == b'"':
        return token.end(), _skip_string
    skip.depth += 1 if token[0] in b"{[" else -1
    return token.end(), _skip_nested if skip.depth > 0 else None


def _skip_string(skip: JsonSkip, scan: bytes, position: int) -> tuple[int, _State | None]:
    token = _IN_STRING.search(scan, position)
    if token is None:
        return len(scan), _skip_string
    if token[0] == b"\\":
        return token.end(), _skip_escaped
    if skip.depth:
        return token.end(), _skip_nested
    return (token.end(), None) if token[0] == b'"' else (token.start(), None)


def _skip_escaped(skip: JsonSkip, scan: bytes, position: int) -> tuple[int, _State | None]:
    return position + (scan[position] != 10), _skip_string


def _skip_junk(skip: JsonSkip, scan: bytes, position: int) -> tuple[int, _State | None]:
    token = _JUNK_STOP.search(scan, position)
    return (len(scan), _skip_junk) if token is None else (token.start(), None)


def members(text: bytes) -> list[tuple[bytes, bytes]]:
    """Return the keys (still in quotes) and values of an object, as written; `text` must be valid JSON."""
    found = []
    at = _BLANKS.match(text, text.index(b"{") + 1).end()  # type: ignore[union-attr]
    while text[at : at + 1] == b'"':
        key_end = _QUOTED.match(text, at).end()  # type: ignore[union-attr]
        start = _COLON.match(text, key_end).end()  # type: ignore[union-attr]
        end = value_end(text, start)
        found.append((text[at:key_end], text[start:end]))
        at = BETWEEN.match(text, end).end()  # type: ignore[union-attr]
    return found
