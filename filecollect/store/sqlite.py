"""SQLite: one writer at a time, values bound one by one at C speed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from filecollect.domain.columns import Column
from filecollect.store.database import Row, Target, quoted

_VARIABLES = 900
"""Bound values of one statement, below the 999 of the oldest versions."""


class SQLite:
    """See `database.Database`."""

    mark = "?"
    has_hosts = False
    types: Mapping[str, str] = {
        "text": "TEXT",
        "integer": "INTEGER",
        "real": "REAL",
        "decimal": "TEXT",
        "boolean": "INTEGER",
        "date": "TEXT",
        "timestamp": "TEXT",
        "timestamptz": "TEXT",
        "json": "TEXT",
        "verbatim": "TEXT",
        "bigint": "INTEGER",
        "instant": "TEXT",
    }

    def lock_ddl(self, conn: Connection) -> None:
        """Do nothing: the write transaction itself is the lock."""

    def free_after(self, conn: Connection, idle_s: float) -> None:
        """Do nothing: a lock on a file is its process's, however long that sleeps."""

    def insert(self, conn: Connection, target: Target, rows: Sequence[Row], conflict: str) -> int:
        """Insert rows; return how many were new."""
        return self.upsert(conn, target, rows, conflict)

    def upsert(self, conn: Connection, target: Target, rows: Sequence[Row], conflict: str) -> int:
        """Insert or change rows; return how many were."""
        marks = ", ".join("?" * len(target.columns))
        statement = f"INSERT INTO {target.sql_name} ({target.sql_columns}) VALUES ({marks}) {conflict}"
        return conn.exec_driver_sql(statement, list(rows)).rowcount

    def present(self, conn: Connection, target: Target, names: Sequence[str], keys: Sequence[Row]) -> set[int]:
        """Return the positions of keys that are there."""
        columns = ", ".join(map(quoted, names))
        group = f"({', '.join('?' * len(names))})"
        at_once = max(1, _VARIABLES // len(names))
        known: set[Row] = set()
        for start in range(0, len(keys), at_once):
            chunk = keys[start : start + at_once]
            values = ", ".join([group] * len(chunk))
            query = f"SELECT {columns} FROM {target.sql_name} WHERE ({columns}) IN (VALUES {values})"
            known.update(
                tuple(row) for row in conn.exec_driver_sql(query, tuple(part for key in chunk for part in key))
            )
        return {position for position, key in enumerate(keys) if tuple(key) in known}

    def kept(self, conn: Connection, target: Target, names: Sequence[str], key: Row) -> str | None:
        """Return the row with a key as a JSON array; the write transaction is the lock."""
        same = " AND ".join(f"{quoted(name)} = ?" for name in names)
        row = conn.exec_driver_sql(f"SELECT {target.sql_columns} FROM {target.sql_name} WHERE {same}", key).first()
        return None if row is None else json.dumps(list(row), default=lambda blob: {"hex": blob.hex()})

    def give_back(self, conn: Connection, target: Target, names: Sequence[str], key: Row, row: str) -> None:
        """Make the row with a key one that was kept."""
        values = json.loads(row, object_hook=lambda blob: bytes.fromhex(blob["hex"]))
        changes = ", ".join(f"{quoted(name)} = ?" for name in target.columns)
        same = " AND ".join(f"{quoted(name)} = ?" for name in names)
        conn.exec_driver_sql(f"UPDATE {target.sql_name} SET {changes} WHERE {same}", (*values, *key))

    def unfit(self, conn: Connection, target: Target, rows: Sequence[Row]) -> dict[int, str]:
        """Return nothing: what SQLite cannot store its driver refuses."""
        return {}

    def comparable(self, column: Column | None, value: Any) -> Any:
        """Return the value itself: SQLite compares what is stored, code point by code point."""
        return value

    def ordered(self, column: Column | None, sql: str) -> str:
        """Return the expression itself."""
        return sql

    def shown(self, column: Column, sql: str) -> str:
        """Return the value itself: it is stored as it was bound."""
        return sql

    def same(self, column: Column, value: Any) -> Any:
        """Return the value itself."""
        return value

    def sentence(self, problem: Any) -> str:
        """Return the driver's sentence."""
        return str(problem)
