"""Which delimiter a CSV sample uses, and whether its first record is a header.

The header and the whole sample decide together: a delimiter counts only if the first record has as many
fields as (nearly) all others. Titles above the header are told by saying less than half of what a record
says, with nearly all rows below as wide as the header. A header is told by columns whose values are not
text: a first cell that does not fit its column speaks for one, a first cell that fits speaks against.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from filecollect.parse.convert import PLAIN, Reading, text_kind
from filecollect.parse.csvrows import evened
from filecollect.parse.infer import sample_rows, type_of
from filecollect.parse.quoting import NULL_ESCAPE
from filecollect.parse.spec import Spec, Wanted
from filecollect.parse.times import Times

DELIMITERS = (",", ";", "\t", "|")
NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
_VALUE_LIKE = re.compile(r"[-+(]?[$€£]?[0-9][0-9.,:/ \-eE+]*[%)]?")
_TELLS_DELIMITER = re.compile(r'"?sep=([^\n"])"?[ ,;\t]*\n', re.IGNORECASE)
_PREAMBLE_SAMPLE = 16 * 1024
_MOST_TITLES = 20
_NEARLY_ALL = 0.95
_EMPTY = frozenset({""})
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


def split_sample(text: str, spec: Spec, *, cut: bool) -> Split:
    """Return a sample's rows; with `cut` the last one, which may be incomplete, is left out."""
    rows = [row for row in sample_rows(text, spec) if row]
    if cut and len(rows) > 1:
        rows.pop()
    if not rows:
        return Split(spec.delimiter, [], 0.0)
    rows = [evened(row, rows[0]) for row in rows]
    return Split(spec.delimiter, rows, sum(len(row) == len(rows[0]) for row in rows) / len(rows))


def best_split(text: str, spec: Spec, *, cut: bool) -> Split:
    """Return the split whose rows agree best with the first one, then the widest, then the spec's own."""
    first = spec.delimiter
    order = [first, *(one for one in DELIMITERS if one != first)]
    splits = [
        split_sample(text, replace(spec, delimiter=delimiter), cut=cut)
        for delimiter in order
        if delimiter in text or delimiter == first
    ]
    wide = [split for split in splits if split.width > 1 and split.share >= 0.5]
    if not wide:
        return splits[0]
    # Within a few broken records of the best, more columns say more.
    most = max(split.share for split in wide)
    return max((split for split in wide if split.share >= most - 0.05), key=lambda split: split.width)


@dataclass(frozen=True, slots=True)
class Look:
    """How a sample of CSV is written; `why` are sentences about what is not usual."""

    split: Split
    skip_lines: int
    quote: str
    escape: str
    comment: str
    reading: Reading
    dump: bool
    why: tuple[str, ...]


