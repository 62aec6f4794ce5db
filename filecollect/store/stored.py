"""Reading a task's rows back, as they were bound, to compare them with what a file holds now."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from filecollect.domain.columns import Column
from filecollect.store.database import database_of, quoted
from filecollect.store.destination import Destination

Values = tuple[object, ...]


def stored_rows(conn: Connection, destination: Destination, task_id: int, start: int, end: int) -> dict[int, Values]:
    """Return the values of a task's rows by their content offset, those in [start, end).

    Items have their payload only: their key is made of it, or of the offset.
    """
    database = database_of(conn)
    columns = ", ".join(database.shown(column, quoted(column.name)) for column in _compared(destination))
    mark = database.mark
    query = (
        f'SELECT "_offset", {columns} FROM {destination.sql_name} '
        f'WHERE "_task_id" = {mark} AND "_offset" >= {mark} AND "_offset" < {mark}'
    )
    rows = conn.exec_driver_sql(query, (task_id, start, end))
    return {int(row[0]): same_values(conn, destination, row[1:]) for row in rows}


def same_values(conn: Connection, destination: Destination, values: Sequence[object]) -> Values:
    """Return a record's values so that they equal its stored row's exactly when they would be stored alike."""
    database = database_of(conn)
    return tuple(database.same(column, value) for column, value in zip(_compared(destination), values, strict=True))


def _compared(destination: Destination) -> Sequence[Column]:
    columns = destination.layout.columns
    return columns[:1] if destination.is_items else columns
