"""Text (CSV fields, lines) to stored values, a whole column at a time.

Invariant: a stored value reads back as what was written, or the text is a misfit; nothing is rounded,
shortened or guessed. Stored values are the same for every database: int within 64 bits, float,
decimal as its text, bool, dates and timestamps as text (`times.py`), JSON as its text, text.

Each type has a check of one text (`stored_value`) and, where it pays, a check of a whole column at C
speed. The fast one accepts only what the slow one accepts and otherwise declines; it never decides a
misfit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from filecollect.domain.columns import Column
from filecollect.parse.spec import Spec
from filecollect.parse.times import ISO, Times, is_date, stored_timestamps

SMALLEST_INTEGER, LARGEST_INTEGER = -(2**63), 2**63 - 1
EXACT_DIGITS = 15
"""Every decimal of that many significant digits survives a float."""
BOOLEANS = {"true": True, "false": False, "True": True, "False": False, "TRUE": True, "FALSE": False}

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?")
_NOT_PLAIN = re.compile(rb"[,-]0[01]|[,-]\.|\.[,-]")
_TO_SHAPE = bytes.maketrans(b"23456789", b"11111111")
_INTEGER_CHARACTERS = b"0123456789-,"
_REAL_CHARACTERS = b"0123456789-,."
_JSON = msgspec.json.Decoder(msgspec.Raw)


class Misfit:
    """The type of `MISFIT`."""

    __slots__ = ()


MISFIT: Final = Misfit()
"""Stands for "this value does not fit the column"."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How values are written: the decimal mark, and times."""

    decimal: str = "."
    times: Times = ISO

    @classmethod
    def of(cls, spec: Spec) -> Reading:
        """Return how the values of a source are written."""
        return cls(spec.decimal, Times.of(spec.time_formats, spec.time_zone))

    def number(self, text: str) -> str:
        """Return a number's text with a decimal point; what is none stays none.

        With a decimal comma a point is no part of a number: whether `1.234` is a thousand is not guessed.
        """
        if self.decimal == ".":
            return text
        return "" if "." in text else text.replace(self.decimal, ".")


PLAIN = Reading()


def significant_digits(number: str) -> int:
    """Return how many digits of a plain decimal count: all but leading zeros."""
    return len(number.lstrip("-").replace(".", "").lstrip("0"))


def text_kind(text: str, reading: Reading = PLAIN) -> str:
    """Return what a CSV field looks like.

    One of integer, long (an integer of more than 15 digits), real, decimal, boolean, date, naive and
    zoned (timestamps), text.
    """
    number = reading.number(text)
    match = _NUMBER.fullmatch(number)
    if match is not None:
        return number_kind(number, whole=match[1] is None)
    if text.lower() in BOOLEANS:
        return "boolean"
    return reading.times.kind(text) or "text"


def number_kind(number: str, *, whole: bool) -> str:
    """Return integer, long, real or decimal for a plain number."""
    digits = significant_digits(number)
    if not whole:
        return "real" if digits <= EXACT_DIGITS else "decimal"
    if digits <= EXACT_DIGITS:
        return "integer"
    return "long" if digits <= 19 and SMALLEST_INTEGER <= int(number) <= LARGEST_INTEGER else "decimal"


def fits_precision(number: str, type_name: str) -> bool:
    """Return whether a plain decimal fits `decimal(p,s)` without rounding; always for `decimal`."""
    _, _, inner = type_name.partition("(")
    if not inner:
        return True
    precision, scale = (int(part) for part in inner.rstrip(")").split(","))
    whole, _, fraction = number.lstrip("-").partition(".")
    return len(whole.lstrip("0")) <= precision - scale and len(fraction.rstrip("0")) <= scale


def _boolean(text: str, column: Column, reading: Reading) -> object:
    return BOOLEANS.get(text.lower(), MISFIT)


def _integer(text: str, column: Column, reading: Reading) -> object:
    text = reading.number(text)
    match = _NUMBER.fullmatch(text)
    if match is None or match[1] is not None or len(text) > 20:
        return MISFIT
    number = int(text)
    return number if SMALLEST_INTEGER <= number <= LARGEST_INTEGER else MISFIT


def _real(text: str, column: Column, reading: Reading) -> object:
    text = reading.number(text)
    return float(text) if _NUMBER.fullmatch(text) and significant_digits(text) <= EXACT_DIGITS else MISFIT


def _decimal(text: str, column: Column, reading: Reading) -> object:
    text = reading.number(text)
    return text if _NUMBER.fullmatch(text) and fits_precision(text, column.type) else MISFIT


def _date(text: str, column: Column, reading: Reading) -> object:
    return reading.times.date(text) or MISFIT


