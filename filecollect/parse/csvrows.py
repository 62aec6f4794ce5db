"""Rows of CSV fields under a header, made into records: comments and repeated headers out, ragged rows told.

A row has as many fields as the header. One empty field more is a trailing delimiter and says nothing;
one less under a header that itself ends in a delimiter neither. Any other difference is `ragged`:
quarantined, or padded with NULL and the surplus kept in `_extra`, as the source has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from filecollect.domain.columns import Layout
from filecollect.parse.convert import Reading
from filecollect.parse.framing import Built, Frames, Gathered
from filecollect.parse.quoting import NULL_ESCAPE
from filecollect.parse.spec import Spec
from filecollect.parse.table import TextItems, TextTable, text_table

FILLER = ""


@dataclass(slots=True)
class Rows:
    """Records as rows of fields, with their frames.

    By position: `quoted` are fields in quotes that may look like NULL, `bad` records with reason and
    sentence, `skipped` comments, `replaced` undecodable bytes in hex.
    """

    frames: Frames
    rows: list[list[str]]
    quoted: dict[int, list[int]] = field(default_factory=dict)
    bad: dict[int, tuple[str, str]] = field(default_factory=dict)
    skipped: set[int] = field(default_factory=set)
    replaced: dict[int, str] = field(default_factory=dict)

    def without(self, out: set[int]) -> Rows:
        """Return the rows that are not in `out`."""
        places = {old: new for new, old in enumerate(index for index in range(len(self.rows)) if index not in out)}
        return Rows(
            self.frames.without(out),
            [self.rows[old] for old in places],
            {places[old]: fields for old, fields in self.quoted.items() if old in places},
            replaced={places[old]: found for old, found in self.replaced.items() if old in places},
        )


def headerless_names(count: int) -> list[str]:
    """Return the source names of columns without a header: c1, c2, ..."""
    return [f"c{number}" for number in range(1, count + 1)]


def null_words(spec: Spec) -> frozenset[str]:
    """Return the texts that are NULL unless they are quoted.

    Where `\\N` is written for NULL and there are no quotes, as in a database's own dumps, an empty text is empty.
    """
    empty = {FILLER} if spec.quote or not spec.escape else set()
    return frozenset(spec.null) | empty | ({NULL_ESCAPE} if spec.escape else set())


def evened(row: list[str], header: Sequence[str]) -> list[str]:
    """Return a row without the empty field that a trailing delimiter makes, or with the one it lacks."""
    width = len(header)
    if len(row) == width + 1 and not row[-1]:
        return row[:-1]
    if len(row) == width - 1 and row and not header[-1]:
        return [*row, FILLER]
    return row


class RowMaker:
    """Makes records of rows, once it knows their header."""

    def __init__(self, spec: Spec, layout: Layout, header: Sequence[str] | None) -> None:
        self._layout = layout
        self._pad = spec.ragged == "pad"
        self._nulls = null_words(spec)
        self._reading = Reading.of(spec)
        self.header: list[str] | None = None
        self._table: TextTable | TextItems | None = None
        # Without names, items have as many fields as each record has.
        self._width: int | None = None
        self._names: list[str] = []
        if isinstance(spec.header, tuple):
            self.use(list(spec.header))
        elif header is not None:
            self.use(list(header))
        elif spec.header is False:
            self._use_positions()

    def use(self, header: list[str]) -> None:
        """Take the names of the columns from a header."""
        self.header = self._names = header
        self._width = len(header)
        self._table = text_table(self._layout, header, self._nulls, self._reading)

    def _use_positions(self) -> None:
        if self._layout.kind == "items":
            self._table = TextItems(self._layout, [], self._nulls)
            return
        sources = {column.source_name for column in self._layout.columns}
        width = 0
        while f"c{width + 1}" in sources:
            width += 1
        self._width = width
        self._names = headerless_names(width)
        self._table = TextTable(self._layout, self._names, self._nulls, self._reading)

    def fits(self, row: list[str]) -> bool:
        """Return whether a row has as many fields as it must."""
        width = self._width
        return width is None or self._pad or len(evened(row, self._names)) == width

    def add(self, found: Rows, got: Gathered) -> None:
        """Add rows of fields to what was gathered."""
        rows, bad = found.rows, found.bad
        surplus: dict[int, dict[str, str]] = {}
        out = found.skipped
        if self._table is None:
            message = "the header of the file is not known, so its fields have no names"
            bad = dict.fromkeys(range(len(rows)), ("no_header", message)) | bad
        elif self._width is not None and set(map(len, rows)) != {self._width}:
            self._even(rows, self._width, bad, surplus, out)
        blank = [index for index, row in enumerate(rows) if not row] if [] in rows else []
        skipped = sorted(out)
        if self.header is not None and self.header in rows:
            skipped = sorted({*out, *(i for i, row in enumerate(rows) if row == self.header and i not in bad)})
        for index in skipped:
            bad.pop(index, None)
        out = {*bad, *blank, *skipped}
        if out:
            # What is no row must not make a whole column go the slow way.
            got.drop(found.frames, Built([], bad=bad, skipped=skipped, blank=blank))
            places = {old: new for new, old in enumerate(index for index in range(len(rows)) if index not in out)}
            surplus = {places[old]: more for old, more in surplus.items() if old in places}
            found = found.without(out)
        if not found.rows or self._table is None:
            return
        if self._width is None:
            got.add(found.frames, self._unnamed(found))
            return
        quoted: dict[int, list[int]] = {}
        for index, fields in found.quoted.items():
            for place in fields:
                if place < self._width and found.rows[index][place] in self._nulls:
                    quoted.setdefault(place, []).append(index)
        columns = list(zip(*found.rows, strict=True))
        built = self._table.build(columns, len(found.rows), quoted, surplus)
        built.replaced = found.replaced
        got.add(found.frames, built)

    def _unnamed(self, found: Rows) -> Built:
        """Make items of rows without a header: each has c1, c2, ... for its own fields."""
        payloads: list[object] = []
        keys: list[object] = []
        built = Built([payloads, keys], replaced=found.replaced)
        for index, row in enumerate(found.rows):
            table = TextItems(self._layout, headerless_names(len(row)), self._nulls)
            quoted = {place: [0] for place in found.quoted.get(index, ())}
            one = table.build([[text] for text in row], 1, quoted, {})
            payloads.extend(one.columns[0])
            keys.extend(one.columns[1])
            if 0 in one.bad:
                built.bad[index] = one.bad[0]
        return built

    def _even(
        self,
        rows: list[list[str]],
        width: int,
        bad: dict[int, tuple[str, str]],
        surplus: dict[int, dict[str, str]],
        out: set[int],
    ) -> None:
        """Refuse the rows that have not `width` fields, or pad and cut them."""
        for index, row in enumerate(rows):
            if len(row) == width or not row or index in out:
                continue
            even = evened(row, self._names)
            if len(even) == width:
                rows[index] = even
            elif self._pad:
                more = {f"c{place + 1}": text for place, text in enumerate(row[width:], width) if text}
                if more:
                    surplus[index] = more
                rows[index] = row[:width] + [FILLER] * (width - len(row))
            else:
                bad.setdefault(index, ("ragged", f"expected {width} fields, got {len(row)}"))
