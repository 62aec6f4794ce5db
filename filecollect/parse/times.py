"""Dates and timestamps: which texts are one, and how they are stored.

Without a wish only `YYYY-MM-DD` and `YYYY-MM-DD[T ]HH:MM[:SS[.f{1,9}]]` with an optional `Z`, `+HH:MM` or
`+HHMM` count; everything else is somebody's local format and is never guessed. A naive timestamp is stored as
written, a zoned one in UTC; both as `YYYY-MM-DD HH:MM:SS[.ffffff]`. Digits after the sixth of a
fraction are cut off: no database here stores them. Days and hours that do not exist are no timestamps.

`Times` is the user's wish: strptime formats, tried in order before the ISO ones, and the zone that naive
timestamps are in; with a zone all are stored in UTC. An hour that comes twice when clocks are put back
is the first of the two; an hour that is left out when they are put forward does not exist. `epoch`,
`epoch_ms`, `epoch_us` and `epoch_ns` are numbers since 1970 in UTC; they are read in declared columns only, because
any number could be one. A format without a time of day says a date.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from filecollect.errors import Unsupported

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_SHAPE = re.compile(r"0000-00-00[T ]00:00(?::00(?:\.0{1,9})?)?(?P<zone>Z|[+-]00:?00)?")
_TO_SHAPE = str.maketrans("123456789", "000000000")
_STORED_SHAPE = "0000-00-00 00:00:00"
_WHOLE_SECONDS = frozenset({"0000-00-00T00:00:00", "0000-00-00T00:00:00Z", "0000-00-00 00:00:00Z"})
"""Shapes of which the stored form is a part: no fraction, and no offset to take off."""


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
        if different <= _WHOLE_SECONDS:
            return [f"{text[:10]} {text[11:19]}" for text in texts]
        return list(map(_stored, instants)) if zoned else [str(instant) for instant in instants]
    except (ValueError, OverflowError):
        return None


def _stored(instant: datetime) -> str:
    return str(instant if instant.tzinfo is None else instant.astimezone(UTC).replace(tzinfo=None))


EPOCHS = {"epoch": 1, "epoch_ms": 1000, "epoch_us": 1_000_000, "epoch_ns": 1_000_000_000}
"""Formats that count time since 1970, and how many of their units make a second."""
_COUNT = re.compile(r"(-?)([0-9]{1,20})(?:\.([0-9]{1,9}))?")
_TIME_OF_DAY = re.compile(r"%[HIMSfpTXcsr]")
_START = datetime(1970, 1, 1)
_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name or fixed offset; raise Unsupported where its rules are not installed."""
    match = _OFFSET.fullmatch(name)
    if match is not None:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return timezone(-offset if match[1] == "-" else offset)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as problem:
        raise Unsupported(
            f"the rules of the time zone {name} are not on this machine", hint="`pip install tzdata` brings them"
        ) from problem


@dataclass(frozen=True, slots=True)
class Times:
    """How timestamps are written: `formats` in order, and the zone of naive ones."""

    formats: tuple[str, ...] = ()
    zone: tzinfo | None = None

    @classmethod
    def of(cls, formats: Sequence[str], zone: str | None) -> Times:
        """Return them for a spec; raise Unsupported for a zone without rules."""
        return cls(tuple(formats), None if zone is None else zone_of(zone))

    @property
    def plain(self) -> bool:
        """Return whether only ISO forms are timestamps, stored as they are."""
        return not self.formats and self.zone is None

    @property
    def counts(self) -> bool:
        """Return whether a number in a declared column may be a timestamp."""
        return any(one in EPOCHS for one in self.formats)

    def kind(self, text: str) -> str | None:
        """Return "date", "naive" or "zoned" as `text` would be stored, None for anything else."""
        for one in self.formats:
            if one not in EPOCHS and (instant := _read(text, one)) is not None:
                if _TIME_OF_DAY.search(one) is None:
                    return "date"
                return self._kind(instant)
        if is_date(text):
            return "date"
        found = zone_kind(text)
        if found == "naive" and self.zone is not None:
            return self._kind(datetime.fromisoformat(text))
        return found

    def _kind(self, instant: datetime) -> str | None:
        if instant.tzinfo is None and self.zone is None:
            return "naive"
        return "zoned" if self._utc(instant) is not None else None

    def date(self, text: str) -> str | None:
        """Return the stored form of a date, None when it is none."""
        for one in self.formats:
            if one not in EPOCHS and _TIME_OF_DAY.search(one) is None and (day := _read(text, one)) is not None:
                return day.date().isoformat()
        return text if is_date(text) else None

    def timestamp(self, text: str, *, zoned: bool) -> str | None:
        """Return the stored form of a timestamp; None when it is none, or the other kind."""
        for one in self.formats:
            instant = _counted(text, EPOCHS[one]) if one in EPOCHS else _read(text, one)
            if instant is not None:
                return self._stored(instant, zoned)
        if self.zone is None or not zoned or zone_kind(text) != "naive":
            return stored_timestamp(text, zoned=zoned)
        return self._stored(datetime.fromisoformat(text), zoned)

    def _stored(self, instant: datetime, zoned: bool) -> str | None:
        if not zoned:
            return str(instant) if instant.tzinfo is None else None
        return self._utc(instant)

    def _utc(self, instant: datetime) -> str | None:
        if instant.tzinfo is None:
            if self.zone is None:
                return None
            local = instant.replace(tzinfo=self.zone)
            try:
                if local.astimezone(UTC).astimezone(self.zone).replace(tzinfo=None) != instant:
                    return None
            except (ValueError, OverflowError):
                return None
            instant = local
        try:
            return _stored(instant)
        except (ValueError, OverflowError):
            return None


ISO = Times()
"""The usual reading: nothing but ISO forms, as they are."""


def _read(text: str, form: str) -> datetime | None:
    # strptime would take digits of other scripts, too.
    if not text.isascii():
        return None
    try:
        return datetime.strptime(text, form)
    except (ValueError, OverflowError):
        return None


def _counted(text: str, per_second: int) -> datetime | None:
    """Return the instant of a count since 1970, exact to the microsecond (later digits are cut off)."""
    match = _COUNT.fullmatch(text)
    if match is None:
        return None
    fraction = (match[3] or "").ljust(9, "0")
    microseconds = (int(match[2]) * 10**9 + int(fraction)) * 1_000_000 // (per_second * 10**9)
    try:
        return (_START + timedelta(microseconds=-microseconds if match[1] else microseconds)).replace(tzinfo=UTC)
    except OverflowError:
        return None
