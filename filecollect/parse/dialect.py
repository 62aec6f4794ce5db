"""Which delimiter a CSV sample uses, and whether its first record is a header.

The header and the whole sample decide together: a delimiter counts only if the first record has as many
fields as (nearly) all others. A header is told by columns whose values are not text: a first cell that
does not fit its column speaks for one, a first cell that fits speaks against.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from filecollect.parse.convert import text_kind
from filecollect.parse.infer import type_of

DELIMITERS = (",", ";", "\t", "|")
NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
_VALUE_LIKE = re.compile(r"[-+(]?[$€£]?[0-9][0-9.,:/ \-eE+]*[%)]?")
_KINDS_THAT_FIT = {
    "integer": {"integer", "long"},
    "real": {"integer", "long", "real"},
    "decimal": {"integer", "long", "real", "decimal"},
    "timestamp": {"naive", "zoned"},
}


@dataclass(frozen=True, slots=True)
class Split:
    """A sample split by one delimiter: its rows, and the share of them as wide as the first."""

    delimiter: str
    rows: list[list[str]]
    share: float

    @property
    def width(self) -> int:
        """Return the number of fields of the first row."""
        return len(self.rows[0]) if self.rows else 0


@dataclass(frozen=True, slots=True)
class Header:
    """Whether there is a header, with typed columns as `evidence` or by its looks only, and why."""

    present: bool
    evidence: bool
    why: str


def split_sample(text: str, delimiter: str, quote: str = '"', *, cut: bool) -> Split:
    """Return a sample's rows; with `cut` the last one, which may be incomplete, is left out."""
    text = text.replace("\r\n", "\n").replace("\r", " ")
    rows = [row for row in csv.reader(io.StringIO(text, newline="\n"), delimiter=delimiter, quotechar=quote) if row]
    if cut and len(rows) > 1:
        rows.pop()
    same = sum(len(row) == len(rows[0]) for row in rows) if rows else 0
    return Split(delimiter, rows, same / len(rows) if rows else 0.0)


def best_split(text: str, *, cut: bool, first: str = ",") -> Split:
    """Return the split whose rows agree best with the first one, then the widest, then `first`."""
    order = [first, *(one for one in DELIMITERS if one != first)]
    splits = [split_sample(text, delimiter, cut=cut) for delimiter in order if delimiter in text or delimiter == first]
    wide = [split for split in splits if split.width > 1 and split.share >= 0.5]
    if not wide:
        return splits[0]
    # Within a few broken records of the best, more columns say more.
    most = max(split.share for split in wide)
    return max((split for split in wide if split.share >= most - 0.05), key=lambda split: split.width)


def judge_header(rows: Sequence[Sequence[str]], nulls: frozenset[str]) -> Header:
    """Return whether the first of `rows` is a header."""
    first = rows[0]
    body = [row for row in rows[1:] if len(row) == len(first)]
    fitting = 0
    speaking = ""
    for place, cell in enumerate(first):
        kinds = {text_kind(text) for text in {row[place] for row in body} - nulls}
        kind = type_of(kinds)
        if kind == "text" or cell in nulls:
            continue
        if text_kind(cell) in _KINDS_THAT_FIT.get(kind, {kind}):
            fitting -= 1
        else:
            fitting += 1
            speaking = speaking or f"{cell!r} stands over a column of type {kind}"
    if fitting > 0:
        return Header(True, True, f"header: {speaking}")
    if fitting < 0:
        return Header(False, True, "no header: the first record's values fit the columns below")
    if any(not cell.strip() for cell in first):
        return Header(False, False, "no header: the first record has an empty field")
    if len(set(first)) < len(first):
        return Header(False, False, "no header: the first record holds a value twice")
    like = next((cell for cell in first if text_kind(cell) != "text" or _VALUE_LIKE.fullmatch(cell)), None)
    if like is not None:
        return Header(False, False, f"no header: {like!r} looks like a value")
    return Header(True, False, "header: the first record's fields are all different and none looks like a value")
