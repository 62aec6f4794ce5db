"""Storing file events, in the transaction that makes them true."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import Connection, insert, select

from filecollect.events import FileEvent
from filecollect.store.schema import file_event
from filecollect.store.types import DatabaseNow


def add_events(conn: Connection, events: Iterable[FileEvent]) -> None:
    """Insert events."""
    for event in events:
        conn.execute(
            insert(file_event).values(
                task_id=event.task_id,
                source_key=event.source_key,
                path=event.path,
                kind=event.kind,
                detail=event.detail,
                at=DatabaseNow(),
            )
        )


def add_first_event(conn: Connection, event: FileEvent) -> None:
    """Insert an event unless its task has one of its kind already."""
    mine = file_event.c
    told = conn.execute(select(mine.id).where(mine.task_id == event.task_id, mine.kind == event.kind).limit(1)).first()
    if told is None:
        add_events(conn, [event])


def add_event_once(conn: Connection, event: FileEvent) -> None:
    """Insert an event unless the newest one of its path says the same."""
    last = conn.execute(
        select(file_event.c.kind, file_event.c.detail)
        .where(file_event.c.path == event.path)
        .order_by(file_event.c.id.desc())
        .limit(1)
    ).first()
    if last is None or (last.kind, last.detail) != (event.kind, event.detail):
        add_events(conn, [event])
