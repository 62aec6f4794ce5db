"""Quarantined records: choosing them, putting one in as a row, letting them go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select, update

from filecollect.errors import UsageError
from filecollect.events import FileEvent
from filecollect.store.events import add_events
from filecollect.store.schema import (
    collection_source,
    collection_task,
    committed_batch,
    file_event,
    quarantined_item,
)


@dataclass(frozen=True, slots=True)
class Item:
    """A quarantined record, with what is needed to parse it again."""

    id: int
    task_id: int
    generation: str
    path: str
    source_key: str
    offset: int
    length: int
    line: int
    raw: bytes
    reason: str
    parser: dict[str, Any]


def open_items(conn: Connection, *, ids: Sequence[int] = (), source: str | None = None) -> list[Item]:
    """Return open items by id, or of a source, or all; raise UsageError for an id that is not open."""
    query = (
        select(quarantined_item, collection_task.c.generation, collection_task.c.path)
        .join(collection_task, collection_task.c.id == quarantined_item.c.task_id)
        .where(quarantined_item.c.state == "open")
        .order_by(quarantined_item.c.task_id, quarantined_item.c.start_offset)
    )
    if ids:
        query = query.where(quarantined_item.c.id.in_(list(ids)))
    if source is not None:
        query = query.where(quarantined_item.c.source_key == source)
    items = [
        Item(
            row.id,
            row.task_id,
            row.generation,
            row.path,
            row.source_key,
            row.start_offset,
            row.length,
            row.line,
            bytes(row.raw),
            row.reason,
            row.parser_json,
        )
        for row in conn.execute(query)
    ]
    missing = set(ids) - {item.id for item in items}
    if missing:
        raise UsageError(f"no open quarantined record {min(missing)}", hint="filecollect quarantine list")
    return items


def settle(conn: Connection, item: Item, state: str) -> None:
    """Move an open item to `state`; raise UsageError when somebody else already did."""
    done = conn.execute(
        update(quarantined_item)
        .where(quarantined_item.c.id == item.id, quarantined_item.c.state == "open")
        .values(state=state)
    )
    if done.rowcount != 1:
        raise UsageError(f"quarantined record {item.id} is not open any more")
    if state == "retried":
        detail = {"quarantined": item.id, "offset": item.offset, "reason": item.reason}
        add_events(conn, [FileEvent("retried", item.path, item.source_key, item.task_id, detail)])


def forget_source(conn: Connection, source_key: str) -> int:
    """Forget a source: its tasks, ledger, quarantine and events go, its table stays; return the task count.

    Raises UsageError for an unknown source, or one that a worker is reading.
    """
    if conn.execute(delete(collection_source).where(collection_source.c.source_key == source_key)).rowcount != 1:
        raise UsageError(f"no source {source_key!r}", hint="filecollect sources list")
    mine = select(collection_task.c.id).where(collection_task.c.source_key == source_key)
    running = conn.execute(mine.where(collection_task.c.status == "running").limit(1)).first()
    if running is not None:
        raise UsageError(f"a worker is reading files of source {source_key}; stop it first")
    for table in (committed_batch, quarantined_item, file_event):
        conn.execute(delete(table).where(table.c.task_id.in_(mine)))
    return conn.execute(delete(collection_task).where(collection_task.c.source_key == source_key)).rowcount
