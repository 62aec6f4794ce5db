"""ISO dates and timestamps: which texts are one, and how they are stored.

Only `YYYY-MM-DD` and `YYYY-MM-DD[T ]HH:MM[:SS[.f{1,9}]]` with an optional `Z`, `+HH:MM` or `+HHMM` count;
everything else is somebody's local format and is never guessed. A naive timestamp is stored as
written, a zoned one in UTC; both as `YYYY-MM-DD HH:MM:SS[.ffffff]`. Digits after the sixth of a
fraction are cut off: no database here stores them. Days and hours that do not exist are no timestamps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import lru_cache

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SHAPE = re.compile(r"0000-00-00[T ]00:00(?::00(?:\.0{1,9})?)?(?P<zone>Z|[+-]00:?00)?")
_TO_SHAPE = str.maketrans("123456789", "000000000")
_STORED_SHAPE = "0000-00-00 00:00:00"


@lru_cache(maxsize=1024)
def _zone_of_shape(shape: str) -> str | None:
    match = _SHAPE.fullmatch(shape)
    return None if match is None else "zoned" if match["zone"] else "naive"


def is_date(text: str) -> bool:
    """Return whether `text` is a day that exists, as `YYYY-MM-DD`."""
    if len(text) != 10 or _DATE.fullmatch(text) is None:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def zone_kind(text: str) -> str | None:
    """Return "naive" or "zoned" for a timestamp that exists, else None."""
    kind = _zone_of_shape(text.translate(_TO_SHAPE)) if 16 <= len(text) <= 35 else None
    if kind is not None and stored_timestamp(text, zoned=kind == "zoned") is None:
        return None
    return kind


def stored_timestamp(text: str, *, zoned: bool) -> str | None:
    """Return the stored form of a timestamp; None when it is none, or the other kind."""
    if not 16 <= len(text) <= 35 or _zone_of_shape(text.translate(_TO_SHAPE)) != ("zoned" if zoned else "naive"):
        return None
    try:
        return _stored(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return None


def stored_timestamps(texts: Sequence[str], *, zoned: bool) -> list[str] | None:
    """Return the stored forms of a whole column; None when any text needs a closer look."""
    joined = "\n".join(texts)
    shapes = joined.translate(_TO_SHAPE).split("\n")
    if len(shapes) != len(texts):
        return None
    wanted = "zoned" if zoned else "naive"
    different = set(shapes)
    # A shape that is unusually varied is not worth caching.
    if len(different) > 64 or any(len(shape) > 35 or _zone_of_shape(shape) != wanted for shape in different):
        return None
    try:
        instants = list(map(datetime.fromisoformat, texts))
        if different == {_STORED_SHAPE}:
            return list(texts)
        return list(map(_stored, instants)) if zoned else [str(instant) for instant in instants]
    except (ValueError, OverflowError):
        return None


def _stored(instant: datetime) -> str:
    return str(instant if instant.tzinfo is None else instant.astimezone(UTC).replace(tzinfo=None))
