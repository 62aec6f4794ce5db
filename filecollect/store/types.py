"""Column types whose stored form is ours, and the database's clock as an expression.

Invariant: what is stored means the same in both databases and survives SQLite's type affinity. So an
instant is TEXT on SQLite and timestamptz on PostgreSQL, JSON is TEXT on SQLite (a column declared
JSON has NUMERIC affinity there, which shortens `1.10`) and jsonb on PostgreSQL. Python always sees
aware datetimes in UTC. Device and inode numbers are unsigned; both databases only know signed ones.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import BigInteger, DateTime, Dialect, Double, Integer, Text, literal, types
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

SIGNED_LIMIT = 2**63
_AS_TEXT = "_json"

BigId = BigInteger().with_variant(Integer, "sqlite")
"""A BIGINT that SQLite still numbers by itself: only INTEGER PRIMARY KEY is the rowid there."""


def to_json(value: Any) -> str:
    """Return compact JSON text; raise ValueError for NaN and infinities."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def instant_text(value: datetime) -> str:
    """Return `YYYY-MM-DD HH:MM:SS.mmm` in UTC, always three digits; raise ValueError without a zone."""
    if value.tzinfo is None:
        raise ValueError(f"expected an instant with a time zone, got {value!r}")
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "milliseconds")


class Instant(TypeDecorator[datetime]):
    """Our own timestamps: aware datetimes in and out, UTC, milliseconds on SQLite."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Store text on SQLite, timestamptz elsewhere."""
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else types.TIMESTAMP(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Return what the driver stores; raise ValueError for a datetime without a zone."""
        if value is None:
            return None
        text = instant_text(value)
        return text if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Return an aware datetime in UTC."""
        if value is None:
            return None
        if isinstance(value, str):
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
        instant: datetime = value
        return instant.astimezone(UTC)


class Json(TypeDecorator[Any]):
    """A JSON value: TEXT on SQLite, jsonb on PostgreSQL; None is SQL NULL.

    jsonb refuses the character NUL (in a CSV header, say): such a value is stored as its own text, in
    an object with the one key `_json`.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Store text on SQLite, jsonb elsewhere."""
        return dialect.type_descriptor(Text() if dialect.name == "sqlite" else JSONB(none_as_null=True))

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Return what the driver stores."""
        if value is None:
            return None
        text = to_json(value)
        if dialect.name == "sqlite":
            return text
        return {_AS_TEXT: text} if "\\u0000" in text else value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Return the decoded value."""
        if value is not None and dialect.name == "sqlite":
            return json.loads(value)
        return json.loads(value[_AS_TEXT]) if isinstance(value, dict) and list(value) == [_AS_TEXT] else value


class Unsigned64(TypeDecorator[int]):
    """A device or inode number, 0 to 2^64-1, stored in a signed 64-bit column."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        """Fold the upper half into the negative numbers."""
        return value - 2 * SIGNED_LIMIT if value is not None and value >= SIGNED_LIMIT else value

    def process_result_value(self, value: int | None, dialect: Dialect) -> int | None:
        """Unfold the negative numbers."""
        return value + 2 * SIGNED_LIMIT if value is not None and value < 0 else value


class DatabaseNow(FunctionElement[datetime]):
    """The database's clock, plus `plus_s` seconds; it runs on inside a transaction."""

    type = Instant()
    inherit_cache = True

    def __init__(self, plus_s: float = 0) -> None:
        # A bound number keeps statements cacheable, whatever the lease.
        super().__init__(*([literal(float(plus_s), Double)] if plus_s else []))


@compiles(DatabaseNow, "sqlite")
def _sqlite_now(element: DatabaseNow, compiler: SQLCompiler, **kw: Any) -> str:
    shift = "".join(f",printf('%+.3f seconds',{compiler.process(plus, **kw)})" for plus in element.clauses)
    return f"strftime('%Y-%m-%d %H:%M:%f','now'{shift})"


@compiles(DatabaseNow)
def _now(element: DatabaseNow, compiler: SQLCompiler, **kw: Any) -> str:
    # now() stands still inside a transaction; a lease must be measured on a running clock.
    shift = "".join(f" + make_interval(secs => {compiler.process(plus, **kw)})" for plus in element.clauses)
    return f"(clock_timestamp(){shift})" if shift else "clock_timestamp()"
