"""Reading for people: what the commands that list and show things ask the database.

Every function takes a connection inside `reading(...)` and writes nothing. Sums come from the ledger,
positions from the tasks: no destination table is counted, so `status` costs the same however many
rows were loaded. A superseded generation (skipped, with a `superseded` event) has no rows any more
and counts nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, and_, case, exists, func, select

from filecollect.store.engine import db_now
from filecollect.store.schema import (
    collection_source,
    collection_task,
    committed_batch,
    file_event,
    outbox_message,
    quarantined_item,
    worker,
)

UNSETTLED = ("pending", "running", "delivering", "failed", "paused", "gone")
RATE_S = 60
"""Seconds over which rows per second are counted."""
_CHUNK = 500

Row = dict[str, Any]
Matches = Callable[[str], bool]


def rows_of(conn: Connection, query: Select[Any]) -> list[Row]:
    """Return the rows of a query as dictionaries."""
    return [dict(row._mapping) for row in conn.execute(query)]


def listed(
    conn: Connection,
    table: Table,
    names: tuple[str, ...],
    *,
    source: str | None = None,
    path: Matches | None = None,
    since: timedelta | None = None,
    limit: int = 100,
    **equal: Any,
) -> list[Row]:
    """Return the newest rows of one of our tables, oldest of them first.

    `path` decides on stored paths, as SQL patterns know no globs; it needs the column among `names`.
    """
    query = select(*(table.c[name] for name in names)).order_by(table.c.id.desc())
    for name, value in {"source_key": source, **equal}.items():
        if value is not None:
            query = query.where(table.c[name] == value)
    if since is not None:
        instant = table.c["at" if "at" in table.c else "updated_at" if "updated_at" in table.c else "created_at"]
        query = query.where(instant >= db_now(conn) - since)
    return _newest(conn, query, path, limit)[::-1]


def _newest(conn: Connection, query: Select[Any], path: Matches | None, limit: int) -> list[Row]:
    """Return the first `limit` rows that match; rows that do not are never held all at once."""
    if path is None:
        return rows_of(conn, query.limit(limit))
    found: list[Row] = []
    for row in _streamed(conn, query):
        if path(row["path"] or ""):
            found.append(row)
            if len(found) == limit:
                break
    return found


def _streamed(conn: Connection, query: Select[Any]) -> Iterator[Row]:
    with conn.execution_options(yield_per=_CHUNK).execute(query) as result:
        for row in result:
            yield dict(row._mapping)


def sources(
    conn: Connection,
    *,
    source: str | None = None,
    path: Matches | None = None,
    since: timedelta | None = None,
    limit: int = 100,
) -> list[Row]:
    """Return sources by name; with `path` those that have a task with such a path."""
    names = ("source_key", "table_name", "format", "status", "paused_reason", "last_scan_at", "updated_at")
    columns = collection_source.c
    query = select(*(columns[name] for name in names)).order_by(columns.source_key)
    if source is not None:
        query = query.where(columns.source_key == source)
    if since is not None:
        query = query.where(columns.updated_at >= db_now(conn) - since)
    found = rows_of(conn, query)
    if path is not None:
        pairs = conn.execute(select(collection_task.c.source_key, collection_task.c.path).distinct())
        having = {pair.source_key for pair in pairs if path(pair.path)}
        found = [row for row in found if row["source_key"] in having]
    return found[:limit]


def one_source(conn: Connection, source_key: str) -> Row | None:
    """Return everything that was decided about a source."""
    found = rows_of(conn, select(collection_source).where(collection_source.c.source_key == source_key))
    return found[0] if found else None


def one_task(conn: Connection, which: str) -> Row | None:
    """Return the task of an id or stored path (the newest), with its ledger and events."""
    query = select(collection_task).order_by(collection_task.c.id.desc()).limit(1)
    by_id = which.isascii() and which.isdecimal() and len(which) < 19
    query = query.where(collection_task.c.id == int(which) if by_id else collection_task.c.path == which)
    found = rows_of(conn, query)
    if not found:
        return None
    (task,) = found
    ledger = select(committed_batch).where(committed_batch.c.task_id == task["id"]).order_by(committed_batch.c.seq)
    happened = select(file_event.c["at"], file_event.c.kind, file_event.c.detail).where(
        file_event.c.task_id == task["id"]
    )
    task["batches"] = rows_of(conn, ledger)
    task["events"] = rows_of(conn, happened.order_by(file_event.c.id))
    return task


# -- quarantine ----------------------------------------------------------------------------------


def _quarantined(*, source: str | None, since: timedelta | None, state: str | None, conn: Connection) -> Select[Any]:
    item = quarantined_item.c
    query = select(quarantined_item, collection_task.c.path).outerjoin(
        collection_task, collection_task.c.id == item.task_id
    )
    if source is not None:
        query = query.where(item.source_key == source)
    if since is not None:
        query = query.where(item.created_at >= db_now(conn) - since)
    if state is not None:
        query = query.where(item.state == state)
    return query


def quarantined(
    conn: Connection,
    *,
    source: str | None = None,
    path: Matches | None = None,
    since: timedelta | None = None,
    state: str | None = None,
    limit: int = 100,
) -> list[Row]:
    """Return the newest quarantined records with their file's path, oldest of them first."""
    query = _quarantined(source=source, since=since, state=state, conn=conn).order_by(quarantined_item.c.id.desc())
    return _newest(conn, query, path, limit)[::-1]


