"""CSV quoting to the letter: where a record ends, and which fields were in quotes.

The grammar is that of Python's csv.reader (a quote opens only at the start of a field, a doubled quote
is a quote, what follows a closing quote is literal), with two differences: only `\\n` or `\\r\\n` ends a
record, so a lone `\\r` is data, and quoted fields are told from others, so `""` is not NULL.
csv.reader is far faster; this is for the records that it cannot read, and for finding record ends.

`Escaping` is for what databases write: with an escape character, and often without quotes (the text
format of PostgreSQL's COPY, MySQL's INTO OUTFILE). There an escaped `n`, `t`, `r`, `b`, `f`, `v`, `0` or `Z` is
a control character, any other escaped character is itself, line ends too, and a field that is just `\\N` is NULL.
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

    def is_special(self, record: str) -> bool:
        """Return whether csv.reader would not read a record to the letter."""
        return self.quote in record and self.has_quoted_null(record)

    def ends_open(self, line: str, in_quotes: int) -> int:
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


NULL_ESCAPE = "\\N"
"""How databases write NULL in their text formats."""
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "Z": "\x1a"}
_IN_QUOTES, _LINE_END_ESCAPED = 1, 2


class Escaping:
    """The rules for fields with an escape character or without quotes; `quote` and `escape` may be empty."""

    def __init__(self, delimiter: str, quote: str, escape: str, nulls: Iterable[str] = ()) -> None:
        self.delimiter = delimiter
        self.quote = quote
        self._escape = escape
        self.null_hints = tuple(f"{quote}{word}{quote}" for word in sorted({"", *nulls})) if quote else ()
        marks = [re.escape(one) for one in (quote, delimiter) if one]
        if escape:
            marks.insert(0, f"{re.escape(escape)}(?:\\r\\n|.|\\Z)")
        self._token = re.compile("|".join(marks), re.DOTALL)

    def is_special(self, record: str) -> bool:
        """Return whether csv.reader would not read a record to the letter."""
        return (bool(self._escape) and self._escape in record) or self.has_quoted_null(record)

    def has_quoted_null(self, record: str) -> bool:
        """Return whether a field in quotes may be empty or one of the NULL words."""
        return any(hint in record for hint in self.null_hints)

    def ends_open(self, line: str, in_quotes: int) -> int:
        """Return how a record goes on after `line`: not at all (0), in quotes or after an escaped line end."""
        quoted = in_quotes == _IN_QUOTES
        start = -1 if in_quotes else 0
        position = 0
        while (token := self._token.search(line, position)) is not None:
            position = token.end()
            text = token[0]
            if self._escape and text[0] == self._escape:
                if text[-1] == "\n" or len(text) == 1:
                    return _IN_QUOTES if quoted else _LINE_END_ESCAPED
            elif text == self.delimiter:
                start = start if quoted else position
            elif not quoted:
                quoted = token.start() == start
            elif line[position : position + 1] == self.quote:
                position += 1
            else:
                quoted = False
        return _IN_QUOTES if quoted else 0

    def split(self, record: str) -> tuple[list[str], list[int]]:
        """Return the fields of a record, and which of them are not NULL whatever they look like."""
        record = record.removesuffix("\n").removesuffix("\r")
        fields: list[str] = []
        kept: list[int] = []
        pieces: list[str] = []
        start = position = 0
        quoted = was_quoted = False
        escaped = ""

        def end(at: int) -> None:
            text = "".join(pieces)
            if at - start == 2 and escaped == "N":
                text = NULL_ESCAPE
            elif was_quoted or text == NULL_ESCAPE:
                kept.append(len(fields))
            fields.append(text)
            pieces.clear()

        while (token := self._token.search(record, position)) is not None:
            pieces.append(record[position : token.start()])
            position = token.end()
            text = token[0]
            if self._escape and text[0] == self._escape:
                escaped = text[1:]
                pieces.append(_CONTROLS.get(escaped, escaped) if escaped else text)
            elif text == self.delimiter:
                if quoted:
                    pieces.append(text)
                    continue
                end(token.start())
                start, was_quoted, escaped = position, False, ""
            elif not quoted:
                quoted = was_quoted = token.start() == start
                pieces.append("" if quoted else text)
            elif record[position : position + 1] == self.quote:
                pieces.append(text)
                position += 1
            else:
                quoted = False
        pieces.append(record[position:])
        end(len(record))
        return fields, kept
