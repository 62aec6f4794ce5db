"""Values: text and JSON become the values that are stored, per column type.

A value either fits its column's type exactly or is a misfit; nothing is bent to fit. NULL is None.
Decimals, dates and timestamps are canonical text, the same for every database; zoned timestamps are
converted to UTC. Column-at-a-time for CSV: `int` and back must give the same text, so `007`, `1_000`
and full-width digits never become numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from filecollect.domain.columns import Column

INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
REAL = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
PLAIN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?")
DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
STAMP = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
LEAST, MOST = -(2**63), 2**63 - 1
_DAYS = r"(?!0000)[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
_SHAPES = {
    "real": re.compile(r"(?:-?[0-9]+(?:\.[0-9]+)?\n)*"),
    "date": re.compile(rf"(?:{_DAYS}\n)*"),
    "timestamp": re.compile(rf"(?:{_DAYS} (?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\n)*"),
}
"""Whole columns that need no look at each value; days after the 28th do."""
Misfit = object()
"""Stands for a value that does not fit."""
_encoder = msgspec.json.Encoder(decimal_format="number")


def significant(text: str) -> int:
    """Return the significant digits of a plain decimal."""
    return len(text.replace("-", "").replace(".", "").lstrip("0"))


def as_date(text: str) -> Any:
    """Return an ISO date as stored, else Misfit."""
    match = DATE.fullmatch(text)
    if match is None:
        return Misfit
    try:
        date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return Misfit
    return text


def stamp_zone(text: str) -> bool | None:
    """Return whether an ISO timestamp has a zone, None when it is no timestamp."""
    match = STAMP.fullmatch(text)
    if match is None or as_date(match[1]) is Misfit:
        return None
    hour, minute = int(match[2][:2]), int(match[2][3:])
    if hour > 23 or minute > 59 or int((match[3] or ":0")[1:]) > 59 or (match[4] and not match[3]):
        return None
    return match[5] is not None


def as_stamp(text: str, zoned: bool) -> Any:
    """Return an ISO timestamp as stored, naive as written or zoned in UTC, else Misfit."""
    if stamp_zone(text) is not zoned:
        return Misfit
    match = STAMP.fullmatch(text)
    assert match is not None
    plain = f"{match[1]} {match[2]}{match[3] or ':00'}"
    fraction = "" if not match[4] else f".{match[4]}"
    if zoned:
        zone = match[5]
        shift = timedelta()
        if zone != "Z":
            digits = zone[1:].replace(":", "")
            shift = timedelta(hours=int(digits[:2]), minutes=int(digits[2:])) * (-1 if zone[0] == "-" else 1)
        try:
            instant = datetime.strptime(plain, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC) - shift
        except (ValueError, OverflowError):
            return Misfit
        plain = instant.replace(tzinfo=None).isoformat(" ")
    return plain + (fraction[:7].rstrip("0").rstrip(".") if len(fraction) > 7 else fraction)


def text_converter(column: Column) -> Callable[[str], Any]:
    """Return the function that turns non-empty text into a column's value or Misfit."""
    base = column.base

    def integer(text: str) -> Any:
        return int(text) if INTEGER.fullmatch(text) and LEAST <= int(text) <= MOST else Misfit

    def real(text: str) -> Any:
        return float(text) if REAL.fullmatch(text) and significant(text) <= 15 else Misfit

    def decimal(text: str) -> Any:
        return text if REAL.fullmatch(text) and fits_decimal(text, column.type) else Misfit

    def boolean(text: str) -> Any:
        return {"true": True, "false": False}.get(text.lower(), Misfit)

    def json(text: str) -> Any:
        try:
            msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return Misfit
        return text

    if base == "timestamp":
        if column.declared:
            return lambda text: as_stamp(text, bool(stamp_zone(text)))
        return lambda text: as_stamp(text, column.zoned)
    converters: dict[str, Callable[[str], Any]] = {
        "integer": integer,
        "real": real,
        "decimal": decimal,
        "boolean": boolean,
        "json": json,
        "date": as_date,
    }
    return converters.get(base, str)


def fits_decimal(text: str, type_name: str) -> bool:
    """Return whether a plain decimal fits `decimal(p,s)`; without precision everything fits."""
    if "(" not in type_name:
        return True
    precision, scale = (int(part) for part in type_name[8:-1].split(","))
    whole, _, fraction = text.lstrip("-").partition(".")
    return len(fraction.rstrip("0")) <= scale and len(whole.lstrip("0")) <= precision - scale


def text_column(values: Sequence[str | None], column: Column) -> tuple[list[Any], list[int]]:
    """Return the stored values of a column of texts (None = NULL) and the indexes of misfits."""
    if column.base == "text":
        return list(values), []
    texts: list[str] = list(values) if None not in values else [value for value in values if value is not None]  # type: ignore[arg-type]
    fast = _at_once(texts, column)
    if fast is not None:
        if len(fast) == len(values):
            return fast, []
        following = iter(fast)
        return [None if value is None else next(following) for value in values], []
    convert = text_converter(column)
    distinct = set(texts)
    if 2 * len(distinct) <= len(texts):
        known: dict[str | None, Any] = {text: convert(text) for text in distinct}
        known[None] = None
        stored = list(map(known.__getitem__, values))
    else:
        stored = [None if value is None else convert(value) for value in values]
    misfits = [index for index, value in enumerate(stored) if value is Misfit] if Misfit in stored else []
    for index in misfits:
        stored[index] = None
    return stored, misfits


def _at_once(texts: list[str], column: Column) -> list[Any] | None:
    """Return all values of a column converted without a look at each, None when that is not certain to be right."""
    if not texts:
        return []
    if column.base == "integer":
        try:
            numbers = list(map(int, texts))
        except ValueError:
            return None
        same = list(map(str, numbers)) == texts
        return numbers if same and max(numbers) <= MOST and min(numbers) >= LEAST else None
    shape = _SHAPES.get(column.base)
    if shape is None or (column.base == "timestamp" and column.zoned):
        return None
    if column.base == "real" and max(map(len, texts)) > 15:
        return None
    if shape.fullmatch("\n".join(texts) + "\n") is None:
        return None
    return list(map(float, texts)) if column.base == "real" else texts


def json_text(value: Any) -> str:
    """Return a value as compact JSON text; big numbers keep their digits."""
    return _encoder.encode(value).decode()


def json_value(value: Any, column: Column) -> Any:
    """Return a decoded JSON value as a column stores it, or Misfit; null is None."""
    if value is None:
        return None
    base, kind = column.base, type(value)
    if base == "json":
        return json_text(value)
    if base == "text":
        return value if kind is str else json_text(value)
    if base == "integer":
        return value if kind is int and LEAST <= value <= MOST else Misfit
    if base == "real":
        if kind is float:
            return value
        return float(value) if kind is int and abs(value) <= 2**53 else Misfit
    if base == "decimal":
        if kind not in {int, float, Decimal}:
            return text_converter(column)(value) if kind is str and column.declared else Misfit
        text = format(value, "f") if kind is Decimal else json_text(value)
        return text if REAL.fullmatch(text) and fits_decimal(text, column.type) else Misfit
    if base == "boolean":
        return value if kind is bool else Misfit
    return text_converter(column)(value) if kind is str else Misfit
