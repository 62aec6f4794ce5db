"""JSON lines: each line that is not blank is one JSON object.

Invariant: the fast way and the careful way give the same values. The fast way decodes each line into a
struct with exactly the columns and types of the layout; a line that it refuses, and a line whose
numbers it might round, goes the careful way: every value from its own text (`jsonvalue.py`).

Keys without a column and misfits of inferred columns go to `_extra` as they were. Of duplicate keys the
last one counts. Broken JSON, NaN and lone surrogates are `bad_json`, bytes that are not in the encoding
`bad_encoding`, valid JSON that is no object `not_an_object`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any

import msgspec

from filecollect.domain.columns import Column, Layout
from filecollect.parse.convert import LARGEST_INTEGER, MISFIT, SMALLEST_INTEGER
from filecollect.parse.framing import Built
from filecollect.parse.items import key_of
from filecollect.parse.jsonvalue import stored_json
from filecollect.parse.lines import decoded
from filecollect.parse.spec import Spec
from filecollect.parse.table import json_text, misfit_message

_Integer = Annotated[int, msgspec.Meta(ge=SMALLEST_INTEGER, le=LARGEST_INTEGER)]
_FAST_TYPES: dict[str, Any] = {
    "text": str | None,
    "integer": _Integer | None,
    "real": float | None,
    "boolean": bool | None,
}
"""The types of the fast way; values of other columns are kept as their own text there."""
_TO_SHAPE = bytes.maketrans(b"123456789.E", b"0000000000e")
_LONG_SHAPE = b"0" * 16
_TINY_SHAPE = b"0e-000"
_MAY_ROUND = re.compile(rb"(?=[0-9.]{17})[0-9]+\.[0-9]|[0-9]{16}[eE]|[0-9][eE]-[0-9]{3}")
_FIRST_INEXACT = 2.0**53
_KINDS = {'"': "a string", "[": "an array", "t": "a boolean", "f": "a boolean", "n": "null"}
_PROBLEMS = (msgspec.DecodeError, RecursionError)

_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def utf8_lines(lines: Sequence[bytes], encoding: str) -> tuple[Sequence[bytes], dict[int, tuple[str, str]]]:
    """Return lines in UTF-8; the undecodable ones are refused by position (and are empty)."""
    if encoding == "utf-8":
        try:
            b"\n".join(lines).decode()
        except UnicodeDecodeError:
            pass
        else:
            return lines, {}
    texts, bad = decoded(lines, encoding)
    return [text.encode() for text in texts], bad


def why_bad(line: bytes) -> tuple[str, str]:
    """Return the reason and the sentence for a line that is no JSON object."""
    try:
        text = bytes(_decode_raw(line)).decode().strip()
    except _PROBLEMS as problem:
        what = "it is nested too deeply" if isinstance(problem, RecursionError) else str(problem)
        return "bad_json", f"the line is not valid JSON: {what}"
    return "not_an_object", f"the line is JSON, but {_KINDS.get(text[0], 'a number')}, not an object"


def decode_object(line: bytes) -> dict[str, str] | tuple[str, str]:
    """Return the JSON text of each value of an object by key, or the reason and sentence why not."""
    try:
        return {key: bytes(value).decode() for key, value in _decode_object(line).items()}
    except _PROBLEMS:
        return why_bad(line)


class JsonTable:
    """Lines of JSON objects made into the columns of a typed table."""

    def __init__(self, layout: Layout) -> None:
        self._columns = layout.columns
        self._sources = {column.source_name for column in layout.columns}
        self._real = [index for index, column in enumerate(layout.columns) if column.base == "real"]
        self._fast = _fast_decoder(layout.columns)

    def build(self, lines: Sequence[bytes]) -> Built:
        """Return the columns; lines must be UTF-8."""
        careful: list[int] = []
        columns: list[list[object]]
        if self._fast is None:
            careful = list(range(len(lines)))
            columns = [[None] * len(lines) for _ in self._columns]
        else:
            columns = self._decode(lines, careful)
        built = Built(list(columns))
        for index in careful:
            self._careful(lines[index], index, columns, built)
        return built

    def _decode(self, lines: Sequence[bytes], careful: list[int]) -> list[list[object]]:
        """Return the columns of the lines that are as expected; the others are added to `careful`."""
        assert self._fast is not None
        decode, empty, names = self._fast
        structs: list[Any] = []
        for line in lines:
            try:
                structs.append(decode(line))
            except _PROBLEMS:
                careful.append(len(structs))
                structs.append(empty)
        columns: list[list[object]] = [list(map(attrgetter(name), structs)) for name in names]
        for place, column in enumerate(self._columns):
            if column.base not in _FAST_TYPES:
                columns[place] = self._from_text(column, columns[place], careful)
        if self._real:
            self._find_rounded(lines, columns, careful)
        return columns

    def _from_text(self, column: Column, values: Sequence[object], careful: list[int]) -> list[object]:
        """Return the stored values of texts of one column; lines with a misfit are added to `careful`."""
        found: list[object] = []
        misfits = set()
        for index, value in enumerate(values):
            text = "null" if value is None else bytes(value).decode()  # type: ignore[call-overload]
            stored = None if text == "null" else stored_json(column, text)
            if stored is MISFIT:
                misfits.add(index)
            found.append(stored)
        careful.extend(sorted(misfits.difference(careful)))
        return found

    def _find_rounded(self, lines: Sequence[bytes], columns: Sequence[Sequence[Any]], careful: list[int]) -> None:
        """Add the lines in which a float may not be the number that was written."""
        shape = b"\n".join(lines).translate(_TO_SHAPE)
        if _LONG_SHAPE not in shape and _TINY_SHAPE not in shape:
            return
        found = {index for index, line in enumerate(lines) if _MAY_ROUND.search(line)}
        for place in self._real:
            found.update(
                index
                for index, value in enumerate(columns[place])
                if value is not None and not -_FIRST_INEXACT < value < _FIRST_INEXACT
            )
        careful.extend(sorted(found.difference(careful)))

    def _careful(self, line: bytes, index: int, columns: Sequence[list[object]], built: Built) -> None:
        if not line.strip(b" \t\r"):
            built.blank.append(index)
            return
        values = decode_object(line)
        if isinstance(values, tuple):
            built.bad[index] = values
            return
        extra = {key: text for key, text in values.items() if key not in self._sources}
        for column, place in zip(self._columns, columns, strict=True):
            text = values.get(column.source_name, "null")
            value = None if text == "null" else stored_json(column, text)
            place[index] = None if value is MISFIT else value
            if value is MISFIT:
                if column.declared:
                    built.bad.setdefault(index, ("misfit", misfit_message(column, text)))
                extra[column.source_name] = text
                built.misfits.append((index, column.name))
        if extra:
            built.extras[index] = _object_text(extra)


def _object_text(values: dict[str, str]) -> str:
    members = ",".join(f"{json_text(key)}:{text}" for key, text in values.items())
    try:
        # Blanks of the line go, digits of numbers stay.
        return msgspec.json.format(f"{{{members}}}", indent=-1)
    except RecursionError:
        return f"{{{members}}}"


def _fast_decoder(columns: Sequence[Column]) -> tuple[Callable[[bytes], Any], Any, list[str]] | None:
    """Return a decoder into a struct, an empty struct and its fields; None for columns it cannot hold."""
    names = [f"f{index}" for index in range(len(columns))]
    sources = [column.source_name for column in columns]
    if not columns or len(set(sources)) < len(sources):
        return None
    fields = [
        (name, _FAST_TYPES.get(column.base, msgspec.Raw), None) for name, column in zip(names, columns, strict=True)
    ]
    try:
        struct = msgspec.defstruct(
            "Row", fields, rename=dict(zip(names, sources, strict=True)), forbid_unknown_fields=True, gc=False
        )
    except ValueError:
        # A key with a quote, a backslash or a control character.
        return None
    return msgspec.json.Decoder(struct).decode, struct(), names


class JsonItems:
    """Lines of JSON objects made into payloads and keys of items."""

    def __init__(self, layout: Layout) -> None:
        self._key = layout.key

    def build(self, lines: Sequence[bytes]) -> Built:
        """Return the payloads (the lines as written) and keys; lines must be UTF-8."""
        payloads: list[str] = []
        keys: list[str | None] = []
        built = Built([payloads, keys])
        for index, line in enumerate(lines):
            payloads.append(line.removesuffix(b"\r").decode())
            keys.append(None)
            if not line.strip(b" \t\r"):
                built.blank.append(index)
                continue
            values = decode_object(line)
            if isinstance(values, tuple):
                built.bad[index] = values
            elif self._key:
                keys[index], problem = key_of([values.get(name) for name in self._key], self._key)
                if problem is not None:
                    built.bad[index] = ("key_missing", problem)
        return built


class JsonLines:
    """The `jsonl` format."""

    name = "jsonl"

    def __init__(self, spec: Spec, layout: Layout) -> None:
        self._encoding = spec.encoding
        self._build = (JsonItems(layout) if layout.kind == "items" else JsonTable(layout)).build
        self.blank = re.compile(rb"(?:[ \t\r]{0,%d}+\n)++" % (spec.max_record_bytes - 1))

    def is_whole(self, line: bytes) -> bool:
        """Return whether an unterminated line is a complete object."""
        lines, bad = utf8_lines([line], self._encoding)
        return not bad and isinstance(decode_object(lines[0]), dict)

    def build(self, lines: Sequence[bytes]) -> Built:
        """Make values of lines."""
        texts, bad = utf8_lines(lines, self._encoding)
        built = self._build(texts)
        if bad:
            built.bad |= bad
            built.blank = [index for index in built.blank if index not in bad]
        return built
