"""Reading a task's rows back, as they were bound, to compare them with what a file holds now."""

from __future__ import annotations

from sqlalchemy import Connection

from filecollect.store.destination import Destination, quoted

Values = tuple[object, ...]


def stored_rows(conn: Connection, destination: Destination, task_id: int, start: int, end: int) -> dict[int, Values]:
    """Return the values of a task's rows by their content offset, those in [start, end).

    Items have their payload only: their key is made of it, or of the offset.
    """
    names = ["payload"] if destination.is_items else [column.name for column in destination.layout.columns]
    columns = ", ".join(map(quoted, ["_offset", *names]))
    mark = "?" if conn.dialect.name == "sqlite" else "%s"
    query = (
        f"SELECT {columns} FROM {destination.sql_name} "
        f'WHERE "_task_id" = {mark} AND "_offset" >= {mark} AND "_offset" < {mark}'
    )
    return {int(row[0]): tuple(row[1:]) for row in conn.exec_driver_sql(query, (task_id, start, end))}
