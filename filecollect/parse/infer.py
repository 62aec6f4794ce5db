"""Which columns a source has, and of which types: votes of the first and last records of its files.

Invariant: a type is given to a column only if every sampled value fits it without loss; everything
else is text. The order of files and records changes the order of columns, never a type. Per file the
first 1,000 and the last 100 records vote, records that do not fit the header do not.

The bytes at the end of a file begin anywhere: they count from their first line end on, and in CSV only
when every record in them has as many fields as the header (else they began inside a quoted field). In a JSON
document they count only when all its records begin at the same place of a line.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from filecollect.domain.columns import Column
from filecollect.parse.convert import Reading, text_kind
from filecollect.parse.csvfile import reader_options
from filecollect.parse.csvrows import evened, headerless_names, null_words
from filecollect.parse.encoding import marked_encoding, sample_text
from filecollect.parse.jsonfile import sample_values
from filecollect.parse.jsonobject import BARE, peeled
from filecollect.parse.jsonvalue import Number, json_kind, needs_its_text
from filecollect.parse.lineends import unit_of
from filecollect.parse.lines import COLUMN
from filecollect.parse.names import column_names
from filecollect.parse.quoting import Escaping
from filecollect.parse.spec import Spec
from filecollect.parse.times import Times

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

    __slots__ = ("kinds", "source", "texts", "verbatim")

    def __init__(self, source: str) -> None:
        self.source = source
        self.kinds: set[str] = set()
        self.texts: list[str] = []
        self.verbatim = False

    def zoned(self, times: Times) -> bool:
        """Return whether its timestamps have zones, for a column declared as timestamp."""
        if times.zone is not None:
            return True
        kinds = self.kinds | {times.kind(text) for text in self.texts}
        counts = times.counts and (kinds & _NUMBERS or any(times.timestamp(one, zoned=True) for one in self.texts))
        return bool("zoned" in kinds or counts) and "naive" not in kinds


class Inference:
    """Collect votes file by file; then `columns` gives the result."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._nulls = null_words(spec) | {""}
        self._reading = Reading.of(spec)
        self._votes: dict[tuple[str, int], _Votes] = {}

    def add(self, head: bytes, tail: bytes = b"") -> None:
        """Let a file vote: its first bytes, and its last ones when `head` is not the whole file.

        A last record without a line end counts only if it is whole.
        """
        spec = self._spec
        encoding = marked_encoding(head) or spec.encoding
        first, _ = sample_text(head, encoding)
        # Code units are whole from the end of the file.
        last, _ = sample_text(tail[len(tail) % unit_of(encoding) :], encoding)
        for _ in range(spec.skip_lines):
            first = first.partition("\n")[2]
        if spec.format == "json":
            self._add_json(first, last)
            return
        if tail:
            # Its last line is cut, or is read again with the end of the file.
            first = first[: first.rfind("\n") + 1]
            last = last.partition("\n")[2]
        if spec.format == "csv":
            self._add_csv(first, last)
        elif spec.format == "jsonl":
            self._add_records(self._lines(first), self._lines(last), bool(tail))
        else:
            self._vote(COLUMN, 0).kinds.add("text")

    def columns(self, declared: Mapping[str, str]) -> tuple[Column, ...]:
        """Return the columns in the order they were first seen, then declared ones that never were.

        `declared` gives types by source name or by the column's final name.
        """
        votes = list(self._votes.values())
        if votes and not votes[-1].source and not votes[-1].kinds:
            # What a delimiter at the end of the header leaves.
            votes.pop()
        if self._spec.flatten:
            parents = {vote.source[:at] for vote in votes for at, one in enumerate(vote.source) if one == "."}
            votes = [vote for vote in votes if vote.kinds or vote.source not in parents]
        snake = self._spec.names == "snake"
        names = column_names([vote.source for vote in votes], snake=snake)
        used: set[str] = set()
        found = []
        for vote, name in zip(votes, names, strict=True):
            said = next((key for key in (name, vote.source) if key in declared), None)
            if said is None:
                kind = type_of(vote.kinds)
                zoned = kind == "timestamp" and "zoned" in vote.kinds
                found.append(Column(name, vote.source, kind, zoned=zoned, verbatim=vote.verbatim))
                continue
            used.add(said)
            zoned = declared[said] == "timestamp" and vote.zoned(self._reading.times)
            found.append(Column(name, vote.source, declared[said], declared=True, zoned=zoned, verbatim=vote.verbatim))
        missing = [name for name in declared if name not in used]
        every = column_names([*(column.name for column in found), *missing], snake=False)
        for name, final in zip(missing, every[len(found) :], strict=True):
            # Nothing was seen of it; a zone says it all the same.
            zoned = declared[name] == "timestamp" and self._reading.times.zone is not None
            found.append(Column(final, name, declared[name], declared=True, zoned=zoned))
        return tuple(found)

    def _vote(self, source: str, occurrence: int) -> _Votes:
        key = (source, occurrence)
        if key not in self._votes:
            self._votes[key] = _Votes(source)
        return self._votes[key]

    # JSON

    def _lines(self, text: str) -> list[str]:
        lines = text.split("\n")
        # What is sampled is either end; the middle is not decoded.
        if len(lines) > 2 * (FIRST_RECORDS + LAST_RECORDS):
            lines = lines[:FIRST_RECORDS] + lines[-LAST_RECORDS - 1 :]
        return lines

    def _add_json(self, head: str, tail: str) -> None:
        first, _ = sample_values(head, cut=bool(tail))
        last: list[str] = []
        begins = re.compile(r"\n[ \t]*[{\[]")
        starts = {match[0] for match in begins.finditer(head)}
        if tail and len(starts) == 1 and first and head.count(start := starts.pop()) >= len(first) - 1:
            # Records begin at the same place of a line, so their begin can be told in the tail, too.
            found = tail.find(start)
            last, _ = sample_values(tail[found:], cut=False) if found >= 0 else ([], 0)
        self._add_records(first, last, bool(tail))

    def _add_records(self, first: Sequence[str], last: Sequence[str], cut: bool) -> None:
        for record in _sampled(self._objects(first), self._objects(last), cut):
            for name, value in record.items():
                vote = self._vote(name, 0)
                kind = json_kind(value)
                if kind is not None:
                    vote.kinds.add(kind)
                if kind == "json" and not vote.verbatim:
                    vote.verbatim = needs_its_text(value)
                if kind == "text" and len(vote.texts) < _ZONE_SAMPLES:
                    vote.texts.append(str(value))

    def _objects(self, texts: Sequence[str]) -> list[dict[str, object]]:
        found = []
        for text in texts:
            try:
                record = _decode(text)
            except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
                inner = peeled(text.encode("utf-8", "replace"))
                if inner is None:
                    continue
                try:
                    record = _decode(inner)
                except (msgspec.DecodeError, RecursionError):
                    continue
            if isinstance(record, dict):
                found.append(_flat(record, self._spec.flatten))
            elif self._spec.bare:
                found.append({BARE: record})
        return found

    # CSV

    def _add_csv(self, head: str, tail: str) -> None:
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
        rows = [evened(row, names) for row in rows]
        last = [evened(row, names) for row in self._rows(tail)]
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
                kinds.add(text_kind(text, self._reading))

    def _columns_of(self, names: Sequence[str]) -> list[_Votes]:
        seen: Counter[str] = Counter()
        votes = []
        for name in names:
            votes.append(self._vote(name, seen[name]))
            seen[name] += 1
        return votes

    def _rows(self, text: str) -> list[list[str]]:
        return [row for row in sample_rows(text, self._spec) if row]


