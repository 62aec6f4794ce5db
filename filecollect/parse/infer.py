"""Which columns a source has, and of which types: votes of the first and last records of its files.

Invariant: a type is given to a column only if every sampled value fits it without loss; everything
else is text. The order of files and records changes the order of columns, never a type. Per file the
first 1,000 and the last 100 records vote, records that do not fit the header do not.

The bytes at the end of a file begin anywhere: they count from their first line end on, and in CSV only
when every record in them has as many fields as the header (else they began inside a quoted field).
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from filecollect.domain.columns import Column
from filecollect.parse.convert import text_kind
from filecollect.parse.csvfile import headerless_names
from filecollect.parse.framing import bom_length, end_of_line
from filecollect.parse.jsonvalue import Number, json_kind
from filecollect.parse.lines import COLUMN
from filecollect.parse.names import column_names
from filecollect.parse.spec import Spec

Record = TypeVar("Record")

FIRST_RECORDS = 1000
LAST_RECORDS = 100
_ZONE_SAMPLES = 20
_NUMBERS = frozenset({"integer", "long", "real", "decimal"})

_decode = msgspec.json.Decoder(float_hook=Number).decode


def type_of(kinds: Iterable[str]) -> str:
    """Return the column type for the kinds of its values (see `convert.text_kind`)."""
    seen = set(kinds)
    if "json" in seen:
        return "json"
    if not seen or "text" in seen:
        return "text"
    if seen <= {"integer", "long"}:
        return "integer"
    if seen <= _NUMBERS:
        # A float may not hold an integer of more than 15 digits.
        return "decimal" if seen & {"decimal", "long"} else "real"
    if len(seen) > 1:
        return "text"
    only = seen.pop()
    return "timestamp" if only in ("naive", "zoned") else only


class _Votes:
    """What the values of one column looked like."""

    __slots__ = ("kinds", "source", "texts")

    def __init__(self, source: str) -> None:
        self.source = source
        self.kinds: set[str] = set()
        self.texts: list[str] = []

    @property
    def zoned(self) -> bool:
        """Return whether its timestamps have zones, for a column declared as timestamp."""
        kinds = self.kinds | {text_kind(text) for text in self.texts}
        return "zoned" in kinds and "naive" not in kinds


class Inference:
    """Collect votes file by file; then `columns` gives the result."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._nulls = frozenset(spec.null) | {""}
        self._votes: dict[tuple[str, int], _Votes] = {}

    def add(self, head: bytes, tail: bytes = b"") -> None:
        """Let a file vote: its first bytes, and its last ones when `head` is not the whole file.

        A last record without a line end counts only if it is whole.
        """
        spec = self._spec
        head = head[bom_length(head, 0, spec.encoding) :]
        for _ in range(spec.skip_lines):
            end = end_of_line(head, 0)
            head = head[end:] if end > 0 else b""
        if tail:
            # Its last line is cut, or is read again with the end of the file.
            head = head[: head.rfind(b"\n") + 1]
            tail = tail[end_of_line(tail, 0) :] if b"\n" in tail else b""
        if spec.format == "csv":
            self._add_csv(head, tail)
        elif spec.format == "jsonl":
            self._add_jsonl(head, tail)
        else:
            self._vote(COLUMN, 0).kinds.add("text")

    def columns(self, declared: Mapping[str, str]) -> tuple[Column, ...]:
        """Return the columns in the order they were first seen, then declared ones that never were.

        `declared` gives types by source name or by the column's final name.
        """
        votes = list(self._votes.values())
        snake = self._spec.names == "snake"
        names = column_names([vote.source for vote in votes], snake=snake)
        used: set[str] = set()
        found = []
        for vote, name in zip(votes, names, strict=True):
            said = next((key for key in (name, vote.source) if key in declared), None)
            if said is None:
                kind = type_of(vote.kinds)
                found.append(Column(name, vote.source, kind, zoned=kind == "timestamp" and "zoned" in vote.kinds))
                continue
            used.add(said)
            zoned = declared[said] == "timestamp" and vote.zoned
            found.append(Column(name, vote.source, declared[said], declared=True, zoned=zoned))
        missing = [name for name in declared if name not in used]
        every = column_names([*(column.name for column in found), *missing], snake=False)
        for name, final in zip(missing, every[len(found) :], strict=True):
            found.append(Column(final, name, declared[name], declared=True))
        return tuple(found)

    def _vote(self, source: str, occurrence: int) -> _Votes:
        key = (source, occurrence)
        if key not in self._votes:
            self._votes[key] = _Votes(source)
        return self._votes[key]

    # JSON lines

    def _add_jsonl(self, head: bytes, tail: bytes) -> None:
        first, last = self._objects(head), self._objects(tail)
        for record in _sampled(first, last, bool(tail)):
            for name, value in record.items():
                vote = self._vote(name, 0)
                kind = json_kind(value)
                if kind is not None:
                    vote.kinds.add(kind)
                if kind == "text" and len(vote.texts) < _ZONE_SAMPLES:
                    vote.texts.append(str(value))

    def _objects(self, data: bytes) -> list[dict[str, object]]:
        found = []
        lines = data.split(b"\n")
        # What is sampled is either end; the middle is not decoded.
        if len(lines) > 2 * (FIRST_RECORDS + LAST_RECORDS):
            lines = lines[:FIRST_RECORDS] + lines[-LAST_RECORDS - 1 :]
        for line in lines:
            try:
                record = _decode(line.decode(self._spec.encoding))
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
                continue
            if isinstance(record, dict):
                found.append(record)
        return found

    # CSV

    def _add_csv(self, head: bytes, tail: bytes) -> None:
        rows = self._rows(head)
        header = self._spec.header
        if header is True:
            if not rows:
                return
            names = rows.pop(0)
        elif isinstance(header, tuple):
            names = list(header)
        else:
            names = headerless_names(Counter(map(len, rows)).most_common(1)[0][0] if rows else 0)
        width = len(names)
        last = self._rows(tail)
        # The very last record may still be cut.
        if any(len(row) != width for row in last[:-1]):
            last = []
        votes = self._columns_of(names)
        fitting = [[row for row in part if len(row) == width and row != names] for part in (rows, last)]
        for place, values in enumerate(zip(*_sampled(fitting[0], fitting[1], bool(tail)), strict=True)):
            kinds = votes[place].kinds
            for text in set(values) - self._nulls:
                if "text" in kinds and "zoned" not in kinds and "naive" not in kinds:
                    break
                kinds.add(text_kind(text))

    def _columns_of(self, names: Sequence[str]) -> list[_Votes]:
        seen: Counter[str] = Counter()
        votes = []
        for name in names:
            votes.append(self._vote(name, seen[name]))
            seen[name] += 1
        return votes

    def _rows(self, data: bytes) -> list[list[str]]:
        return [row for row in sample_rows(data, self._spec) if row]


def sample_rows(data: bytes, spec: Spec) -> list[list[str]]:
    """Return the rows of a sample; good enough to look at, not to store (a lone `\\r` becomes a blank)."""
    text = data.decode(spec.encoding, "replace").replace("\r\n", "\n").replace("\r", " ")
    return list(csv.reader(io.StringIO(text, newline="\n"), delimiter=spec.delimiter, quotechar=spec.quote))


def _sampled(first: Sequence[Record], last: Sequence[Record], cut: bool) -> list[Record]:
    if cut:
        return [*first[:FIRST_RECORDS], *last[-LAST_RECORDS:]]
    if len(first) <= FIRST_RECORDS + LAST_RECORDS:
        return list(first)
    return [*first[:FIRST_RECORDS], *first[-LAST_RECORDS:]]