def each_quarantined(
    conn: Connection, *, source: str | None, path: Matches | None, since: timedelta | None, limit: int | None
) -> Iterator[Row]:
    """Yield open records in the order of their files and places, few in memory at a time."""
    item = quarantined_item.c
    query = _quarantined(source=source, since=since, state="open", conn=conn)
    left = limit
    for row in _streamed(conn, query.order_by(item.task_id, item.start_offset)):
        if left == 0:
            return
        if path is None or path(row["path"] or ""):
            left = None if left is None else left - 1
            yield row


def quarantined_at(conn: Connection, which: str) -> list[Row]:
    """Return the quarantined record of an id, or all of a stored path."""
    query = _quarantined(source=None, since=None, state=None, conn=conn).order_by(quarantined_item.c.id)
    by_id = which.isascii() and which.isdecimal() and len(which) < 19
    return rows_of(conn, query.where(quarantined_item.c.id == int(which) if by_id else collection_task.c.path == which))


# -- status --------------------------------------------------------------------------------------


def workers(conn: Connection) -> list[Row]:
    """Return the workers that hold tasks."""
    held = select(collection_task.c.owner_id).where(collection_task.c.status == "running")
    return rows_of(conn, select(worker).where(worker.c.owner_id.in_(held)).order_by(worker.c.started_at))


def tasks_of_status(conn: Connection, *, everything: bool) -> list[Row]:
    """Return tasks that are not done, or all, in id order."""
    names = (
        "id",
        "source_key",
        "status",
        "path",
        "content_offset",
        "raw_offset",
        "size",
        "attempt_count",
        "next_run_at",
        "last_error",
    )
    query = select(*(collection_task.c[name] for name in names))
    if not everything:
        query = query.where(collection_task.c.status.in_(UNSETTLED))
    return rows_of(conn, query.order_by(collection_task.c.id))


def is_superseded() -> ColumnElement[bool]:
    """Return the condition that a task's rows have gone in favour of a later generation."""
    happened = exists().where(file_event.c.task_id == collection_task.c.id, file_event.c.kind == "superseded")
    return and_(collection_task.c.status == "skipped", happened)


def source_status(conn: Connection) -> list[Row]:
    """Return the state of every source: tasks by status, raw bytes, rows, quarantine, outbox."""
    now = db_now(conn)
    tasks, sizes = _positions(conn)
    sums = _ledger_sums(conn)
    recent = _recent_rows(conn)
    behind = _behind_since(conn)
    lost: dict[str | None, int] = {}
    for row in conn.execute(
        select(file_event.c.source_key, file_event.c.detail).where(file_event.c.kind == "lost_bytes")
    ):
        lost[row.source_key] = lost.get(row.source_key, 0) + int(row.detail.get("bytes", 0))
    bad = _counts(conn, quarantined_item, quarantined_item.c.state == "open")
    pending = _counts(conn, outbox_message, outbox_message.c.state == "pending")
    dead = _counts(conn, outbox_message, outbox_message.c.state == "dead")
    oldest = _oldest_message(conn)
    last_error = _last_errors(conn)
    found = []
    for source in conn.execute(select(collection_source).order_by(collection_source.c.source_key)):
        key = source.source_key
        summed = sums.get(key)
        found.append(
            {
                "source": key,
                "table": source.table_name,
                "status": source.status,
                "tasks": tasks.get(key, {}),
                "bytes": sizes.get(key, {"done": 0, "total": 0, "lag": 0}),
                "lag_s": _seconds(now - behind[key]) if key in behind else 0.0,
                "rows": int(summed.rows) if summed else 0,
                "quarantined": bad.get(key, 0),
                "skipped": int(summed.skipped) if summed else 0,
                "lost_bytes": lost.get(key, 0),
                "rows_per_s": round(recent.get(key, 0) / RATE_S, 1),
                "outbox": {
                    "pending": pending.get(key, 0),
                    "dead": dead.get(key, 0),
                    "oldest_s": _seconds(now - oldest[key]) if key in oldest else None,
                },
                "last_commit_at": summed.last_commit_at if summed else None,
                "last_error": last_error.get(key),
            }
        )
    return found