def sample_rows(text: str, spec: Spec) -> list[list[str]]:
    """Return the rows of a sample whose lines end in `\\n`; good enough to look at, not to store."""
    if spec.comment:
        text = "".join(line for line in text.splitlines(keepends=True) if not line.startswith(spec.comment))
    if not spec.escape or spec.escape not in text:
        return list(csv.reader(io.StringIO(text, newline="\n"), **reader_options(spec)))
    quoting = Escaping(spec.delimiter, spec.quote, spec.escape)
    rows = []
    record, goes_on = "", 0
    for line in io.StringIO(text, newline="\n"):
        record += line
        goes_on = quoting.ends_open(line, goes_on)
        if not goes_on:
            rows.append(quoting.split(record)[0] if record != "\n" else [])
            record = ""
    return rows


def _flat(record: dict[str, object], levels: int) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in record.items():
        if levels and isinstance(value, dict) and value:
            found |= {f"{name}.{inner}": one for inner, one in _flat(value, levels - 1).items()}
        else:
            found[name] = value
    return found


def _sampled(first: Sequence[Record], last: Sequence[Record], cut: bool) -> list[Record]:
    if cut:
        return [*first[:FIRST_RECORDS], *last[-LAST_RECORDS:]]
    if len(first) <= FIRST_RECORDS + LAST_RECORDS:
        return list(first)
    return [*first[:FIRST_RECORDS], *first[-LAST_RECORDS:]]
