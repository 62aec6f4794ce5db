"""The small checked types that settings are made of.

Nothing is converted on the way in: a number in quotes is text, `true` is no number. Each check
words its own mistake as `expected ...`; what was found is added by `wording.py`.
"""

from __future__ import annotations

import codecs
import math
import re
import warnings
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, BaseModel, Strict, WrapValidator

from filecollect.config.wording import did_you_mean, show
from filecollect.domain.columns import TYPES, normal_type

Check = Callable[[Any], Any]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
NAME_BYTES = 128
"""The longest source or sink name, in bytes of UTF-8 (VARCHAR(128) in the tables)."""
IDENTIFIER_BYTES = 63
"""The longest name of a table or schema, in bytes of UTF-8 (PostgreSQL's limit)."""

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_OFFSET = re.compile(r"[+-](?:0\d|1[0-4]):[0-5]\d")
_ASCII = bytes([9, 10, 13, *range(32, 127)])
_STATEFUL = re.compile(r"utf-7|iso2022.*|hz|punycode|idna|(raw_)?unicode_escape|undefined|mbcs|oem")
_EPOCHS = frozenset({"epoch", "epoch_ms", "epoch_us", "epoch_ns"})
_YEAR = re.compile(r"%[YyGcx]")
_WIDE = re.compile(r"utf-(16|32)(-[lb]e)?")


def _text(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("expected text in quotes")
    return value


def _filled(value: Any) -> str:
    if not _text(value):
        raise ValueError("expected text that is not empty")
    return str(value)


def whole(lowest: int, highest: int | None = None) -> Check:
    """Accept a whole number from `lowest` to `highest`."""

    def check(value: Any) -> int:
        if type(value) is not int or value < lowest or (highest is not None and value > highest):
            span = f"of at least {lowest}" if highest is None else f"from {lowest} to {highest}"
            raise ValueError(f"expected a whole number {span}")
        return value

    return check


def number(*, above: float | None = None, least: float | None = None) -> Check:
    """Accept a finite number, whole or not, `above` a bound or of at `least` one."""

    bound = f"above {above}" if above is not None else f"of at least {least}"

    def check(value: Any) -> Any:
        right = type(value) in (int, float) and math.isfinite(value)
        if not right or (above is not None and value <= above) or (least is not None and value < least):
            raise ValueError(f"expected a number {bound}")
        return value  # 30 stays 30, so that it is shown again as it was written

    return check


def optional(check: Check, *words: str) -> Check:
    """Accept None, or one of `words` that stand for it, besides what `check` accepts."""

    def checked(value: Any) -> Any:
        return None if value is None or (isinstance(value, str) and value in words) else check(value)

    return checked


def shape(model: type[BaseModel], what: str, *words: str) -> Check:
    """Accept None, one of `words`, or a table that `model` accepts; `what` names all of them."""

    def check(value: Any) -> Any:
        if value is None or isinstance(value, model) or (isinstance(value, str) and value in words):
            return value
        if not isinstance(value, dict):
            raise ValueError(f"expected {what}")
        return model.model_validate(value)  # its mistakes keep their own place

    return check


def _path(value: Any) -> str:
    if not _filled(value).strip():
        raise ValueError("expected a path")
    if value == "-" or value.startswith("/dev/stdin"):
        raise ValueError("expected paths of files (save standard input to a file first)")
    if _URL.match(value):
        raise ValueError("expected paths of local files (download the file first)")
    return str(value)


def _column_type(value: Any) -> str:
    try:
        normal = normal_type(_text(value))
    except ValueError as problem:
        wanted = str(problem).partition(", got ")[0]
        near = did_you_mean(value, TYPES) if isinstance(value, str) else ""
        raise ValueError(f"{wanted}, got {show(value)}{near}") from None
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", normal)
    if found and not (1 <= int(found[1]) <= 1000 and int(found[2]) <= int(found[1])):
        raise ValueError("expected decimal(digits, decimals) with 1 to 1000 digits and not more decimals than digits")
    return normal


def _table(value: Any) -> str | bool | None:
    if value is None or value is False:
        return value
    wanted = 'expected a table name such as "orders" or "schema.orders", or false'
    if not isinstance(value, str) or value.count(".") > 1 or _CONTROL.search(value):
        raise ValueError(wanted)
    if not all(value.split(".")):
        raise ValueError(wanted)
    if max(len(part.encode(errors="replace")) for part in value.split(".")) > IDENTIFIER_BYTES:
        raise ValueError(f"expected a table name of at most {IDENTIFIER_BYTES} bytes")
    return value


def _schema(value: Any) -> str:
    if not isinstance(value, str) or not 1 <= len(value.encode(errors="replace")) <= IDENTIFIER_BYTES:
        raise ValueError(f"expected a schema's name of 1 to {IDENTIFIER_BYTES} bytes")
    if _CONTROL.search(value):
        raise ValueError("expected a schema's name without control characters")
    return value


def _delimiter(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 1 or value in '\r\n"\0':
        raise ValueError('expected one character such as ";" or "\\t" (no quote, no line end), or "auto"')
    return value


def _mark(what: str, *, empty: bool = False) -> Check:
    """Accept one character that can mark something in CSV, or nothing where `empty`."""

    wanted = f"expected one character such as {what}, or " + ('"" for none' if empty else '"auto"')

    def check(value: Any) -> str:
        if not isinstance(value, str) or not value.isascii() or len(value) > 1 or not (value or empty):
            raise ValueError(wanted)
        if value in ("\r", "\n", "\0"):
            raise ValueError(wanted)
        return value

    return check


def _header(value: Any) -> bool | tuple[str, ...]:
    if isinstance(value, bool):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) and "\0" not in name for name in value):
        return tuple(value)
    raise ValueError('expected true, false, "auto" or a list of column names')


