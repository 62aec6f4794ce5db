"""What operators do to tasks: pause, resume, cancel, retry; a state and version + 1, written directly.

Whoever works on the task is stopped by the fence: its next commit, renewal or release names the old
version, hits no row and writes nothing. So a task stops at a batch boundary, keeps its checkpoint and is
never marked as succeeded. `domain.states` says which state a verb may lead from.

Tasks are locked in id order, like everywhere; a commit in progress is waited for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, and_, func, null, or_, select, update

from filecollect.domain.states import VERBS, Verb
from filecollect.errors import UsageError
from filecollect.events import EventKind, FileEvent
from filecollect.store.engine import transaction
from filecollect.store.events import add_events
from filecollect.store.schema import collection_task
from filecollect.store.sources import set_source_status, stored_source
from filecollect.store.tasks import Task, is_superseded, lock_tasks, tasks_by_id
from filecollect.store.types import DatabaseNow

task = collection_task.c
AT_ONCE = 500
EVENTS: dict[Verb, EventKind] = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "retry": "retried"}
INSTEAD = {
    "succeeded": "`filecollect replay` reads it again",
    "gone": "it goes on by itself when its file is there again",
    "paused": "`filecollect tasks resume` lets it go on",
    "cancelled": "`filecollect tasks retry` revives it",
    "skipped": "`filecollect tasks retry` revives it",
    "failed": "`filecollect tasks retry` tries it again",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A task whose state a verb has changed."""

    id: int
    source: str
    path: str
    old: str
    new: str


# -- tasks that are named --------------------------------------------------------------------------


def change_named(engine: Engine, verb: Verb, named: Sequence[str], source: str | None) -> list[Change]:
    """Apply a verb to tasks by id or stored path (its newest on every host and in every source), all or none.

    Tasks that are what the verb leads to already are left as they are. Raises UsageError for a name that is
    no task, and for a task in a state that the verb does not know.
    """
    with transaction(engine) as conn:
        ids = {one for name in named for one in _ids(conn, name, source)}
        lock_tasks(conn, ids)
        tasks = tasks_by_id(conn, sorted(ids))
        for one in tasks:
            _may(verb, one)
        return [_change(conn, verb, one) for one in tasks if one.status in VERBS[verb][1]]


def _ids(conn: Connection, name: str, source: str | None) -> list[int]:
    is_id = name.isascii() and name.isdecimal() and len(name) < 19
    newest = select(func.max(task.id)).where(task.path == name).group_by(task.source_key, task.host)
    found = select(task.id).where(task.id == int(name)) if is_id else newest
    if source is not None:
        found = found.where(task.source_key == source)
    ids = list(conn.scalars(found))
    if not ids:
        raise UsageError(
            (f"no task {name}" if is_id else f"no task has the path {name}")
            + (f" in source {source}" if source is not None else ""),
            hint="filecollect tasks list",
        )
    return ids


def _may(verb: Verb, one: Task) -> None:
    new, old = VERBS[verb]
    if is_superseded(one):
        raise UsageError(f"cannot {verb} task {one.id}: it was {one.last_error}", path=one.path)
    goes_on = new == "pending" and one.status == "running"
    if one.status not in old and one.status != new and not goes_on:
        raise UsageError(
            f"cannot {verb} task {one.id}: expected a task that is {', '.join(sorted(old))}, it is {one.status}",
            path=one.path,
            hint=INSTEAD.get(one.status),
        )


# -- all tasks of a kind ---------------------------------------------------------------------------


def change_all(engine: Engine, verb: Verb, source: str | None) -> Iterator[Change]:
    """Apply a verb to all tasks that wait for it, of a source or of all, a few in each transaction.

    A retry takes those that failed or wait for another try: what was cancelled or skipped must be named.
    """
    after = 0
    while True:
        with transaction(engine) as conn:
            query = select(task.id).where(_waits_for(verb), task.id > after).order_by(task.id).limit(AT_ONCE)
            if source is not None:
                query = query.where(task.source_key == source)
            ids = list(conn.scalars(query))
            lock_tasks(conn, ids)
            still = select(task.id).where(task.id.in_(ids), _waits_for(verb)).order_by(task.id)
            done = [_change(conn, verb, one) for one in tasks_by_id(conn, list(conn.scalars(still)))]
        yield from done
        if not ids:
            return
        after = ids[-1]


def _waits_for(verb: Verb) -> Any:
    if verb == "retry":
        return or_(task.status == "failed", and_(task.status == "pending", task.next_run_at > DatabaseNow()))
    return task.status.in_(sorted(VERBS[verb][1]))


def _change(conn: Connection, verb: Verb, one: Task) -> Change:
    new = VERBS[verb][0]
    values: dict[str, Any] = {"status": new, "next_run_at": null()}
    if new == "pending":
        values |= {"next_run_at": DatabaseNow(), "attempt_count": 0, "last_error": null()}
    if one.is_placeholder and new == "pending":
        # A file that was never read belongs to discovery, which looks again when it is due.
        values |= {"status": "failed", "last_error": one.last_error}
    conn.execute(
        update(collection_task)
        .where(task.id == one.id)
        .values(owner_id=null(), lease_until=null(), version=task.version + 1, updated_at=DatabaseNow(), **values)
    )
    detail = {"from": one.status, "offset": one.content_offset}
    add_events(conn, [FileEvent(EVENTS[verb], one.path, one.source_key, one.id, detail)])
    return Change(one.id, one.source_key, one.path, one.status, values["status"])


# -- sources ---------------------------------------------------------------------------------------


def pause_source(engine: Engine, source_key: str, reason: str | None) -> tuple[bool, int]:
    """Let nobody work on a source any more; return whether it was active, and how many tasks were stopped.

    Two transactions, so that this waits for no task while claims wait for it. When the first has committed
    nobody claims any more, and every earlier claim can be seen by the second.
    """
    with transaction(engine) as conn:
        changed = set_source_status(conn, source_key, "paused", reason)
        if changed:
            add_events(conn, [FileEvent("paused", "", source_key, None, {"reason": reason})])
    with transaction(engine) as conn:
        running = and_(task.source_key == source_key, task.status == "running")
        ids = list(conn.scalars(select(task.id).where(running)))
        lock_tasks(conn, ids)
        stopped = conn.execute(
            update(collection_task)
            .where(running)
            .values(
                status="pending",
                next_run_at=DatabaseNow(),
                owner_id=null(),
                lease_until=null(),
                version=task.version + 1,
                updated_at=DatabaseNow(),
            )
        )
    return changed, stopped.rowcount


def resume_source(engine: Engine, source_key: str) -> bool:
    """Let workers take a source's tasks again; return whether it was paused."""
    with transaction(engine) as conn:
        changed = set_source_status(conn, source_key, "active", None)
        if changed:
            add_events(conn, [FileEvent("resumed", "", source_key, None, {})])
    return changed


def must_be_known(conn: Connection, source_key: str) -> None:
    """Raise UsageError for an unknown source."""
    if stored_source(conn, source_key) is None:
        raise UsageError(f"no source {source_key!r}", hint="filecollect sources list")
