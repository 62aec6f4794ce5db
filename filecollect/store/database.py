"""What differs between databases, in one small object each; everything else is one path for all.

    SQLite                              PostgreSQL
    executemany                         COPY into the target; on a conflict staging + ON CONFLICT
    the write transaction is the lock   an advisory lock before tables are made
    one host                            tasks belong to a host
    True == 1, text of decimals         numeric, boolean, timestamptz, jsonb; no NUL in text

Not here, because one statement fits all: the claim (FOR UPDATE SKIP LOCKED, which SQLite leaves out)
and the clock (`types.DatabaseNow`). Another database is another class, and its name in `DATABASES`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Connection, Engine

from filecollect.domain.columns import Column
from filecollect.errors import UsageError

Row = tuple[Any, ...]


def quoted(name: str) -> str:
    """Return a name as an SQL identifier, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Target:
    """A table to write to: its quoted name, and the columns of a row in order."""

    sql_name: str
    columns: tuple[str, ...]

    @property
    def sql_columns(self) -> str:
        """Return the columns as a quoted list."""
        return ", ".join(map(quoted, self.columns))


class Database(Protocol):
    """One kind of database. Methods use the caller's transaction and never commit."""

    @property
    def mark(self) -> str:
        """Return how a bound value is written in SQL."""

    @property
    def types(self) -> Mapping[str, str]:
        """Return the SQL types of column types, of `bigint` and of `instant`."""

    @property
    def has_hosts(self) -> bool:
        """Return whether several hosts may share the database."""

    def lock_ddl(self, conn: Connection) -> None:
        """Let one process at a time make or change tables, until the transaction ends."""

    def free_after(self, conn: Connection, idle_s: float) -> None:
        """Let go of this transaction's locks when its process stands still for so long (frozen, swapped out)."""

    def insert(self, conn: Connection, target: Target, rows: Sequence[Row], conflict: str) -> int:
        """Insert rows that should be new; return how many are: `conflict` leaves the others out."""

    def upsert(self, conn: Connection, target: Target, rows: Sequence[Row], conflict: str) -> int:
        """Insert or change rows as `conflict` says; return how many were inserted or changed."""

    def present(self, conn: Connection, target: Target, names: Sequence[str], keys: Sequence[Row]) -> set[int]:
        """Return the positions of keys that a row of the table has in the columns `names`."""

    def kept(self, conn: Connection, target: Target, names: Sequence[str], key: Row) -> str | None:
        """Lock the row with a key; return it as text for `give_back`, None when there is none."""

    def give_back(self, conn: Connection, target: Target, names: Sequence[str], key: Row, row: str) -> None:
        """Make the row with a key, if it is there, one that was kept."""

    def unfit(self, conn: Connection, target: Target, rows: Sequence[Row]) -> dict[int, str]:
        """Return rows that this database can never store, with the reason; others may be refused too."""

    def comparable(self, column: Column | None, value: Any) -> Any:
        """Return a value that is equal and less exactly where the database says so of stored ones."""

    def ordered(self, column: Column | None, sql: str) -> str:
        """Return an expression that the database orders by code points, as everybody does."""

    def shown(self, column: Column, sql: str) -> str:
        """Return an expression for a stored value in the form in which it was bound."""

    def same(self, column: Column, value: Any) -> Any:
        """Return a bound or shown value so that those are equal that the database stores as one."""

    def sentence(self, problem: Any) -> str:
        """Return the driver's sentence for a refused row, without the statement."""


def database_named(name: str) -> Database:
    """Return the object for a dialect's name; raise UsageError for an unknown one."""
    if name == "sqlite":
        from filecollect.store.sqlite import SQLite

        return SQLite()
    if name == "postgresql":
        from filecollect.store.postgresql import PostgreSQL

        return PostgreSQL()
    raise UsageError(f"expected a database of postgresql, sqlite, got {name!r}")


def database_of(source: Connection | Engine) -> Database:
    """Return the object for the database behind a connection or an engine."""
    return database_named(source.dialect.name)
