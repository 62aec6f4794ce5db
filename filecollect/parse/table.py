"""Text fields to the columns of a layout, a whole column at a time; shared by CSV and plain lines.

Fields are matched to columns by source name: the k-th field of a name is the k-th column that comes
from it, so `a,A,a` always lands in the same three columns and files of one source may order their
columns as they like. A field without a column goes to `_extra` under its name (its unique name when
several have it), NULLs left out; a column without a field is NULL.

For items each record becomes one compact JSON object of its fields instead, NULL as null.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from filecollect.domain.columns import Column, Layout
from filecollect.parse.convert import PLAIN, Reading, stored_column
from filecollect.parse.framing import Built
from filecollect.parse.items import key_of
from filecollect.parse.names import column_names

_encode = msgspec.json.Encoder().encode


def json_text(value: object) -> str:
    """Return compact JSON text, UTF-8 not escaped."""
    return _encode(value).decode()


def labels(header: Sequence[str]) -> list[str]:
    """Return the names of fields for `_extra` and payloads: the source's own, made unique where needed."""
    unique = column_names(header, reserved=())
    often = {name for name in header if header.count(name) > 1} if len(set(header)) < len(header) else set()
    return [own if name in often or not name else name for name, own in zip(header, unique, strict=True)]


def match_fields(header: Sequence[str], columns: Sequence[Column]) -> list[int | None]:
    """Return for each column the position of its field in the header, None when it has none."""
    places: dict[str, list[int]] = {}
    for position, name in enumerate(header):
        places.setdefault(name, []).append(position)
    found: list[int | None] = []
    for column in columns:
        waiting = places.get(column.source_name)
        found.append(waiting.pop(0) if waiting else None)
    left = {own: place for own, place in _unique_places(header) if place not in found}
    return [
        left.pop(column.name, None) if place is None else place for column, place in zip(columns, found, strict=True)
    ]


def _unique_places(header: Sequence[str]) -> list[tuple[str, int]]:
    return [(name, position) for position, name in enumerate(column_names(header))]


class TextTable:
    """Fields under one header, made into columns of a typed table."""

    def __init__(self, layout: Layout, header: Sequence[str], nulls: frozenset[str], reading: Reading) -> None:
        self._columns = layout.columns
        self._reading = reading
        self._nulls = nulls
        self._labels = labels(header)
        self._places = match_fields(header, layout.columns)
        self._homeless = [place for place in range(len(header)) if place not in self._places]

    def build(
        self,
        fields: Sequence[Sequence[str]],
        count: int,
        quoted: Mapping[int, Sequence[int]],
        surplus: Mapping[int, Mapping[str, str]],
    ) -> Built:
        """Return the columns of `count` records.

        `fields[f]` is a column of the input; `quoted[f]` are positions where such a field was in quotes;
        `surplus` are a record's fields beyond the header, by name.
        """
        columns: list[Sequence[object]] = []
        extras: dict[int, dict[str, str]] = {index: dict(more) for index, more in surplus.items()}
        misfits: list[tuple[int, str]] = []
        bad: dict[int, tuple[str, str]] = {}
        for column, place in zip(self._columns, self._places, strict=True):
            if place is None:
                columns.append([None] * count)
                continue
            texts = fields[place]
            values, wrong = stored_column(texts, column, self._nulls, quoted.get(place, ()), self._reading)
            columns.append(values)
            for index in wrong:
                if column.declared:
                    bad.setdefault(index, ("misfit", misfit_message(column, json_text(texts[index]))))
                else:
                    extras.setdefault(index, {})[self._labels[place]] = texts[index]
                    misfits.append((index, column.name))
        for place in self._homeless:
            label, kept = self._labels[place], quoted.get(place, ())
            for index, text in enumerate(fields[place]):
                if text not in self._nulls or index in kept:
                    extras.setdefault(index, {})[label] = text
        return Built(columns, {index: json_text(extra) for index, extra in extras.items()}, misfits, bad)


class TextItems:
    """Fields under one header, made into payloads and keys of items."""

    def __init__(self, layout: Layout, header: Sequence[str], nulls: frozenset[str]) -> None:
        self._key = layout.key
        self._labels = labels(header)
        self._nulls = nulls

    def build(
        self,
        fields: Sequence[Sequence[str]],
        count: int,
        quoted: Mapping[int, Sequence[int]],
        surplus: Mapping[int, Mapping[str, str]],
    ) -> Built:
        """Return payloads and keys; see `TextTable.build`."""
        values: list[Sequence[str | None]] = []
        for place, texts in enumerate(fields):
            kept = set(quoted.get(place, ()))
            values.append([None if one in self._nulls and at not in kept else one for at, one in enumerate(texts)])
        payloads: list[str] = []
        keys: list[str | None] = []
        bad: dict[int, tuple[str, str]] = {}
        for index in range(count):
            item = {name: column[index] for name, column in zip(self._labels, values, strict=True)}
            item |= surplus.get(index, {})
            payloads.append(json_text(item))
            key = None
            if self._key:
                key, problem = key_of([json_text(item.get(name)) for name in self._key], self._key)
                if problem is not None:
                    bad[index] = ("key_missing", problem)
            keys.append(key)
        return Built([payloads, keys], bad=bad)


def text_table(
    layout: Layout, header: Sequence[str], nulls: frozenset[str], reading: Reading = PLAIN
) -> TextTable | TextItems:
    """Return what makes records of a layout from fields under one header."""
    if layout.kind == "items":
        return TextItems(layout, header, nulls)
    return TextTable(layout, header, nulls, reading)


def misfit_message(column: Column, shown: str) -> str:
    """Return the sentence that refuses a value of a declared column."""
    shown = shown if len(shown) <= 100 else f"{shown[:100]}..."
    kind = f"{column.type} with a time zone" if column.zoned else column.type
    return f"{shown} does not fit the column {column.name} of type {kind}"
