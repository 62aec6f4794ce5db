"""Destination tables: their shape, and writing records into them.

Two kinds behind one class: a typed table (the source's columns, `_task_id`, `_offset`, `_extra`, and
lineage columns on request) and `collected_item` (payload and business key). Names are always quoted;
values were validated by the parser and are bound as their column's own type.

Every insert names its conflict columns. Without a key the affected rows must equal the rows sent;
with a key the later record wins, and later is (task id, offset), never the order of commits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

from sqlalchemy import Connection, inspect
from sqlalchemy.exc import StatementError
from sqlalchemy.schema import CreateSchema

from filecollect.domain.batch import Records
from filecollect.domain.columns import Column, Layout
from filecollect.errors import BatchTooBad, InvariantError, UsageError
from filecollect.store.database import Database, Row, Target, database_named, database_of, quoted
from filecollect.store.faults import database_error

OWN_COLUMNS = ("_task_id", "_offset", "_extra")
LINEAGE = {"file": "_file", "line": "_line", "at": "_ingested_at", "host": "_host"}
LINEAGE_TYPES = {"file": "text", "line": "bigint", "at": "instant", "host": "text"}
SEARCHED_ONE_BY_ONE = 64
"""Refused rows of one batch that are looked for one by one; more make BatchTooBad."""
SMALL_BATCH = 200
"""A batch of at most this many rows is searched to the end."""


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
        types = database_named(dialect).types
        lines = [f"{quoted(column.name)} {_sql_type(column, types)}" for column in self.layout.columns]
        lines += [
            f'"_task_id" {types["bigint"]} NOT NULL',
            f'"_offset" {types["bigint"]} NOT NULL',
            f'"_extra" {types["json"]}',
        ]
        lines += [f"{quoted(LINEAGE[word])} {types[LINEAGE_TYPES[word]]}" for word in self.lineage]
        lines.append('UNIQUE ("_task_id", "_offset")')
        if self.key:
            lines.append(f"UNIQUE ({', '.join(map(quoted, self.key))})")
        body = ",\n  ".join(lines)
        return [f"CREATE TABLE IF NOT EXISTS {self.sql_name} (\n  {body}\n)"]

    def exists(self, conn: Connection) -> bool:
        """Return whether the table is there."""
        return bool(inspect(conn).has_table(self.table, schema=self.schema))

    def create(self, conn: Connection) -> None:
        """Create the table, and its schema, unless they are there; one process at a time."""
        if self.is_items:
            return
        database = database_of(conn)
        if self.schema is not None and not database.has_hosts:
            raise UsageError(f"the table {self.schema}.{self.table} needs PostgreSQL; SQLite has no schemas")
        database.lock_ddl(conn)
        if self.schema is not None and not inspect(conn).has_schema(self.schema):
            conn.execute(CreateSchema(self.schema))
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

    @property
    def _target(self) -> Target:
        return Target(self.sql_name, self.columns)

    def _insert(
        self, conn: Connection, rows: list[Row], portions: Sequence[tuple[Records, Origin]], results: list[Written]
    ) -> None:
        database = database_of(conn)

        def send(some: list[Row]) -> None:
            new = database.insert(conn, self._target, some, 'ON CONFLICT ("_task_id", "_offset") DO NOTHING')
            if new != len(some):
                raise InvariantError(f"{self.table}: a record that was not committed has a row already")

        refused = self._send(conn, database, rows, send)
        start = 0
        for (records, _), result in zip(portions, results, strict=True):
            end = start + len(records)
            result.refused = [(index - start, why) for index, why in refused.items() if start <= index < end]
            result.inserted = len(records) - len(result.refused)
            start = end

    def _send(
        self, conn: Connection, database: Database, rows: list[Row], send: Callable[[list[Row]], None]
    ) -> dict[int, str]:
        return write_or_search(conn, rows, send, lambda: database.unfit(conn, self._target, rows), database.sentence)

    def _column(self, name: str) -> Column | None:
        return None if self.is_items else next((one for one in self.layout.columns if one.name == name), None)

    def _upsert(self, conn: Connection, rows: list[Row], whose: list[tuple[int, int]], results: list[Written]) -> None:
        database = database_of(conn)
        first_wins = self.on_conflict != "update"
        winners, losers = self._reduce(database, rows)
        known = self._known(conn, database, [rows[index] for index in winners])
        if first_wins:
            losers += [index for position, index in enumerate(winners) if position in known]
            winners = [index for position, index in enumerate(winners) if position not in known]
            known = set()
        chosen = [rows[index] for index in winners]
        clause = self._conflict(database)
        changed = 0

        def send(some: list[Row]) -> None:
            nonlocal changed
            write = database.upsert if known else database.insert
            changed += write(conn, self._target, some, clause)

        refused = self._send(conn, database, chosen, send)
        left_out = len(chosen) - len(refused) - changed
        beaten: set[int] = set()
        if first_wins and left_out:
            # Somebody else's row came between the question and the insert.
            mine = self._places(conn, database, chosen)
            beaten = {position for position in range(len(chosen)) if position not in mine and position not in refused}
            losers += [winners[position] for position in beaten]
        for loser in losers:
            number, record = whose[loser]
            if self.on_conflict == "quarantine":
                results[number].conflicts.append(record)
            elif first_wins:
                results[number].ignored += 1
            else:
                results[number].updated += 1
        for position, index in enumerate(winners):
            number, record = whose[index]
            if position in refused:
                results[number].refused.append((record, refused[position]))
            elif position in beaten:
                continue
            elif position not in known:
                results[number].inserted += 1
            elif left_out > 0:
                left_out -= 1
                results[number].ignored += 1
            else:
                results[number].updated += 1

    def _reduce(self, database: Database, rows: list[Row]) -> tuple[list[int], list[int]]:
        """Return the winning row of each key, in the order of keys that all workers share, and the losers."""
        names = self.columns
        key_at = [(names.index(name), self._column(name)) for name in self.key]
        newer_at = names.index(self.newer) if self.newer else None
        newer = self._column(self.newer) if self.newer else None
        age_at = (names.index("_task_id"), names.index("_offset"))

        def age(row: Row) -> tuple[Any, ...]:
            when = None if newer_at is None else database.comparable(newer, row[newer_at])
            return (when is not None, when or 0, row[age_at[0]], row[age_at[1]])

        first_wins = self.on_conflict != "update"
        winners: dict[Row, int] = {}
        losers: list[int] = []
        for index, row in enumerate(rows):
            key = tuple(database.comparable(column, row[at]) for at, column in key_at)
            other = winners.setdefault(key, index)
            if other != index:
                later = age(row) >= age(rows[other])
                winner, loser = (index, other) if later != first_wins else (other, index)
                winners[key] = winner
                losers.append(loser)
        ordered = sorted(winners, key=lambda key: [(str(type(part)), part) for part in key])
        return [winners[key] for key in ordered], losers

    def _known(self, conn: Connection, database: Database, rows: list[Row]) -> set[int]:
        """Return the positions of rows whose key is in the table already."""
        return self._having(conn, database, rows, self.key)

    def _places(self, conn: Connection, database: Database, rows: list[Row]) -> set[int]:
        """Return the positions of rows that are in the table themselves."""
        return self._having(conn, database, rows, ("_task_id", "_offset"))

    def _having(self, conn: Connection, database: Database, rows: list[Row], names: tuple[str, ...]) -> set[int]:
        at = [self.columns.index(name) for name in names]
        keys = [(number, *(row[place] for place in at)) for number, row in enumerate(rows)]
        found: set[int] = set()

        def ask(some: list[Row]) -> None:
            found.update(some[n][0] for n in database.present(conn, self._target, names, [key[1:] for key in some]))

        # A key that the column cannot even be compared with is in no row; its own row will be refused.
        write_or_search(conn, keys, ask, dict, database.sentence)
        return found

    def _conflict(self, database: Database) -> str:
        key = ", ".join(map(quoted, self.key))
        if self.on_conflict != "update":
            return f"ON CONFLICT ({key}) DO NOTHING"
        changes = ", ".join(
            f"{quoted(name)} = excluded.{quoted(name)}" for name in self.columns if name not in self.key
        )
        table = self.sql_name
        later = f'(excluded."_task_id", excluded."_offset") >= ({table}."_task_id", {table}."_offset")'
        if self.newer:
            column = self._column(self.newer)
            new, old = f"excluded.{quoted(self.newer)}", f"{table}.{quoted(self.newer)}"
            newer = f"{database.ordered(column, new)} > {old}"
            later = (
                f"(({old} IS NULL AND {new} IS NOT NULL) OR {newer} "
                f"OR (({new} = {old} OR ({new} IS NULL AND {old} IS NULL)) AND {later}))"
            )
        return f"ON CONFLICT ({key}) DO UPDATE SET {changes} WHERE {later}"

    @property
    def displaces(self) -> bool:
        """Return whether a record may take the place of another file's row."""
        return bool(self.key) and self.on_conflict == "update"

    def displaced(self, conn: Connection, record: Records, origin: Origin) -> str | None:
        """Lock and return the row whose key one record has, for `give_back`; None when there is none."""
        database = database_of(conn)
        (row,) = self.rows(record, origin)
        key = tuple(row[self.columns.index(name)] for name in self.key)
        kept: list[str | None] = [None]

        def ask(_: list[Row]) -> None:
            kept[0] = database.kept(conn, self._target, self.key, key)

        # A key that the column cannot even be compared with is in no row.
        write_or_search(conn, [row], ask, dict, database.sentence)
        return kept[0]

    def give_back(self, conn: Connection, task_id: int, offset: int, row: str) -> None:
        """Give a displaced row its place back, which the record at `offset` has taken."""
        database_of(conn).give_back(conn, self._target, ("_task_id", "_offset"), (task_id, offset), row)

    def delete_task(self, conn: Connection, task_id: int) -> int:
        """Delete the rows of a task; return how many there were."""
        mark = database_of(conn).mark
        return conn.exec_driver_sql(f'DELETE FROM {self.sql_name} WHERE "_task_id" = {mark}', (task_id,)).rowcount

    def delete_record(self, conn: Connection, task_id: int, offset: int) -> int:
        """Delete the row of one record; return how many there were (0 or 1)."""
        mark = database_of(conn).mark
        statement = f'DELETE FROM {self.sql_name} WHERE "_task_id" = {mark} AND "_offset" = {mark}'
        return conn.exec_driver_sql(statement, (task_id, offset)).rowcount


