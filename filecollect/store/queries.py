"""Reading for people: what the commands that list and show things ask the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, Table, func, select

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


def rows_of(conn: Connection, query: Select[Any]) -> list[dict[str, Any]]:
    """Return the rows of a query as dictionaries."""
    return [dict(row._mapping) for row in conn.execute(query)]


def listed(
    conn: Connection,
    table: Table,
    names: tuple[str, ...],
    *,
    source: str | None = None,
    path: str | None = None,
    since: timedelta | None = None,
    limit: int = 100,
    **equal: Any,
) -> list[dict[str, Any]]:
    """Return the newest rows of one of our tables, oldest of them first; `path` is a glob."""
    order = table.c.id if "id" in table.c else next(iter(table.primary_key))
    query = select(*(table.c[name] for name in names)).order_by(order.desc()).limit(limit)
    if source is not None:
        query = query.where(table.c.source_key == source)
    if path is not None:
        like = path.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("*", "%").replace("?", "_")
        query = query.where(table.c.path.like(like, escape="\\"))
    if since is not None:
        instant = table.c["at" if "at" in table.c else "created_at"]
        query = query.where(instant >= datetime.now(UTC) - since)
    for name, value in equal.items():
        if value is not None:
            query = query.where(table.c[name] == value)
    return rows_of(conn, query)[::-1]


def one_task(conn: Connection, which: str) -> dict[str, Any] | None:
    """Return the task of an id or stored path (the newest), with its ledger and events."""
    query = select(collection_task).order_by(collection_task.c.id.desc()).limit(1)
    query = query.where(collection_task.c.id == int(which) if which.isdecimal() else collection_task.c.path == which)
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


def workers(conn: Connection) -> list[dict[str, Any]]:
    """Return the workers that hold tasks."""
    held = select(collection_task.c.owner_id).where(collection_task.c.status == "running")
    return rows_of(conn, select(worker).where(worker.c.owner_id.in_(held)).order_by(worker.c.started_at))


def unsettled(conn: Connection, *, everything: bool) -> list[dict[str, Any]]:
    """Return tasks that are not done, or all."""
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
    )
    query = select(*(collection_task.c[name] for name in names), collection_task.c.last_error)
    if not everything:
        query = query.where(collection_task.c.status.in_(UNSETTLED))
    return rows_of(conn, query.order_by(collection_task.c.id))


def source_status(conn: Connection) -> list[dict[str, Any]]:
    """Return the state of every source: tasks by status, raw bytes, rows, quarantine, outbox."""
    task = collection_task.c
    counts: dict[str, dict[str, int]] = {}
    sizes: dict[str, dict[str, int]] = {}
    live = task.last_error.is_(None) | ~task.last_error.like("superseded by %")
    per_status = select(
        task.source_key,
        task.status,
        func.count().label("n"),
        func.coalesce(func.sum(task.raw_offset), 0).label("done"),
        func.coalesce(func.sum(task.size), 0).label("total"),
    ).group_by(task.source_key, task.status)
    for row in conn.execute(per_status):
        counts.setdefault(row.source_key, {})[row.status] = row.n
        if row.status != "skipped":
            size = sizes.setdefault(row.source_key, {"done": 0, "total": 0, "lag": 0})
            size["done"] += int(row.done)
            size["total"] += max(int(row.total), int(row.done))
            size["lag"] = size["total"] - size["done"]
    ledger = (
        select(
            task.source_key,
            func.sum(committed_batch.c.row_count).label("rows"),
            func.sum(committed_batch.c.skipped_count).label("skipped"),
            func.max(committed_batch.c.committed_at).label("last_commit_at"),
        )
        .join(committed_batch, committed_batch.c.task_id == task.id)
        .where(live)
        .group_by(task.source_key)
    )
    sums = {row.source_key: row for row in conn.execute(ledger)}
    bad = _counts(conn, quarantined_item, quarantined_item.c.state == "open")
    pending = _counts(conn, outbox_message, outbox_message.c.state == "pending")
    dead = _counts(conn, outbox_message, outbox_message.c.state == "dead")
    lost: dict[str | None, int] = {}
    for row in conn.execute(
        select(file_event.c.source_key, file_event.c.detail).where(file_event.c.kind == "lost_bytes")
    ):
        lost[row.source_key] = lost.get(row.source_key, 0) + int(row.detail.get("bytes", 0))
    errors = (
        select(task.source_key, task.last_error).where(task.last_error.is_not(None), live).order_by(task.updated_at)
    )
    last_error = {row.source_key: row.last_error for row in conn.execute(errors)}
    found = []
    for source in conn.execute(select(collection_source).order_by(collection_source.c.source_key)):
        key = source.source_key
        summed = sums.get(key)
        found.append(
            {
                "source": key,
                "table": source.table_name,
                "status": source.status,
                "tasks": counts.get(key, {}),
                "bytes": sizes.get(key, {"done": 0, "total": 0, "lag": 0}),
                "lag_s": None,
                "rows": int(summed.rows) if summed else 0,
                "quarantined": bad.get(key, 0),
                "skipped": int(summed.skipped) if summed else 0,
                "lost_bytes": lost.get(key, 0),
                "rows_per_s": None,
                "outbox": {"pending": pending.get(key, 0), "dead": dead.get(key, 0), "oldest_s": None},
                "last_commit_at": summed.last_commit_at if summed else None,
                "last_error": last_error.get(key),
            }
        )
    return found


def _counts(conn: Connection, table: Table, condition: Any) -> dict[str, int]:
    query = select(table.c.source_key, func.count().label("n")).where(condition).group_by(table.c.source_key)
    return {row.source_key: row.n for row in conn.execute(query)}


def batch_of(conn: Connection, task_id: int, offset: int) -> dict[str, Any] | None:
    """Return the ledger row that covers a content offset."""
    span = committed_batch.c
    query = select(committed_batch).where(
        span.task_id == task_id, span.start_offset <= offset, span.end_offset > offset
    )
    found = rows_of(conn, query)
    return found[0] if found else None