def _seconds(passed: timedelta) -> float:
    return max(0.0, round(passed.total_seconds(), 3))


def _positions(conn: Connection) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """Return tasks by status and raw bytes of every source; skipped files count no bytes."""
    task = collection_task.c
    whole = case((task.size > task.raw_offset, task.size), else_=task.raw_offset)
    query = select(
        task.source_key,
        task.status,
        func.count().label("n"),
        func.sum(task.raw_offset).label("done"),
        func.sum(whole).label("total"),
    ).group_by(task.source_key, task.status)
    counts: dict[str, dict[str, int]] = {}
    sizes: dict[str, dict[str, int]] = {}
    for row in conn.execute(query.order_by(task.source_key, task.status)):
        counts.setdefault(row.source_key, {})[row.status] = row.n
        if row.status not in {"skipped", "cancelled"}:
            size = sizes.setdefault(row.source_key, {"done": 0, "total": 0, "lag": 0})
            size["done"] += int(row.done)
            size["total"] += int(row.total)
            size["lag"] = size["total"] - size["done"]
    return counts, sizes


def _ledger_sums(conn: Connection) -> dict[str, Any]:
    task, batch = collection_task.c, committed_batch.c
    query = (
        select(
            task.source_key,
            func.sum(batch.row_count).label("rows"),
            func.sum(batch.skipped_count).label("skipped"),
            func.max(batch.committed_at).label("last_commit_at"),
        )
        .join(committed_batch, batch.task_id == task.id)
        .where(~is_superseded())
        .group_by(task.source_key)
    )
    return {row.source_key: row for row in conn.execute(query)}


def _recent_rows(conn: Connection) -> dict[str, int]:
    task, batch = collection_task.c, committed_batch.c
    query = (
        select(task.source_key, func.sum(batch.row_count).label("n"))
        .join(committed_batch, batch.task_id == task.id)
        .where(batch.committed_at >= db_now(conn) - timedelta(seconds=RATE_S))
        .group_by(task.source_key)
    )
    return {row.source_key: int(row.n) for row in conn.execute(query)}


def _behind_since(conn: Connection) -> dict[str, Any]:
    """Return, for sources with unread bytes, the earliest last progress of a file that has some."""
    task, batch = collection_task.c, committed_batch.c
    last = select(func.max(batch.committed_at)).where(batch.task_id == task.id).scalar_subquery()
    query = (
        select(task.source_key, func.min(func.coalesce(last, task.created_at)).label("since"))
        .where(task.size > task.raw_offset, task.status.not_in(("skipped", "cancelled")))
        .group_by(task.source_key)
    )
    return {row.source_key: row.since for row in conn.execute(query)}


def _oldest_message(conn: Connection) -> dict[str, Any]:
    message = outbox_message.c
    query = select(message.source_key, func.min(message.created_at).label("since")).where(message.state == "pending")
    return {row.source_key: row.since for row in conn.execute(query.group_by(message.source_key))}


def _last_errors(conn: Connection) -> dict[str, str]:
    task = collection_task.c
    query = select(task.source_key, task.last_error).where(task.last_error.is_not(None), task.status != "skipped")
    return {row.source_key: row.last_error for row in conn.execute(query.order_by(task.updated_at, task.id))}


def _counts(conn: Connection, table: Table, condition: Any) -> dict[str, int]:
    query = select(table.c.source_key, func.count().label("n")).where(condition).group_by(table.c.source_key)
    return {row.source_key: row.n for row in conn.execute(query)}


# -- trace ---------------------------------------------------------------------------------------


def batch_of(conn: Connection, task_id: int, offset: int) -> Row | None:
    """Return the ledger row that covers a content offset."""
    span = committed_batch.c
    query = select(committed_batch).where(
        span.task_id == task_id, span.start_offset <= offset, span.end_offset > offset
    )
    found = rows_of(conn, query)
    return found[0] if found else None
