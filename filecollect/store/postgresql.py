"""PostgreSQL: rows travel in COPY, conflicts are met in a staging table, keys are asked for in arrays.

COPY goes straight into the target, inside a savepoint. Only when it meets a row that is there already
(another worker was faster, or something is broken) the rows go through a temporary table of the same
shape and ON CONFLICT decides. COPY's text form is made a column at a time; the server parses the
values, so each becomes its column's own type without a driver guessing.

What the server can never store is told before it is asked again: NUL in text, `\\u0000` in jsonb.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import psycopg
import xxhash
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, IntegrityError

from filecollect.domain.columns import Column
from filecollect.store.database import Row, Target, quoted

ADVISORY_LOCK = 0x66696C65636F6C6C
"""`filecoll` as a number: the key of the advisory lock under which tables are made."""
DDL_WAIT_S = 10
_UNIQUE_VIOLATION = "23505"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_TO_ESCAPE = re.compile(r"[\\\t\n\r]")
_IN_ARRAY = str.maketrans({"\\": "\\\\", '"': '\\"'})
_JSON_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_BOOLEANS = {True: "t", False: "f"}


class PostgreSQL:
    """See `database.Database`."""

    mark = "%s"
    has_hosts = True
    types: Mapping[str, str] = {
        "text": "text",
        "integer": "bigint",
        "real": "double precision",
        "decimal": "numeric",
        "boolean": "boolean",
        "date": "date",
        "timestamp": "timestamp",
        "timestamptz": "timestamptz",
        "json": "jsonb",
        "verbatim": "json",
        "bigint": "bigint",
        "instant": "timestamptz",
    }

    def lock_ddl(self, conn: Connection) -> None:
        """Take the advisory lock; wait for it, and for every later lock of this transaction, only so long."""
        conn.exec_driver_sql(f"SET LOCAL lock_timeout = '{DDL_WAIT_S}s'")
        conn.exec_driver_sql(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})")

    def free_after(self, conn: Connection, idle_s: float) -> None:
        """Let the server end a transaction that says nothing for so long: nobody else could take its tasks over."""
        conn.exec_driver_sql(f"SET LOCAL idle_in_transaction_session_timeout = {max(1000, int(idle_s * 1000))}")

    def insert(self, conn: Connection, target: Target, rows: Sequence[Row], conflict: str) -> int:
        """COPY rows; when one of them is there already, insert those that are not."""
        try:
            with conn.begin_nested():
                return _copy(conn, target.sql_name, target, rows)
        except IntegrityError as problem:
            if getattr(problem.orig, "sqlstate", None) != _UNIQUE_VIOLATION:
                raise
        return self.upsert(conn, target, rows, conflict)

    def upsert(self, conn: Connection, target: Target, rows: Sequence[Row], conflict: str) -> int:
        """COPY rows into a staging table and insert or change from there, in the order given."""
        staging = self._staging(conn, target)
        _copy(conn, staging, target, rows)
        columns = target.sql_columns
        done = conn.exec_driver_sql(
            f"INSERT INTO {target.sql_name} ({columns}) SELECT {columns} FROM {staging} {conflict}"
        )
        conn.exec_driver_sql(f"TRUNCATE {staging}")
        return done.rowcount

    def present(self, conn: Connection, target: Target, names: Sequence[str], keys: Sequence[Row]) -> set[int]:
        """Return the positions of keys that are there, compared by the columns' own types."""
        types = _column_types(conn, target.sql_name)
        arrays = ", ".join(f"%s::{types[name]}[]" for name in names)
        parts = ", ".join(f"k{number}" for number in range(len(names)))
        same = " AND ".join(f"t.{quoted(name)} = x.k{number}" for number, name in enumerate(names))
        query = (
            f"SELECT x.n FROM unnest({arrays}) WITH ORDINALITY AS x({parts}, n) JOIN {target.sql_name} AS t ON {same}"
        )
        values = tuple(_array(column) for column in zip(*keys, strict=True))
        return {int(row[0]) - 1 for row in conn.exec_driver_sql(query, values)} if keys else set()

    def kept(self, conn: Connection, target: Target, names: Sequence[str], key: Row) -> str | None:
        """Lock the row with a key; return it as a JSON object."""
        types = _column_types(conn, target.sql_name)
        same = " AND ".join(f"t.{quoted(name)} = %s::text::{types[name]}" for name in names)
        query = f"SELECT row_to_json(t)::text FROM {target.sql_name} AS t WHERE {same} FOR UPDATE"
        row = conn.exec_driver_sql(query, _parameters(key)).first()
        return None if row is None else str(row[0])

    def give_back(self, conn: Connection, target: Target, names: Sequence[str], key: Row, row: str) -> None:
        """Make the row with a key one that was kept."""
        changes = ", ".join(f"{quoted(name)} = was.{quoted(name)}" for name in target.columns)
        same = " AND ".join(f"t.{quoted(name)} = %s" for name in names)
        conn.exec_driver_sql(
            f"UPDATE {target.sql_name} AS t SET {changes} "
            f"FROM json_populate_record(NULL::{target.sql_name}, %s::json) AS was WHERE {same}",
            (row, *key),
        )

    def unfit(self, conn: Connection, target: Target, rows: Sequence[Row]) -> dict[int, str]:
        """Return rows with a NUL in a text, or `\\u0000` in a value for jsonb."""
        types = _column_types(conn, target.sql_name)
        jsonb = [index for index, name in enumerate(target.columns) if types.get(name) == "jsonb"]
        found: dict[int, str] = {}
        for number, row in enumerate(rows):
            if any(isinstance(value, str) and "\0" in value for value in row):
                found[number] = "a text holds the character NUL, which PostgreSQL cannot store"
            elif any(row[index] is not None and _JSON_NUL.search(row[index]) for index in jsonb):
                found[number] = "a JSON value holds \\u0000, which PostgreSQL cannot store as jsonb"
        return found

    def comparable(self, column: Column | None, value: Any) -> Any:
        """Return a decimal's number: 1.0 and 1.00 are one key here."""
        return Decimal(value) if column is not None and column.base == "decimal" and value is not None else value

    def ordered(self, column: Column | None, sql: str) -> str:
        """Return a text without the database's own collation."""
        return f'{sql} COLLATE "C"' if column is not None and column.base == "text" else sql

    def shown(self, column: Column, sql: str) -> str:
        """Return text for values that the driver would make objects of."""
        if column.base == "timestamp":
            return f"regexp_replace(to_char({sql}, 'YYYY-MM-DD HH24:MI:SS.US'), '\\.0{{6}}$', '')"
        return f"{sql}::text" if column.base in {"decimal", "date", "json"} else sql

    def same(self, column: Column, value: Any) -> Any:
        """Return a decimal's number and a JSON value's content: jsonb keeps no blanks and its own order."""
        if value is not None and column.base == "json":
            return json.loads(value, parse_float=Decimal, parse_int=Decimal)
        return self.comparable(column, value)

    def sentence(self, problem: Any) -> str:
        """Return the server's primary message; its full text would repeat the row."""
        primary: str | None = getattr(getattr(problem, "diag", None), "message_primary", None)
        return primary or str(problem)

    def _staging(self, conn: Connection, target: Target) -> str:
        """Return a temporary table of the target's shape; its name changes with the shape."""
        types = _column_types(conn, target.sql_name)
        shape = repr((target.sql_name, [(name, types.get(name)) for name in target.columns]))
        name = quoted(f"filecollect_{xxhash.xxh3_64_hexdigest(shape.encode())}")
        conn.exec_driver_sql(
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {name} ON COMMIT DELETE ROWS "
            f"AS SELECT {target.sql_columns} FROM {target.sql_name} WITH NO DATA"
        )
        return f"pg_temp.{name}"


