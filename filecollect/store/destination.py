"""Destination tables: their shape, and writing records into them.

Two kinds behind one class: a typed table (the source's columns, `_task_id`, `_offset`, `_extra`, and
lineage columns on request) and `collected_item` (payload and business key). Names are always quoted;
values were validated by the parser and are bound as their column's own type.

Every insert names its conflict columns. Without a key the affected rows must equal the rows sent;
with a key the later record wins, and later is (task id, offset), never the order of commits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from sqlalchemy import Connection, inspect
from sqlalchemy.exc import StatementError

from filecollect.domain.batch import Records
from filecollect.domain.columns import Column, Layout
from filecollect.errors import BatchTooBad, InvariantError
from filecollect.store.engine import database_error

OWN_COLUMNS = ("_task_id", "_offset", "_extra")
LINEAGE = {"file": "_file", "line": "_line", "at": "_ingested_at", "host": "_host"}
SEARCHED_ONE_BY_ONE = 64
"""Refused rows of one batch that are looked for one by one; more make BatchTooBad."""
SMALL_BATCH = 200
"""A batch of at most this many rows is searched to the end."""

_SQL_TYPES = {
    "sqlite": {
        "text": "TEXT",
        "integer": "INTEGER",
        "real": "REAL",
        "decimal": "TEXT",
        "boolean": "INTEGER",
        "date": "TEXT",
        "timestamp": "TEXT",
        "json": "TEXT",
        "bigint": "INTEGER",
    },
    "postgresql": {
        "text": "text",
        "integer": "bigint",
        "real": "double precision",
        "decimal": "numeric",
        "boolean": "boolean",
        "date": "date",
        "timestamp": "timestamp",
        "json": "jsonb",
        "bigint": "bigint",
    },
}


def quoted(name: str) -> str:
    """Return a name as an SQL identifier, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a portion of records comes from: for row identity and lineage columns."""

    task_id: int
    generation: str
    path: str
    at: str
    host: str | None = None


@dataclass(slots=True)
class Written:
    """What became of a portion: counts of rows, and (record index, message) of refused records."""

    inserted: int = 0
    updated: int = 0
    ignored: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)
    conflicts: list[int] = field(default_factory=list)


Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Destination:
    """A table that records of one source go to."""

    source_key: str
    table: str
    layout: Layout
    schema: str | None = None
    on_conflict: str = "update"
    newer: str | None = None
    lineage: tuple[str, ...] = ()

    @property
    def sql_name(self) -> str:
        """Return the quoted name, with its schema."""
        return quoted(self.table) if self.schema is None else f"{quoted(self.schema)}.{quoted(self.table)}"

    @property
    def is_items(self) -> bool:
        """Return whether this is the schema-less destination."""
        return self.layout.kind == "items"

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns written, in order: first the source's, then ours."""
        if self.is_items:
            return ("payload", "source_item_id", "_task_id", "_offset", "source_key", "collected_at")
        return (
            *(column.name for column in self.layout.columns),
            *OWN_COLUMNS,
            *(LINEAGE[word] for word in self.lineage),
        )

    @property
    def key(self) -> tuple[str, ...]:
        """Return the columns of the business key, () without one."""
        if not self.layout.key:
            return ()
        return ("source_key", "source_item_id") if self.is_items else self.layout.key

    # -- shape -----------------------------------------------------------------------------------

    def ddl(self, dialect: str) -> list[str]:
        """Return the statements that create the table (typed tables only)."""
        types = _SQL_TYPES[dialect]
        lines = [f"{quoted(column.name)} {_sql_type(column, types)}" for column in self.layout.columns]
        lines += [
            f'"_task_id" {types["bigint"]} NOT NULL',
            f'"_offset" {types["bigint"]} NOT NULL',
            f'"_extra" {types["json"]}',
        ]
        lineage = {"file": "text", "line": "bigint", "at": "text", "host": "text"}
        lines += [f"{quoted(LINEAGE[word])} {types[lineage[word]]}" for word in self.lineage]
        lines.append('UNIQUE ("_task_id", "_offset")')
        if self.key:
            lines.append(f"UNIQUE ({', '.join(map(quoted, self.key))})")
        body = ",\n  ".join(lines)
        return [f"CREATE TABLE IF NOT EXISTS {self.sql_name} (\n  {body}\n)"]

    def exists(self, conn: Connection) -> bool:
        """Return whether the table is there."""
        return bool(inspect(conn).has_table(self.table, schema=self.schema))

    def create(self, conn: Connection) -> None:
        """Create the table unless it is there."""
        if not self.is_items:
            for statement in self.ddl(conn.dialect.name):
                conn.exec_driver_sql(statement)

    # -- rows ------------------------------------------------------------------------------------

    def rows(self, records: Records, origin: Origin) -> Iterator[Row]:
        """Return the rows of `records` in the order of `columns`."""
        task_id = repeat(origin.task_id)
        if self.is_items:
            keys: Any = (
                records.columns[1]
                if self.layout.key
                else [f"{origin.generation}:{offset}" for offset in records.offsets]
            )
            return zip(records.columns[0], keys, task_id, records.offsets, repeat(self.source_key), repeat(origin.at))
        extras: Any = repeat(None)
        if records.extras:
            extras = map(records.extras.get, range(len(records)))
        own = {
            "file": repeat(origin.path),
            "line": records.lines,
            "at": repeat(origin.at),
            "host": repeat(origin.host),
        }
        lineage: list[Any] = [own[word] for word in self.lineage]
        return zip(*records.columns, task_id, records.offsets, extras, *lineage, strict=False)

    def write(self, conn: Connection, portions: Sequence[tuple[Records, Origin]]) -> list[Written]:
        """Insert or upsert portions of records of several tasks; one result for each portion.

        Raises InvariantError when a row without key was there already, BatchTooBad when the database
        refuses more rows than are searched for.
        """
        results = [Written() for _ in portions]
        rows: list[Row] = []
        whose: list[tuple[int, int]] = []
        for number, (records, origin) in enumerate(portions):
            before = len(rows)
            rows.extend(self.rows(records, origin))
            if len(rows) - before != len(records):
                raise InvariantError(f"{self.table}: {len(records)} records made {len(rows) - before} rows")
            whose.extend((number, index) for index in range(len(records))) if self.key else None
        if not rows:
            return results
        if self.key:
            self._upsert(conn, rows, whose, results)
        else:
            self._insert(conn, rows, portions, results)
        return results

    def _insert(
        self, conn: Connection, rows: list[Row], portions: Sequence[tuple[Records, Origin]], results: list[Written]
    ) -> None:
        statement = self._statement('ON CONFLICT ("_task_id", "_offset") DO NOTHING', conn.dialect.name)

        def send(some: list[Row]) -> None:
            if conn.exec_driver_sql(statement, some).rowcount != len(some):
                raise InvariantError(f"{self.table}: a record that was not committed has a row already")

        refused = dict(_write_or_search(conn, rows, send))
        start = 0
        for (records, _), result in zip(portions, results, strict=True):
            end = start + len(records)
            result.refused = [(index - start, why) for index, why in refused.items() if start <= index < end]
            result.inserted = len(records) - len(result.refused)
            start = end

    def _upsert(self, conn: Connection, rows: list[Row], whose: list[tuple[int, int]], results: list[Written]) -> None:
        names = self.columns
        key_at = [names.index(name) for name in self.key]
        newer_at = names.index(self.newer) if self.newer else None
        age_at = (names.index("_task_id"), names.index("_offset"))

        def age(row: Row) -> tuple[Any, ...]:
            when = None if newer_at is None else row[newer_at]
            return (when is not None, when or 0, row[age_at[0]], row[age_at[1]])

        first_wins = self.on_conflict != "update"
        winners: dict[tuple[Any, ...], int] = {}
        losers: list[int] = []
        for index, row in enumerate(rows):
            key = tuple(row[at] for at in key_at)
            other = winners.setdefault(key, index)
            if other != index:
                later = age(row) >= age(rows[other])
                winner, loser = (index, other) if later != first_wins else (other, index)
                winners[key] = winner
                losers.append(loser)
        ordered = sorted(winners, key=lambda key: [(str(type(part)), part) for part in key])
        known = self._known_keys(conn, ordered)
        if first_wins:
            losers += [winners[key] for key in ordered if key in known]
            ordered = [key for key in ordered if key not in known]
        for loser in losers:
            number, record = whose[loser]
            if self.on_conflict == "quarantine":
                results[number].conflicts.append(record)
            elif first_wins:
                results[number].ignored += 1
            else:
                results[number].updated += 1
        statement = self._upsert_statement(conn.dialect.name)
        changed = 0

        def send(some: list[Row]) -> None:
            nonlocal changed
            changed += conn.exec_driver_sql(statement, some).rowcount

        refused = dict(_write_or_search(conn, [rows[winners[key]] for key in ordered], send))
        older = len(ordered) - len(refused) - changed
        for position, key in enumerate(ordered):
            number, record = whose[winners[key]]
            if position in refused:
                results[number].refused.append((record, refused[position]))
            elif key not in known:
                results[number].inserted += 1
            elif older > 0:
                older -= 1
                results[number].ignored += 1
            else:
                results[number].updated += 1

    def _known_keys(self, conn: Connection, keys: Sequence[tuple[Any, ...]]) -> set[tuple[Any, ...]]:
        columns = ", ".join(map(quoted, self.key))
        width = len(self.key)
        mark = _mark(conn.dialect.name)
        per_query = max(1, 900 // width)
        known: set[tuple[Any, ...]] = set()
        for start in range(0, len(keys), per_query):
            chunk = keys[start : start + per_query]
            group = f"({', '.join([mark] * width)})"
            values = ", ".join([group] * len(chunk))
            statement = f"SELECT {columns} FROM {self.sql_name} WHERE ({columns}) IN (VALUES {values})"
            known.update(tuple(row) for row in conn.exec_driver_sql(statement, tuple(v for key in chunk for v in key)))
        return known

    def _statement(self, conflict: str, dialect: str) -> str:
        columns = ", ".join(map(quoted, self.columns))
        marks = ", ".join([_mark(dialect)] * len(self.columns))
        return f"INSERT INTO {self.sql_name} ({columns}) VALUES ({marks}) {conflict}"

    def _upsert_statement(self, dialect: str) -> str:
        key = ", ".join(map(quoted, self.key))
        if self.on_conflict != "update":
            return self._statement(f"ON CONFLICT ({key}) DO NOTHING", dialect)
        changes = ", ".join(
            f"{quoted(name)} = excluded.{quoted(name)}" for name in self.columns if name not in self.key
        )
        table = self.sql_name
        later = f'(excluded."_task_id", excluded."_offset") >= ({table}."_task_id", {table}."_offset")'
        if self.newer:
            new, old = f"excluded.{quoted(self.newer)}", f"{table}.{quoted(self.newer)}"
            later = (
                f"(({old} IS NULL AND {new} IS NOT NULL) OR {new} > {old} "
                f"OR (({new} = {old} OR ({new} IS NULL AND {old} IS NULL)) AND {later}))"
            )
        return self._statement(f"ON CONFLICT ({key}) DO UPDATE SET {changes} WHERE {later}", dialect)

    def delete_task(self, conn: Connection, task_id: int) -> int:
        """Delete the rows of a task; return how many there were."""
        mark = _mark(conn.dialect.name)
        return conn.exec_driver_sql(f'DELETE FROM {self.sql_name} WHERE "_task_id" = {mark}', (task_id,)).rowcount

    def delete_record(self, conn: Connection, task_id: int, offset: int) -> int:
        """Delete the row of one record; return how many there were (0 or 1)."""
        mark = _mark(conn.dialect.name)
        statement = f'DELETE FROM {self.sql_name} WHERE "_task_id" = {mark} AND "_offset" = {mark}'
        return conn.exec_driver_sql(statement, (task_id, offset)).rowcount


def _mark(dialect: str) -> str:
    return "?" if dialect == "sqlite" else "%s"


def _sql_type(column: Column, types: dict[str, str]) -> str:
    base = types[column.base]
    if base == "numeric":
        return column.type.replace("decimal", "numeric")
    return "timestamptz" if base == "timestamp" and column.zoned else base


def _write_or_search(conn: Connection, rows: list[Row], send: Callable[[list[Row]], None]) -> list[tuple[int, str]]:
    """Send rows; when the database refuses some, find them by bisection and send the others."""
    limit = len(rows) if len(rows) <= SMALL_BATCH else SEARCHED_ONE_BY_ONE
    refused: list[tuple[int, str]] = []
    waiting = [(0, len(rows))]
    while waiting:
        start, end = waiting.pop()
        some = rows if (start, end) == (0, len(rows)) else rows[start:end]
        try:
            with conn.begin_nested():
                send(some)
        except (StatementError, OverflowError, UnicodeEncodeError) as problem:
            if isinstance(problem, StatementError) and database_error(problem) is not None:
                raise
            if end - start == 1:
                refused.append((start, str(getattr(problem, "orig", problem))))
                if len(refused) > limit:
                    raise BatchTooBad(f"the database refuses more than {limit} rows of one batch") from problem
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
    return refused


def compact_json(value: Any) -> str:
    """Return JSON text without spaces, UTF-8 as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
