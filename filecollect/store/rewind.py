"""The only ways back: a task's position may fall here and nowhere else.

Each is one transaction fenced like a commit, with an event: rows, ledger and open quarantine from the
new position on go together with the checkpoint.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, null, select, update

from filecollect.domain.lease import Lease
from filecollect.domain.position import Checkpoint
from filecollect.errors import LeaseLost, UsageError
from filecollect.events import EventKind, FileEvent
from filecollect.store.database import database_of, quoted
from filecollect.store.destination import Destination
from filecollect.store.events import add_events
from filecollect.store.schema import collection_task, committed_batch, quarantined_item
from filecollect.store.tasks import Task, holds
from filecollect.store.types import DatabaseNow


def rewind(
    conn: Connection, lease: Lease, destination: Destination, task: Task, to: Checkpoint, kind: EventKind
) -> None:
    """Take a held task back to `to`; raise LeaseLost when the lease does not hold."""
    done = conn.execute(
        update(collection_task)
        .where(*holds(lease), collection_task.c.content_offset == task.content_offset)
        .values(
            content_offset=to.offset, raw_offset=to.raw_offset, checkpoint_json=to.to_json(), updated_at=DatabaseNow()
        )
    )
    if done.rowcount != 1:
        raise LeaseLost("the task belongs to another worker now", path=task.path)
    _forget_from(conn, destination, task, to.offset)
    detail = {"from": task.content_offset, "to": to.offset}
    add_events(conn, [FileEvent(kind, task.path, task.source_key, task.id, detail)])


def replay_task(conn: Connection, destination: Destination, task: Task, to: Checkpoint, bound: dict[str, Any]) -> None:
    """Take a task that nobody works on back to its start, to be read again.

    Raises UsageError when a worker holds it.
    """
    done = conn.execute(
        update(collection_task)
        .where(
            collection_task.c.id == task.id,
            collection_task.c.version == task.version,
            collection_task.c.status == task.status,
            collection_task.c.status != "running",
        )
        .values(
            status="pending",
            next_run_at=DatabaseNow(),
            content_offset=to.offset,
            raw_offset=to.raw_offset,
            checkpoint_json=to.to_json(),
            snapshot_json=bound,
            content_digest=null(),
            attempt_count=0,
            last_error=null(),
            version=collection_task.c.version + 1,
            updated_at=DatabaseNow(),
        )
    )
    if done.rowcount != 1:
        raise UsageError("a worker is reading this file; stop it first", path=task.path)
    _forget_from(conn, destination, task, to.offset)
    detail = {"from": task.content_offset, "to": to.offset}
    add_events(conn, [FileEvent("replayed", task.path, task.source_key, task.id, detail)])


def _forget_from(conn: Connection, destination: Destination, task: Task, offset: int) -> None:
    mark = database_of(conn).mark
    conn.exec_driver_sql(
        f"DELETE FROM {destination.sql_name} WHERE {quoted('_task_id')} = {mark} AND {quoted('_offset')} >= {mark}",
        (task.id, offset),
    )
    conn.execute(
        delete(committed_batch).where(committed_batch.c.task_id == task.id, committed_batch.c.start_offset >= offset)
    )
    conn.execute(
        delete(quarantined_item).where(quarantined_item.c.task_id == task.id, quarantined_item.c.start_offset >= offset)
    )


def line_at(conn: Connection, task: Task, offset: int) -> int:
    """Return the 1-based line on which the ledger row begins that starts at `offset`."""
    mine = committed_batch.c
    row = conn.execute(select(mine.start_line).where(mine.task_id == task.id, mine.start_offset == offset)).first()
    return 1 if row is None else int(row.start_line)