def _sql_type(column: Column, types: Mapping[str, str]) -> str:
    if column.base == "decimal" and types["decimal"] == "numeric":
        return column.type.replace("decimal", "numeric")
    if column.base == "timestamp" and column.zoned:
        return types["timestamptz"]
    return types["verbatim" if column.base == "json" and column.verbatim else column.base]


def write_or_search(
    conn: Connection,
    rows: list[Row],
    send: Callable[[list[Row]], None],
    unfit: Callable[[], dict[int, str]],
    sentence: Callable[[Any], str],
) -> dict[int, str]:
    """Send rows in a savepoint; when the database refuses some, find them and send the others.

    Returns the refused rows' positions and why. First those that can be told without asking, then the
    others by bisection, each half in its own savepoint. Raises BatchTooBad past the bound.
    """
    limit = len(rows) if len(rows) <= SMALL_BATCH else SEARCHED_ONE_BY_ONE
    places = range(len(rows))
    refused: dict[int, str] = {}
    waiting: list[Sequence[int]] = [places]
    told, searched = False, 0
    while waiting:
        some = waiting.pop()
        if not some:
            continue
        try:
            with conn.begin_nested():
                send(rows if some is places else [rows[place] for place in some])
        except (StatementError, OverflowError, UnicodeEncodeError) as problem:
            if isinstance(problem, StatementError) and database_error(problem) is not None:
                raise
            if not told:
                told = True
                refused.update(unfit())
                if refused:
                    waiting.append([place for place in some if place not in refused])
                    continue
            if len(some) == 1:
                refused[some[0]] = sentence(getattr(problem, "orig", problem))
                searched += 1
                if searched > limit:
                    raise BatchTooBad(f"the database refuses more than {limit} rows of one batch") from problem
            else:
                middle = len(some) // 2
                waiting += [some[middle:], some[:middle]]
    return refused


def compact_json(value: Any) -> str:
    """Return JSON text without spaces, UTF-8 as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
