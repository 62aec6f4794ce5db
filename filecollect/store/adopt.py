"""A table that somebody else made is used as it is, when it was named: columns are matched by name.

What is missing for exactly-once (`_task_id`, `_offset`, `_extra`, their uniqueness, the key's) is added
only when asked to; else the statements are shown. Values of columns that the table does not have go
to `_extra`. Types are the table's own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, inspect
from sqlalchemy.types import TypeEngine

from filecollect.domain.columns import Column, Layout
from filecollect.errors import UsageError
from filecollect.store.database import database_of, quoted
from filecollect.store.destination import LINEAGE, LINEAGE_TYPES, OWN_COLUMNS, Destination

_KINDS = (
    ("INTERVAL", "text"),
    ("POINT", "text"),
    ("INT", "integer"),
    ("BOOL", "boolean"),
    ("CHAR", "text"),
    ("CLOB", "text"),
    ("TEXT", "text"),
    ("JSON", "json"),
    ("REAL", "real"),
    ("FLOA", "real"),
    ("DOUB", "real"),
    ("TIMESTAMP", "timestamp"),
    ("DATETIME", "timestamp"),
    ("DATE", "date"),
    ("NUMERIC", "decimal"),
    ("DECIMAL", "decimal"),
)


def adopt(conn: Connection, destination: Destination, *, alter: bool) -> Destination:
    """Return the destination as the existing table has it, altered if allowed.

    Raises UsageError with the missing statements, and when no column matches.
    """
    seen = inspect(conn)
    there = {one["name"]: one["type"] for one in seen.get_columns(destination.table, destination.schema)}
    wanted = (*OWN_COLUMNS, *(LINEAGE[word] for word in destination.lineage))
    name = destination.sql_name
    types = database_of(conn).types
    kinds = {LINEAGE[word]: types[kind] for word, kind in LINEAGE_TYPES.items()} | {"_extra": types["json"]}
    statements = [
        f"ALTER TABLE {name} ADD COLUMN {quoted(one)} {kinds.get(one, 'BIGINT')}" for one in wanted if one not in there
    ]
    unique: list[tuple[str | None, ...]] = [
        tuple(one["column_names"]) for one in seen.get_unique_constraints(destination.table, destination.schema)
    ]
    unique += [
        tuple(one["column_names"])
        for one in seen.get_indexes(destination.table, destination.schema)
        if one.get("unique")
    ]
    unique.append(tuple(seen.get_pk_constraint(destination.table, destination.schema)["constrained_columns"]))
    for columns in (("_task_id", "_offset"), destination.key):
        if columns and sorted(columns) not in [sorted(str(part) for part in one) for one in unique]:
            listed = ", ".join(map(quoted, columns))
            index = quoted(f"{destination.table}_{'_'.join(columns).strip('_')}_key")
            statements.append(f"CREATE UNIQUE INDEX {index} ON {name} ({listed})")
    if statements and not alter:
        raise UsageError(
            f"table {destination.table} was not made by filecollect and lacks what exactly-once needs: "
            + "; ".join(statements),
            hint="--alter runs these statements, or name another table with --table",
        )
    columns_there = tuple(
        replace(column, type=_kind(there[column.name], column))
        for column in destination.layout.columns
        if column.name in there
    )
    if not columns_there:
        names = ", ".join(there)
        raise UsageError(f"no column of table {destination.table} occurs in the files", hint=f"its columns: {names}")
    for statement in statements:
        conn.exec_driver_sql(statement)
    return replace(destination, layout=Layout(columns_there, destination.layout.key))


def _kind(there: TypeEngine[Any], column: Column) -> str:
    spelled = str(there).upper()
    kind = next((kind for part, kind in _KINDS if part in spelled), column.type)
    if kind != "decimal" or getattr(there, "precision", None) is None:
        return kind
    # More digits than the table keeps would be rounded without a word.
    return f"decimal({there.precision},{there.scale or 0})"  # type: ignore[attr-defined]
