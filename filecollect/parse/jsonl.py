"""JSON lines: each line that is not blank is one JSON object.

Invariant: the fast way and the careful way give the same values. The fast way decodes each line into a
struct with exactly the columns and types of the layout; a line that it refuses, and a line whose
numbers it might round, goes the careful way: every value from its own text (`jsonvalue.py`).

Keys without a column and misfits of inferred columns go to `_extra` as they were. Of equal keys the last
one counts, and the others are kept in `_extra` (`jsonobject.py`). Broken JSON, NaN and lone surrogates are
`bad_json`, bytes that are not in the encoding `bad_encoding`, valid JSON that is no object
`not_an_object`, unless the spec is `bare`. A line that holds only the `[`, `,` or `]` of an array around
the lines is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, Any

import msgspec
from msgspec.structs import astuple

from filecollect.domain.columns import Column, Layout
from filecollect.parse.convert import LARGEST_INTEGER, MISFIT, SMALLEST_INTEGER, Reading
from filecollect.parse.encoding import decoded
from filecollect.parse.framing import Built
from filecollect.parse.items import key_of
from filecollect.parse.jsonobject import fields, is_punctuation, peeled
from filecollect.parse.jsonvalue import stored_json
from filecollect.parse.lineends import LineEnds
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
_PROBLEMS = (msgspec.DecodeError, RecursionError)
_QUOTE = b'"'
_SPARSE = 0.1


def utf8_lines(
    lines: Sequence[bytes], encoding: str, errors: str
) -> tuple[Sequence[bytes], dict[int, tuple[str, str]], dict[int, str]]:
    """Return lines in UTF-8; the undecodable ones are refused by position (and are empty), or replaced."""
    if encoding == "utf-8":
        try:
            b"\n".join(lines).decode()
        except UnicodeDecodeError:
            pass
        else:
            return lines, {}, {}
    texts, bad, replaced = decoded(lines, encoding, errors)
    return [text.encode() for text in texts], bad, replaced


class JsonTable:
    """JSON records made into the columns of a typed table."""

    def __init__(self, spec: Spec, layout: Layout) -> None:
        self._bare = spec.bare
        self._flatten = spec.flatten
        self._reading = Reading.of(spec)
        self._columns = layout.columns
        self._sources = {column.source_name for column in layout.columns}
        # With `flatten` the null of an object that is missing says nothing that its columns do not say.
        self._parents = {
            name[:at] for name in self._sources for at, one in enumerate(name) if one == "." and spec.flatten
        }
        self._texts = [index for index, column in enumerate(layout.columns) if column.base == "text"]
        self._real = [index for index, column in enumerate(layout.columns) if column.base == "real"]
        self._fast = None if spec.flatten else _fast_decoders(layout.columns)
        self._sparse = False

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
        """Return the columns of the lines that are as expected; the others are added to `careful`.

        The first decoder wants every key, and a string in every text column, so that the quotes in its
        lines are known; the second one lets keys be missing.
        """
        assert self._fast is not None
        full, loose, empty, names = self._fast
        structs: list[Any] = []
        loosely = 0
        decode = loose if self._sparse else full
        for line in lines:
            try:
                structs.append(decode(line))
            except _PROBLEMS:
                try:
                    structs.append(loose(line))
                    loosely += 1
                except _PROBLEMS:
                    careful.append(len(structs))
                    structs.append(empty)
        columns: list[list[object]] = [list(map(attrgetter(name), structs)) for name in names]
        known = len(lines) * (len(columns) + len(self._texts))
        if self._sparse or loosely or careful:
            known = self._without_missing(columns)
            self._sparse = self._sparse or loosely > _SPARSE * len(lines)
        joined = b"\n".join(lines)
        quotes = joined.count(_QUOTE) - sum(lines[index].count(_QUOTE) for index in careful)
        inside = [0] * len(lines)
        refused = set(careful)
        for place, column in enumerate(self._columns):
            if column.base not in _FAST_TYPES:
                columns[place] = self._from_text(column, columns[place], careful, inside)
        if quotes != 2 * known + sum(inside):
            self._find_repeated(lines, structs, inside, refused, careful)
        if self._real:
            self._find_rounded(lines, joined, columns, careful)
        return columns

    def _without_missing(self, columns: list[list[object]]) -> int:
        """Put None for what is missing, and return how many keys and strings of text columns there are."""
        known = 0
        for place, values in enumerate(columns):
            kinds = list(map(type, values))
            missing = kinds.count(msgspec.UnsetType)
            known += len(values) - missing + (kinds.count(str) if self._columns[place].base == "text" else 0)
            if missing:
                columns[place] = [None if one is msgspec.UNSET else one for one in values]
        return known

    def _find_repeated(
        self,
        lines: Sequence[bytes],
        structs: Sequence[Any],
        inside: Sequence[int],
        refused: set[int],
        careful: list[int],
    ) -> None:
        """Add the lines in which a key may come twice: with more quotes than their keys and strings have."""
        known = set(careful)
        for index, line in enumerate(lines):
            if index in known or index in refused:
                continue
            values = astuple(structs[index])
            strings = sum(type(values[place]) is str for place in self._texts)
            count = line.count(_QUOTE)
            if b"\\" in line and b"\\\\" not in line:
                count -= line.count(b'\\"')
            if count != 2 * (len(values) - values.count(msgspec.UNSET) + strings) + inside[index]:
                careful.append(index)

    def _from_text(
        self, column: Column, values: Sequence[object], careful: list[int], inside: list[int]
    ) -> list[object]:
        """Return the stored values of texts of one column; lines with a misfit are added to `careful`.

        The quotes in the texts are added to `inside`.
        """
        found: list[object] = []
        misfits = set()
        for index, value in enumerate(values):
            text = "null" if value is None else bytes(value).decode()  # type: ignore[call-overload]
            stored = None if text == "null" else stored_json(column, text, self._reading)
            if '"' in text:
                inside[index] += text.count('"')
            if stored is MISFIT:
                misfits.add(index)
            found.append(stored)
        careful.extend(sorted(misfits.difference(careful)))
        return found

    def _find_rounded(
        self, lines: Sequence[bytes], joined: bytes, columns: Sequence[Sequence[Any]], careful: list[int]
    ) -> None:
        """Add the lines in which a float may not be the number that was written."""
        shape = joined.translate(_TO_SHAPE)
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
        values = _fields(line, self._bare, self._flatten)
        if values is None:
            built.skipped.append(index)
            return
        if isinstance(values, tuple):
            built.bad[index] = values
            return
        extra = {
            key: text
            for key, text in values.items()
            if key not in self._sources and not (text == "null" and key in self._parents)
        }
        for column, place in zip(self._columns, columns, strict=True):
            text = values.get(column.source_name, "null")
            value = None if text == "null" else stored_json(column, text, self._reading)
            place[index] = None if value is MISFIT else value
            if value is MISFIT:
                if column.declared:
                    built.bad.setdefault(index, ("misfit", misfit_message(column, text)))
                extra[column.source_name] = text
                built.misfits.append((index, column.name))
        if extra:
            built.extras[index] = _object_text(extra)


def _fields(line: bytes, bare: bool, flatten: int) -> dict[str, str] | tuple[str, str] | None:
    """Return the fields of a line, the reason and sentence why not, or None for a line to be skipped."""
    found = fields(line, bare=bare, flatten=flatten)
    if isinstance(found, tuple) and found[0] == "bad_json":
        if is_punctuation(line):
            return None
        inner = peeled(line)
        again = None if inner is None else fields(inner, flatten=flatten)
        if isinstance(again, dict):
            return again
    return found


def _object_text(values: dict[str, str]) -> str:
    members = ",".join(f"{json_text(key)}:{text}" for key, text in values.items())
    return compact(f"{{{members}}}".encode()).decode()


def compact(text: bytes) -> bytes:
    """Return JSON without blanks between its tokens, digits of numbers as they are; broken JSON unchanged."""
    try:
        return msgspec.json.format(text, indent=-1)
    except _PROBLEMS:
        return text


def _fast_decoders(
    columns: Sequence[Column],
) -> tuple[Callable[[bytes], Any], Callable[[bytes], Any], Any, list[str]] | None:
    """Return decoders into structs with all columns and with some, an empty one of these, and the fields.

    None for columns that a struct cannot hold.
    """
    names = [f"f{index}" for index in range(len(columns))]
    sources = [column.source_name for column in columns]
    if not columns or len(set(sources)) < len(sources):
        return None
    types = [_FAST_TYPES.get(column.base, msgspec.Raw) for column in columns]
    rename = dict(zip(names, sources, strict=True))
    full_types = [str if column.base == "text" else kind for column, kind in zip(columns, types, strict=True)]
    try:
        full = msgspec.defstruct(
            "Row", list(zip(names, full_types, strict=True)), rename=rename, forbid_unknown_fields=True, gc=False
        )
        some = [(name, kind, msgspec.UNSET) for name, kind in zip(names, types, strict=True)]
        loose = msgspec.defstruct("Some", some, rename=rename, forbid_unknown_fields=True, gc=False)
    except ValueError:
        # A key with a quote, a backslash or a control character.
        return None
    return msgspec.json.Decoder(full).decode, msgspec.json.Decoder(loose).decode, loose(), names


class JsonItems:
    """JSON records made into payloads and keys of items."""

    def __init__(self, spec: Spec, layout: Layout) -> None:
        self._key = layout.key
        self._bare = spec.bare

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
            values = _fields(line, self._bare, 0)
            if values is None:
                built.skipped.append(index)
            elif isinstance(values, tuple):
                built.bad[index] = values
            else:
                if (inner := peeled(line)) is not None and isinstance(fields(line), tuple):
                    payloads[index] = inner.decode()
                if self._key:
                    keys[index], problem = key_of([values.get(name) for name in self._key], self._key)
                    if problem is not None:
                        built.bad[index] = ("key_missing", problem)
        return built


class JsonLines:
    """The `jsonl` format."""

    name = "jsonl"

    def __init__(self, spec: Spec, layout: Layout) -> None:
        self.ends = LineEnds(spec.encoding, spec.newline)
        self.blank = self.ends.blank_lines(" \t\r" if spec.newline == "\n" else " \t", spec.max_record_bytes - 1)
        self._spec = spec
        self._build = records_builder(spec, layout)

    def is_whole(self, line: bytes) -> bool:
        """Return whether an unterminated line is a complete record."""
        lines, bad, _ = utf8_lines([line], self._spec.encoding, self._spec.encoding_errors)
        return not bad and not isinstance(_fields(lines[0], self._spec.bare, 0), tuple)

    def build(self, lines: Sequence[bytes]) -> Built:
        """Make values of lines."""
        return self._build(lines)


def records_builder(spec: Spec, layout: Layout, *, compacted: bool = False) -> Callable[[Sequence[bytes]], Built]:
    """Return what makes values of records in the file's encoding; `compacted` takes line ends out first."""
    build = (JsonItems if layout.kind == "items" else JsonTable)(spec, layout).build

    def build_decoded(records: Sequence[bytes]) -> Built:
        texts, bad, replaced = utf8_lines(records, spec.encoding, spec.encoding_errors)
        if compacted:
            texts = [compact(text) if b"\n" in text or b"\r" in text else text for text in texts]
        built = build(texts)
        built.replaced = replaced
        if bad:
            built.bad |= bad
            built.blank = [index for index in built.blank if index not in bad]
        return built

    return build_decoded
