"""JSON values to stored values, one at a time, from their exact text.

A JSON value's own type wins over its looks: `"007"` is text, `7.0` is no integer. A number is stored
without loss or not at all: a float only where it is exact to 15 significant digits, else a decimal
with the digits as written. A declared column also takes a string that says a value of its type exactly
(there are no dates in JSON, and money is often a string).
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from filecollect.domain.columns import Column
from filecollect.parse.convert import (
    EXACT_DIGITS,
    LARGEST_INTEGER,
    MISFIT,
    PLAIN,
    SMALLEST_INTEGER,
    Reading,
    fits_precision,
    number_kind,
    significant_digits,
    stored_value,
)

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMERIC_WHOLE, _NUMERIC_FRACTION = 131_072, 16_383
_SMALLEST_NORMAL = 2.2250738585072014e-308
_string = msgspec.json.Decoder(str).decode


class Number(str):
    """A JSON number with a fraction or an exponent, as written."""

    __slots__ = ()


def is_exact_real(number: str) -> bool:
    """Return whether a number with a fraction or an exponent survives a float."""
    mantissa = re.split("[eE]", number, maxsplit=1)[0]
    digits = significant_digits(mantissa)
    if digits > EXACT_DIGITS:
        return False
    value = abs(float(number))
    return _SMALLEST_NORMAL <= value < float("inf") or (value == 0 and not mantissa.strip("-0."))


def json_kind(value: object) -> str | None:
    """Return what a decoded JSON value looks like (see `convert.text_kind`), None for null.

    Numbers that are no integers must come as `Number` (the decoder's float_hook).
    """
    if value is None:
        return None
    if isinstance(value, Number):
        return "real" if is_exact_real(value) else "decimal"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        if SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
            return number_kind(str(value), whole=True)
        return "decimal"
    return "text" if isinstance(value, str) else "json"


def needs_its_text(value: object) -> bool:
    """Return whether a decoded JSON value holds what a binary form of JSON loses or refuses.

    That is the character NUL, and numbers of more digits than PostgreSQL's numeric has. Numbers that
    are no integers must come as `Number`.
    """
    if isinstance(value, Number):
        mantissa, _, exponent = value.lower().partition("e")
        whole, _, fraction = mantissa.partition(".")
        shift = int(exponent or 0)
        return len(whole) + shift > _NUMERIC_WHOLE or len(fraction) - shift > _NUMERIC_FRACTION
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(needs_its_text(one) for pair in value.items() for one in pair)
    if isinstance(value, list):
        return any(map(needs_its_text, value))
    return False


def _of_number(column: Column, number: str, reading: Reading) -> object:
    whole = _INTEGER.fullmatch(number) is not None
    if column.base == "integer":
        if not whole or len(number) > 20:
            return MISFIT
        value = int(number)
        return value if SMALLEST_INTEGER <= value <= LARGEST_INTEGER else MISFIT
    if column.base == "decimal":
        plain = "e" not in number and "E" not in number
        # An exponent cannot be checked against decimal(p,s) digit by digit.
        return number if column.type == "decimal" or (plain and fits_precision(number, column.type)) else MISFIT
    if column.base == "timestamp" and column.declared and reading.times.counts:
        return reading.times.timestamp(number, zoned=column.zoned) or MISFIT
    if column.base != "real":
        return MISFIT
    if not whole:
        return float(number) if is_exact_real(number) else MISFIT
    if len(number) > 300:
        return MISFIT
    # An integer -0 has no sign, so neither has its float.
    exact = int(number)
    return float(exact) if int(float(exact)) == exact else MISFIT


def _of_string(column: Column, text: str, reading: Reading) -> object:
    return stored_value(text, column, reading) if column.declared else MISFIT


def _of_word(column: Column, word: str, reading: Reading) -> object:
    return word == "true" if column.base == "boolean" else MISFIT


_BY_FIRST: dict[str, Callable[[Column, str, Reading], object]] = {"t": _of_word, "f": _of_word}


def stored_json(column: Column, text: str, reading: Reading = PLAIN) -> object:
    """Return the stored value of one JSON value that is not null, or MISFIT; `text` must be valid JSON."""
    if column.base == "json":
        return text
    if text[0] == '"':
        string = _string(text)
        return string if column.base == "text" else _of_string(column, string, reading)
    if column.base == "text":
        return text
    if text[0] in "{[":
        return MISFIT
    return _BY_FIRST.get(text[0], _of_number)(column, text, reading)