def _column_types(conn: Connection, sql_name: str) -> dict[str, str]:
    query = (
        "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "
        "WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped"
    )
    return {str(row[0]): str(row[1]) for row in conn.exec_driver_sql(query, (sql_name,))}


def _copy(conn: Connection, into: str, target: Target, rows: Sequence[Row]) -> int:
    """Send rows through COPY; the driver's errors come as SQLAlchemy's, like those of any statement."""
    statement = f"COPY {into} ({target.sql_columns}) FROM STDIN"
    data = copy_text(rows)
    driver: Any = conn.connection.driver_connection
    try:
        with driver.cursor() as cursor:
            with cursor.copy(statement) as copy:
                copy.write(data)
            return int(cursor.rowcount)
    except psycopg.Error as problem:
        raise DBAPIError.instance(
            statement,
            None,
            problem,
            psycopg.Error,
            hide_parameters=True,
            connection_invalidated=bool(driver.closed),
            dialect=conn.dialect,
        ) from problem


def copy_text(rows: Sequence[Row]) -> bytes:
    """Return rows in COPY's text form; raise UnicodeEncodeError for lone surrogates."""
    columns = [_copy_column(values) for values in zip(*rows, strict=True)]
    return ("\n".join(map("\t".join, zip(*columns, strict=True))) + "\n").encode()


def _copy_column(values: Sequence[Any]) -> Sequence[str]:
    """Return one column's fields; the common kinds at C speed."""
    kinds = set(map(type, values))
    if kinds == {str} and _TO_ESCAPE.search("".join(values)) is None:
        return values
    if kinds <= {int, float}:
        return list(map(repr, values))
    if kinds == {type(None)}:
        return ["\\N"] * len(values)
    return list(map(_copy_value, values))


def _copy_value(value: Any) -> str:
    if value is None:
        return "\\N"
    if isinstance(value, str):
        return value.translate(_ESCAPES) if _TO_ESCAPE.search(value) else value
    return _BOOLEANS[value] if isinstance(value, bool) else repr(value)


def _parameters(key: Row) -> tuple[str | None, ...]:
    """Return a key's values as text that the server parses; what no row can hold is NULL, which equals nothing."""
    return tuple(None if value is None or "\0" in (text := _text(value)) else text for value in key)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return _BOOLEANS[value]
    return value if isinstance(value, str) else repr(value)


def _array(values: Sequence[Any]) -> str:
    """Return an array literal; a text that cannot be in any row is NULL, which equals nothing."""
    return "{" + ",".join(map(_array_value, values)) + "}"


def _array_value(value: Any) -> str:
    if value is None or (isinstance(value, str) and "\0" in value):
        return "NULL"
    if isinstance(value, bool):
        return _BOOLEANS[value]
    return f'"{value.translate(_IN_ARRAY)}"' if isinstance(value, str) else repr(value)