def _timestamp(text: str, column: Column, reading: Reading) -> object:
    return reading.times.timestamp(text, zoned=column.zoned) or MISFIT


def _json(text: str, column: Column, reading: Reading) -> object:
    try:
        _JSON.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return MISFIT
    return text


def _text(text: str, column: Column, reading: Reading) -> object:
    return text


_ONE: dict[str, Callable[[str, Column, Reading], object]] = {
    "boolean": _boolean,
    "integer": _integer,
    "real": _real,
    "decimal": _decimal,
    "date": _date,
    "timestamp": _timestamp,
    "json": _json,
    "text": _text,
}


def stored_value(text: str, column: Column, reading: Reading = PLAIN) -> object:
    """Return the stored value of one text that is not NULL, or MISFIT."""
    return _ONE[column.base](text, column, reading)


def _plain(texts: Sequence[str], characters: bytes) -> bool:
    """Return whether a column holds nothing but plain numbers, the place of `-` apart."""
    joined = f",{','.join(texts)},".encode("utf-8", "replace")
    return not joined.translate(None, characters) and _NOT_PLAIN.search(joined.translate(_TO_SHAPE)) is None


def _integers(texts: Sequence[str], column: Column) -> Sequence[object] | None:
    if not _plain(texts, _INTEGER_CHARACTERS) or max(map(len, texts)) > 20:
        return None
    numbers = list(map(int, texts))
    return numbers if min(numbers) >= SMALLEST_INTEGER and max(numbers) <= LARGEST_INTEGER else None


def _reals(texts: Sequence[str], column: Column) -> Sequence[object] | None:
    if max(map(len, texts)) > EXACT_DIGITS or not _plain(texts, _REAL_CHARACTERS):
        return None
    return list(map(float, texts))


def _decimals(texts: Sequence[str], column: Column) -> Sequence[object] | None:
    if column.type != "decimal" or not _plain(texts, _REAL_CHARACTERS):
        return None
    # A number with two points or an inner minus has the right characters all the same.
    return texts if all(map(_NUMBER.fullmatch, texts)) else None


def _booleans(texts: Sequence[str], column: Column) -> Sequence[object] | None:
    return list(map(BOOLEANS.__getitem__, texts))


def _dates(texts: Sequence[str], column: Column) -> Sequence[object] | None:
    return texts if all(map(is_date, set(texts))) else None


def _timestamps(texts: Sequence[str], column: Column) -> Sequence[object] | None:
    return stored_timestamps(texts, zoned=column.zoned)


def _texts(texts: Sequence[str], column: Column) -> Sequence[object] | None:
    return texts


_COLUMN: dict[str, Callable[[Sequence[str], Column], Sequence[object] | None]] = {
    "boolean": _booleans,
    "integer": _integers,
    "real": _reals,
    "decimal": _decimals,
    "date": _dates,
    "timestamp": _timestamps,
    "text": _texts,
}


_NUMERIC = frozenset({"integer", "real", "decimal"})
_TIMED = frozenset({"date", "timestamp"})


def _fast(texts: Sequence[str], column: Column, reading: Reading) -> Sequence[object] | None:
    convert = _COLUMN.get(column.base)
    if column.base in _TIMED and not reading.times.plain:
        return None
    if column.base in _NUMERIC and reading.decimal != ".":
        texts = list(map(reading.number, texts))
    if convert is None or not texts:
        return None
    try:
        return convert(texts, column)
    except (ValueError, KeyError):
        return None


def stored_column(
    texts: Sequence[str],
    column: Column,
    nulls: frozenset[str],
    quoted: Sequence[int] = (),
    reading: Reading = PLAIN,
) -> tuple[Sequence[object], list[int]]:
    """Return the stored values of a column of texts, and the positions of misfits (None is stored there).

    Texts in `nulls` are NULL, except at the positions in `quoted`: there the text was in quotes. An empty one
    in a column that is not text is NULL all the same.
    """
    if column.base != "text" and "" not in nulls:
        nulls |= {""}
    # Looking for a few words one by one is faster than hashing every text.
    if not any(null in texts for null in nulls):
        values = _fast(texts, column, reading)
        if values is not None:
            return values, []
        found = [stored_value(text, column, reading) for text in texts]
    else:
        present = [text for text in texts if text not in nulls]
        fast = _fast(present, column, reading)
        some = iter([stored_value(text, column, reading) for text in present] if fast is None else fast)
        found = [None if text in nulls else next(some) for text in texts]
    for index in quoted:
        if texts[index] or column.base == "text":
            found[index] = stored_value(texts[index], column, reading)
    misfits = [index for index, value in enumerate(found) if value is MISFIT]
    for index in misfits:
        found[index] = None
    return found, misfits
