"""The only ways back: a task's position may fall here and nowhere else.

Each is one transaction fenced like a commit, with an event: rows, ledger and open quarantine from the
new position on go together with the checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, not_, null, or_, select, update

from filecollect.domain.lease import Lease
from filecollect.domain.position import Checkpoint
from filecollect.errors import LeaseLost, UsageError
from filecollect.events import EventKind, FileEvent
from filecollect.store.database import database_of, quoted
from filecollect.store.destination import Destination
from filecollect.store.events import add_events
from filecollect.store.schema import collection_task, committed_batch, quarantined_item, worker
from filecollect.store.tasks import Task, holds
from filecollect.store.types import DatabaseNow

_AT_ONCE = 500


def rewind(
    conn: Connection,
    lease: Lease,
    destination: Destination,
    task: Task,
    to: Checkpoint,
    kind: EventKind,
    *,
    displaced: str | None = None,
) -> None:
    """Take a held task back to `to`; raise LeaseLost when the lease does not hold.

    `displaced` is given back the place that the record at `to` took.
    """
    done = conn.execute(
        update(collection_task)
        .where(*holds(lease), collection_task.c.content_offset == task.content_offset)
        .values(
            content_offset=to.offset, raw_offset=to.raw_offset, checkpoint_json=to.to_json(), updated_at=DatabaseNow()
        )
    )
    if done.rowcount != 1:
        raise LeaseLost("the task belongs to another worker now", path=task.path)
    if displaced is not None:
        destination.give_back(conn, task.id, to.offset, displaced)
    _forget_from(conn, destination, task, to.offset)
    detail = {"from": task.content_offset, "to": to.offset}
    add_events(conn, [FileEvent(kind, task.path, task.source_key, task.id, detail)])


def replay_task(
    conn: Connection,
    destination: Destination,
    task: Task,
    to: Checkpoint,
    bound: dict[str, Any],
    *,
    dead: Collection[str] = (),
) -> None:
    """Take a task back to its start, to be read again.

    Raises UsageError, naming the worker, when one holds it that is not `dead` and whose lease is not over.
    Whoever held it is fenced off by the new version.
    """
    mine = collection_task.c
    done = conn.execute(
        update(collection_task)
        .where(mine.id == task.id, mine.version == task.version, mine.status == task.status)
        .where(mine.content_offset == task.content_offset, is_free(dead))
        .values(
            status="pending",
            owner_id=null(),
            lease_until=null(),
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
        refuse_held(conn, [task.id], dead)
        raise UsageError("another process has just changed this task; try again", path=task.path)
    _forget_from(conn, destination, task, to.offset)
    detail = {"from": task.content_offset, "to": to.offset}
    add_events(conn, [FileEvent("replayed", task.path, task.source_key, task.id, detail)])


def is_free(dead: Collection[str]) -> ColumnElement[bool]:
    """Return the condition that nobody works on a task: not running, or its owner dead or its lease over."""
    mine = collection_task.c
    return or_(mine.status != "running", mine.lease_until <= DatabaseNow(), mine.owner_id.in_(sorted(dead)))


def refuse_held(conn: Connection, ids: Sequence[int], dead: Collection[str] = ()) -> None:
    """Raise UsageError, naming the worker, when one of these tasks is worked on."""
    held = (
        select(collection_task.c.path, collection_task.c.owner_id, worker.c.pid, worker.c.host)
        .outerjoin(worker, worker.c.owner_id == collection_task.c.owner_id)
        .where(not_(is_free(dead)))
        .order_by(collection_task.c.id)
        .limit(1)
    )
    for start in range(0, len(ids), _AT_ONCE):
        row = conn.execute(held.where(collection_task.c.id.in_(ids[start : start + _AT_ONCE]))).first()
        if row is not None:
            process = f"{row.owner_id}" if row.pid is None else f"{row.owner_id} (process {row.pid} on {row.host})"
            raise UsageError(f"worker {process} is reading this file; stop it first", path=row.path)


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
