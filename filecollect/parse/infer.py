"""Column types from samples: each value votes, and a type is only given when all votes agree.

JSON's own types win over looks (`"007"` is text). CSV cells are judged by their looks, strictly:
leading zeros, `+5` and `1e5` are text. Whatever is mixed is text (or json where a value is nested).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from filecollect.domain.columns import Column, Layout, normal_type
from filecollect.parse.api import Tail
from filecollect.parse.convert import INTEGER, LEAST, MOST, PLAIN, Misfit, as_date, significant, stamp_zone
from filecollect.parse.csvfile import CsvParser
from filecollect.parse.jsonl import careful_decoder
from filecollect.parse.names import column_names
from filecollect.parse.spec import Spec

FIRST, LAST = 1000, 100
_NUMBERS = ("integer", "real", "decimal")


def vote(text: str) -> str:
    """Return the type that a non-empty CSV cell looks like."""
    if INTEGER.fullmatch(text):
        return "integer" if LEAST <= int(text) <= MOST else "decimal"
    if PLAIN.fullmatch(text):
        return "real" if significant(text) <= 15 else "decimal"
    if text.lower() in {"true", "false"}:
        return "boolean"
    if as_date(text) is not Misfit:
        return "date"
    zoned = stamp_zone(text)
    if zoned is not None:
        return "timestamp+zone" if zoned else "timestamp"
    return "text"


def json_vote(value: Any) -> str:
    """Return the type that a JSON value has."""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer" if LEAST <= value <= MOST else "decimal"
    if isinstance(value, float):
        return "real"
    if isinstance(value, Decimal):
        return "decimal"
    return "text" if isinstance(value, str) else "json"


def agreed(votes: set[str]) -> str:
    """Return the one type for all votes."""
    if not votes:
        return "text"
    if len(votes) == 1:
        return next(iter(votes))
    if "json" in votes:
        return "json"
    if votes <= set(_NUMBERS):
        return "decimal" if "decimal" in votes else "real"
    return "text"


class Inference:
    """Gather votes over the samples of one source."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.votes: dict[str, set[str]] = {}
        self.source_names: dict[str, str] = {}

    def add(self, head: bytes, tail: bytes = b"") -> None:
        """Sample a file's first bytes, and its last ones where there are more."""
        if self.spec.format == "lines":
            self._seen("line", "line").add("text")
        elif self.spec.format == "jsonl":
            self._json(head, FIRST)
            self._json(tail.partition(b"\n")[2], LAST, last=True)
        else:
            self._csv(head, tail.partition(b"\n")[2])

    def columns(self, declared: Mapping[str, str]) -> tuple[Column, ...]:
        """Return the columns in the order first seen; `declared` types, by name or source name, win."""
        if self.spec.format == "csv":
            names = list(self.votes)
        else:
            names = column_names(list(self.votes), snake=self.spec.names == "snake")
        found = []
        left = dict(declared)
        for key, name in zip(self.votes, names, strict=True):
            source = self.source_names[key]
            said = left.pop(name, None) or (left.pop(source, None) if source != name else None)
            if said is not None:
                found.append(Column(name, source, normal_type(said), declared=True))
            else:
                kind = agreed(self.votes[key])
                found.append(Column(name, source, kind.partition("+")[0], zoned=kind.endswith("+zone")))
        found += [Column(name, name, normal_type(kind), declared=True) for name, kind in left.items()]
        return tuple(found)

    def _seen(self, key: str, source: str) -> set[str]:
        self.source_names.setdefault(key, source)
        return self.votes.setdefault(key, set())

    def _json(self, data: bytes, limit: int, *, last: bool = False) -> None:
        lines = [line for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
        for line in lines[-limit:] if last else lines[:limit]:
            try:
                value = careful_decoder.decode(line)
            except (ValueError, UnicodeDecodeError):
                continue
            if isinstance(value, dict):
                for name, one in value.items():
                    votes = self._seen(name, name)
                    if one is not None:
                        votes.add(json_vote(one))

    def _csv(self, head: bytes, tail: bytes) -> None:
        parser = CsvParser(self.spec, Layout((), (), "items"), None)
        first = parser.parse(head, offset=0, line=1, limit=0, tail=Tail.TAKE)
        if parser.header is None:
            return
        header = parser.header
        names = column_names(header, snake=self.spec.names == "snake")
        for name, source in zip(names, header, strict=True):
            self._seen(name, source or name)
        self._cells(parser, head[first.consumed :], names, FIRST, last=False)
        self._cells(parser, tail, names, LAST, last=True)

    def _cells(self, parser: CsvParser, data: bytes, names: Sequence[str], limit: int, *, last: bool) -> None:
        text = parser.text(data)
        if not text.endswith("\n"):
            text += "\n"
        rows, _, _ = parser.frame(text, 100 * limit if last else limit)
        sane = [row for row in rows if len(row) == len(names) and row != parser.header]
        for row in sane[-limit:] if last else sane[:limit]:
            for name, cell in zip(names, row, strict=True):
                if cell and cell not in self.spec.null:
                    self.votes[name].add(vote(cell))
