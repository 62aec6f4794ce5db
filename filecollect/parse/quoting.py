"""CSV quoting to the letter: where a record ends, and which fields were in quotes.

The grammar is that of Python's csv.reader (a quote opens only at the start of a field, a doubled quote
is a quote, what follows a closing quote is literal), with two differences: only `\\n` or `\\r\\n` ends a
record, so a lone `\\r` is data, and quoted fields are told from others, so `""` is not NULL.
csv.reader is far faster; this is for the records that it cannot read, and for finding record ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain


class Quoting:
    """The quoting rules for one delimiter and quote; `nulls` are words whose quoting matters."""

    def __init__(self, delimiter: str, quote: str, nulls: Iterable[str] = ()) -> None:
        self.delimiter = delimiter
        self.quote = quote
        d, q = re.escape(delimiter), re.escape(quote)
        words = "|".join(re.escape(word) for word in sorted({"", *nulls}))
        self._opening = delimiter + quote
        self._field = re.compile(f"(?:\\A|{d})(?:({q}[^{q}]*+(?:{q}{q}[^{q}]*+)*+{q})([^{d}]*)|([^{q}{d}][^{d}]*)|)")
        self._quoted_null = re.compile(f"(?:\\A|{d}){q}(?:{words}){q}(?=\\r?\\n?\\Z|{d})")
        self.null_hints = tuple(f"{quote}{word}{quote}" for word in sorted({"", *nulls}))

    def ends_open(self, line: str, in_quotes: bool) -> bool:
        """Return whether a quote is open after `line`, which began with one open or not."""
        position = 0
        if in_quotes:
            position = self._close(line, 0)
        elif line.startswith(self.quote):
            position = self._close(line, 1)
        while position >= 0:
            opening = line.find(self._opening, position)
            if opening < 0:
                return False
            position = self._close(line, opening + 2)
        return True

    def _close(self, line: str, position: int) -> int:
        """Return the position after the closing quote, -1 when there is none."""
        quote = self.quote
        while (found := line.find(quote, position)) >= 0:
            if line[found + 1 : found + 2] != quote:
                return found + 1
            position = found + 2
        return -1

    def has_quoted_null(self, record: str) -> bool:
        """Return whether a field in quotes may be empty or one of the NULL words."""
        return self._quoted_null.search(record) is not None

    def split(self, record: str) -> tuple[list[str], list[int]]:
        """Return the fields of a record, and which of them were in quotes; an open quote ends with it."""
        record = record.removesuffix("\n").removesuffix("\r")
        if self.quote not in record:
            return record.split(self.delimiter), []
        quote = self.quote
        found: list[tuple[str, str, str]] = self._field.findall(record)
        fields = [
            (inner[1:-1].replace(quote + quote, quote) + rest if inner else plain) for inner, rest, plain in found
        ]
        quoted = [index for index, (inner, rest, _) in enumerate(found) if inner and not rest]
        if sum(map(len, chain.from_iterable(found))) + len(found) - 1 != len(record):
            # A quote is left open: close it and the rest is one field.
            fields, quoted = self.split(record + quote)
        return fields, quoted