def look_at_table(text: str, wanted: Wanted, *, usual: str, cut: bool, sure: bool) -> Look:
    """Decide delimiter, comments, preamble and escapes of a sample; lines end in `\\n`.

    Only where it is `sure` that the file is CSV may lines at its top be taken for a preamble.
    """
    why: list[str] = []
    quote = '"' if wanted.quote is None else wanted.quote
    spec = Spec("csv", quote=quote, escape=wanted.escape or "", comment=wanted.comment or "")
    spec = replace(spec, delimiter=wanted.delimiter or usual)

    def split(text: str) -> Split:
        return split_sample(text, spec, cut=cut) if wanted.delimiter else best_split(text, spec, cut=cut)

    skipped = 0
    told = _TELLS_DELIMITER.match(text) if wanted.delimiter is None else None
    if told is not None:
        wanted = replace(wanted, delimiter=told[1])
        spec = replace(spec, delimiter=told[1])
        skipped, text = 1, text[told.end() :]
        why.append(f"1 line before the header is passed over: it tells the delimiter {told[1]!r}")
    if wanted.comment is None and text.startswith("#"):
        commented = replace(spec, comment="#")
        without = split_sample(text, commented, cut=cut) if wanted.delimiter else best_split(text, commented, cut=cut)
        first = split_sample(text.partition("\n")[0], replace(spec, delimiter=without.delimiter), cut=False)
        # A line like `#id,name` may be the header itself: then what follows is as wide, and is none.
        below = judge_header(without.rows, _EMPTY) if without.rows else None
        if below is not None and (first.width != without.width or (below.present and below.evidence)):
            spec = commented
            why.append("comments begin with '#': such lines stand before the header")
    found = split(text)
    if sure and skipped == 0 and wanted.skip_lines == 0 and wanted.header in (None, True):
        title = _preamble(text, found, split, Reading(wanted.decimal))
        if title:
            skipped, found = title
            why.append(f"{skipped} lines before the header are passed over: {text.partition(chr(10))[0][:40]!r} ...")
    dump = any(NULL_ESCAPE in row for row in found.rows)
    if dump and wanted.escape is None:
        # Tools that write \\N and quotes put (nearly) all texts in quotes.
        in_quotes = text.count(f'{found.delimiter}"') * 2 > text.count(found.delimiter)
        bare = wanted.quote is None and found.delimiter == "\t" and not in_quotes
        spec = replace(spec, escape="\\", quote="" if bare else quote, delimiter=found.delimiter)
        found = split_sample(text.split("\n", skipped)[-1] if not told else text, spec, cut=cut)
        why.append(f"escape \\: the sample has {NULL_ESCAPE} for NULL" + (", quotes are data" if bare else ""))
    reading = Reading(wanted.decimal, Times.of(wanted.time_formats, wanted.time_zone))
    return Look(found, skipped, spec.quote, spec.escape, spec.comment, reading, dump, tuple(why))


def _preamble(text: str, found: Split, split: Callable[[str], Split], reading: Reading) -> tuple[int, Split] | None:
    """Return how many lines before the header are titles, and the split of the rest."""
    if found.width > 1 and found.share >= _NEARLY_ALL and not _is_title(found.rows[0], found.width):
        return None
    rest = text[:_PREAMBLE_SAMPLE]
    titles: list[str] = []
    for count in range(1, _MOST_TITLES + 1):
        title, _, rest = rest.partition("\n")
        titles.append(title)
        after = split(rest)
        if len(after.rows) < 2:
            return None
        if not rest.split("\n", 1)[0].strip() or after.width < 2 or after.share < _NEARLY_ALL:
            continue
        rows = [one.split(after.delimiter) for one in titles if one.strip()]
        if _is_title(after.rows[0], after.width) or not all(_is_title(row, after.width) for row in rows):
            continue
        header = judge_header(after.rows, _EMPTY, reading)
        # Without a blank line or typed columns it may as well be a column of texts with delimiters.
        if header.present and (header.evidence or len(rows) < len(titles)):
            return count, split(text.split("\n", count)[-1])
    return None


def _is_title(cells: Sequence[str], width: int) -> bool:
    """Return whether a row says less than half of what a record says."""
    return width > 1 and sum(bool(cell.strip()) for cell in cells) <= max(1, width // 2)


def judge_header(rows: Sequence[Sequence[str]], nulls: frozenset[str], reading: Reading = PLAIN) -> Header:
    """Return whether the first of `rows` is a header."""
    first = rows[0]
    body = [row for row in rows[1:] if len(row) == len(first)]
    fitting = 0
    speaking = ""
    for place, cell in enumerate(first):
        kinds = {text_kind(text, reading) for text in {row[place] for row in body} - nulls}
        kind = type_of(kinds)
        if kind == "text" or cell in nulls:
            continue
        if text_kind(cell, reading) in _KINDS_THAT_FIT.get(kind, {kind}):
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
    like = next((cell for cell in first if text_kind(cell, reading) != "text" or _VALUE_LIKE.fullmatch(cell)), None)
    if like is not None:
        return Header(False, False, f"no header: {like!r} looks like a value")
    return Header(True, False, "header: the first record's fields are all different and none looks like a value")