def _encoding(value: Any) -> str:
    """Return the codec's own name; refuse those in which record ends cannot be found by their bytes."""
    try:
        codec = codecs.lookup(_filled(value))
        name = codec.name
        safe = _WIDE.fullmatch(name) or (
            codec._is_text_encoding and not _STATEFUL.fullmatch(name) and _ASCII.decode(name) == _ASCII.decode("ascii")
        )
    except (LookupError, ValueError):
        safe = None
    if not safe:
        raise ValueError('expected an encoding such as "utf-8", "cp1252" or "shift_jis", or "auto"')
    return name


def _compiled(value: Any) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings(action="ignore"):
            return re.compile(_filled(value))
    except (re.error, OverflowError, RecursionError) as problem:
        raise ValueError(f"expected a regular expression ({problem})") from None


def _regex(value: Any) -> str:
    return _compiled(value).pattern


def _named_groups(value: Any) -> str:
    if not _compiled(value).groupindex:
        raise ValueError("expected a regular expression with a named group such as (?P<day>...)")
    return str(value)


def _time_format(value: Any) -> str:
    if _filled(value) in _EPOCHS:
        return str(value)
    if not _YEAR.search(value):
        raise ValueError('expected a format with a year, such as "%d/%m/%Y %H:%M:%S", or "epoch", "epoch_ms" ...')
    if "%Z" in value:
        raise ValueError("expected a format without %Z (zone names mean different things on different machines)")
    try:
        datetime.strptime("", value)
    except ValueError as problem:
        if "does not match" not in str(problem):
            raise ValueError(f"expected a format of strptime ({problem})") from None
    except re.error as problem:
        raise ValueError(f"expected a format of strptime ({problem})") from None
    return str(value)


def _zone(value: Any) -> str:
    wanted = 'expected a time zone such as "Europe/Berlin", "UTC" or "+02:00"'
    if _filled(value) == "UTC" or _OFFSET.fullmatch(value):
        return str(value)
    try:
        ZoneInfo(value)
    except (ValueError, OSError):
        raise ValueError(wanted) from None
    except KeyError:
        # Small containers have no zone files at all; then nothing can be said against a name.
        if available_timezones():
            raise ValueError(wanted) from None
    return str(value)


def _marker(value: Any) -> str:
    if set(_PLACEHOLDER.findall(_filled(value))) - {"name"}:
        raise ValueError('expected a file name in which only {name} is replaced, such as "{name}.done"')
    return str(value)


def name_problem(name: str) -> str | None:
    """Return what is expected of a source's or sink's name, or None when `name` is fine."""
    if not 1 <= len(name.encode(errors="replace")) <= NAME_BYTES:
        return f"expected a name of 1 to {NAME_BYTES} bytes, got {len(name.encode(errors='replace'))}"
    if _CONTROL.search(name) or name != name.strip():
        return "expected a name without control characters and without spaces around it"
    return None


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    found = tuple(values)
    if len(set(found)) < len(found):
        raise ValueError("expected each name once")
    return found


def _some(values: tuple[str, ...]) -> tuple[str, ...]:
    if not values:
        raise ValueError("expected at least one path")
    return values


def is_path(value: Any) -> bool:
    """Return whether a value can be the path or glob of local files."""
    try:
        _path(value)
    except ValueError:
        return False
    return True


def by(check: Check) -> WrapValidator:
    """Make `check` the whole validation of a field; its value is kept as `check` returns it."""
    return WrapValidator(lambda value, _: check(value))


Flag = Annotated[bool, Strict()]
Filled = Annotated[str, by(_filled)]
Word = Annotated[str, by(_text)]
PathText = Annotated[str, by(_path)]
Paths = Annotated[tuple[PathText, ...], AfterValidator(_some)]
ColumnType = Annotated[str, by(_column_type)]
Names = Annotated[tuple[Filled, ...], AfterValidator(_distinct)]
Lineage = Annotated[tuple[Literal["file", "line", "at", "host"], ...], AfterValidator(_distinct)]
TableName = Annotated[str | Literal[False] | None, by(_table)]
SchemaName = Annotated[str | None, by(optional(_schema))]
OptionalText = Annotated[str | None, by(optional(_filled))]
Quote = Annotated[str | None, by(optional(_mark('"\'"', empty=True), "auto"))]
Escape = Annotated[str | None, by(optional(_mark('"\\\\"', empty=True), "auto"))]
Comment = Annotated[str | None, by(optional(_mark('"#"', empty=True), "auto"))]
Delimiter = Annotated[str | None, by(optional(_delimiter, "auto"))]
Header = Annotated[bool | tuple[str, ...] | None, by(optional(_header, "auto"))]
Encoding = Annotated[str | None, by(optional(_encoding, "auto"))]
Regex = Annotated[str, by(_regex)]
OptionalRegex = Annotated[str | None, by(optional(_regex))]
PathColumns = Annotated[str | None, by(optional(_named_groups))]
TimeFormats = tuple[Annotated[str, by(_time_format)], ...]
Zone = Annotated[str | None, by(optional(_zone))]
Marker = Annotated[str | None, by(optional(_marker))]
Seconds = Annotated[float, by(number(above=0))]
OptionalSeconds = Annotated[float | None, by(optional(number(above=0)))]
OptionalCount = Annotated[int | None, by(optional(whole(1)))]
