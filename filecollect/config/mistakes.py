"""Where a setting stands in the TOML text, and how its mistake is written down.

tomllib keeps no positions, so `key_lines` scans a text that tomllib has already accepted and maps
every key path to its 1-based line. It follows the grammar of TOML 1.0 (dotted keys, quoted keys,
inline tables, arrays, arrays of tables, multi-line strings) but checks nothing: should it ever meet
something unknown, it stops and the rest of the paths get the line of their nearest known parent.
It never raises and never decides whether a config is right.
"""

from __future__ import annotations

import json
import re
import tomllib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

Path = tuple[str | int, ...]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_SCALAR = re.compile(r"[^,\]}#\r\n]+")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Mistake:
    """One wrong setting: its key path and the rest of the sentence, `expected ..., got ...`."""

    at: Path
    text: str


class _Lost(Exception):
    """The text is not what the scanner knows."""


class _Scanner:
    """One pass over an accepted TOML text, noting the line of every key."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.lines: dict[Path, int] = {}
        self._last: dict[Path, int] = {}  # array of tables -> index of its newest element
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def document(self) -> None:
        table: Path = ()
        while self._peek(_BLANK):
            if self._at("[["):
                table = self._header("[[", "]]", is_array=True)
            elif self._at("["):
                table = self._header("[", "]", is_array=False)
            else:
                self._pair(table)

    def _header(self, opening: str, closing: str, *, is_array: bool) -> Path:
        line = self._line()
        self._take(opening)
        keys = self._key()
        self._take(closing)
        path: Path = ()
        for depth, key in enumerate(keys, start=1):
            path = (*path, key)
            if depth < len(keys):
                self.lines.setdefault(path, line)
            elif is_array:
                self.lines.setdefault(path, line)
                self._last[path] = self._last.get(path, -1) + 1
            else:
                self.lines[path] = line
            if path in self._last:
                path = (*path, self._last[path])
                if depth == len(keys):
                    self.lines[path] = line
        return path

    def _pair(self, table: Path) -> None:
        line = self._line()
        path = table
        keys = self._key()
        for key in keys:
            path = (*path, key)
            self.lines.setdefault(path, line)
        self._take("=")
        self._value(path)

    def _value(self, path: Path) -> None:
        self._peek(_SPACE)
        if self._at("["):
            self._array(path)
        elif self._at("{"):
            self._inline_table(path)
        elif not self._skip(_STRING) and not self._skip(_SCALAR):
            raise _Lost

    def _array(self, path: Path) -> None:
        self._take("[")
        index = 0
        while self._peek(_BLANK) and not self._at("]"):
            element = (*path, index)
            self.lines[element] = self._line()
            self._value(element)
            index += 1
            self._comma("]")
        self._take("]")

    def _inline_table(self, path: Path) -> None:
        self._take("{")
        while self._peek(_BLANK) and not self._at("}"):
            self._pair(path)
            self._comma("}")
        self._take("}")

    def _comma(self, closing: str) -> None:
        self._peek(_BLANK)
        if not self._at(closing):
            self._take(",")

    def _key(self) -> list[str]:
        keys = [self._one_key()]
        while self._peek(_SPACE) and self._at("."):
            self._take(".")
            keys.append(self._one_key())
        return keys

    def _one_key(self) -> str:
        self._peek(_SPACE)
        start = self.position
        if not self._skip(_BARE) and not self._skip(_STRING):
            raise _Lost
        written = self.text[start : self.position]
        return str(tomllib.loads(f"k = {written}")["k"]) if written[0] in "\"'" else written

    def _line(self) -> int:
        return bisect_right(self._starts, self.position)

    def _at(self, what: str) -> bool:
        return self.text.startswith(what, self.position)

    def _take(self, what: str) -> None:
        self._peek(_SPACE)
        if not self._at(what):
            raise _Lost
        self.position += len(what)

    def _skip(self, pattern: re.Pattern[str]) -> bool:
        match = pattern.match(self.text, self.position)
        if match is None:
            return False
        self.position = match.end()
        return True

    def _peek(self, blank: re.Pattern[str]) -> bool:
        """Pass over what `blank` matches; return whether any text is left."""
        self._skip(blank)
        return self.position < len(self.text)


def key_lines(text: str) -> dict[Path, int]:
    """Return the 1-based line of every key path and array element of a valid TOML text."""
    scanner = _Scanner(text)
    # A coarser line is better than no message.
    with suppress(_Lost, tomllib.TOMLDecodeError, RecursionError):
        scanner.document()
    return scanner.lines


def line_of(lines: Mapping[Path, int], at: Path) -> int | None:
    """Return the line of `at`, or of its nearest parent that stands in the text."""
    for length in range(len(at), 0, -1):
        if at[:length] in lines:
            return lines[at[:length]]
    return None


def dotted(at: Sequence[str | int]) -> str:
    """Return a key path as written in TOML: `source."my logs".paths[0]`."""
    text = ""
    for key in at:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += ("." if text else "") + (key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False))
    return text


def sentences(mistakes: Sequence[Mistake], shown: str, lines: Mapping[Path, int]) -> list[str]:
    """Return `FILE:LINE KEY: expected ..., got ...` for each mistake, in the order of the file."""
    places = [(line_of(lines, mistake.at), mistake) for mistake in mistakes]
    places.sort(key=lambda place: (place[0] or 0, [key for key in place[1].at if isinstance(key, int)]))
    written = []
    for line, mistake in places:
        where = shown if line is None else f"{shown}:{line}"
        name = dotted(mistake.at)
        written.append(f"{where} {name}: {mistake.text}" if name else f"{where}: {mistake.text}")
    return list(dict.fromkeys(written))
