"""Reconciliation: tasks whose bytes are no longer at their path, settled after a complete scan.

A followed generation ends in one of these ways; which one is known only when nothing can continue it:

    its path is taken by a newer generation, or empty, and everything known of it was read -> succeeded
    ... and bytes of it were seen but not read -> gone, with `lost_bytes` (the known minimum)

Nothing is settled while an undecided file may be its copy, within `settle_s` of its last change, or when
the directory above it is missing, too: a whole root that is gone is an unmounted volume, not a deletion.
A file that comes back continues at the same offset.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from datetime import timedelta

from sqlalchemy import Connection, Engine, null

from filecollect.errors import FileUnavailable
from filecollect.events import FileEvent
from filecollect.files.filesystem import FileMissing, FileSystem
from filecollect.files.fingerprint import proves
from filecollect.files.paths import os_path
from filecollect.pipeline.plan import Plan
from filecollect.store.engine import db_now, reading, transaction
from filecollect.store.events import add_events
from filecollect.store.tasks import Task, change_task, tasks_at_paths, tasks_waiting_dormant

CHUNK = 500


def reconcile(
    engine: Engine,
    files: FileSystem,
    plan: Plan,
    *,
    present: Collection[str],
    undecided: Collection[int],
    wait_s: float,
) -> int:
    """Settle a source's tasks that nothing can continue; return how many.

    `present` are the stored paths of the scan, `undecided` the tasks that a file may be a copy of.
    """
    settled, after = 0, 0
    while True:
        with reading(engine) as conn:
            tasks = tasks_waiting_dormant(conn, plan.source_key, after=after, limit=CHUNK)
            if not tasks:
                return settled
            after = tasks[-1].id
            newest = tasks_at_paths(conn, plan.source_key, [task.path for task in tasks])
            due = db_now(conn) - timedelta(seconds=wait_s)
        for task in tasks:
            superseded = newest[task.path].id != task.id
            if task.id in undecided or (task.path in present and not superseded):
                continue
            if task.updated_at is not None and task.updated_at > due:
                continue
            if _is_at_its_path(files, task, superseded):
                continue
            with transaction(engine) as conn:
                settled += _settle(conn, plan, task)


def _is_at_its_path(files: FileSystem, task: Task, superseded: bool) -> bool:
    """Return whether the task's bytes may still be at its path, or nothing can be said."""
    path = os_path(task.path)
    try:
        with files.open(path) as handle:
            position = task.position
            size = handle.stat().size
            same = size >= position.offset and proves(handle, task.head, task.head.length)
            return same and not superseded
    except FileMissing:
        return not os.path.isdir(os.path.dirname(path))
    except FileUnavailable:
        return True


def _settle(conn: Connection, plan: Plan, task: Task) -> bool:
    lost = max(0, task.size - task.raw_offset)
    status = "gone" if lost else "succeeded"
    if not change_task(conn, task, status=status, next_run_at=null(), version=task.version + 1):
        return False
    if lost:
        detail = {"bytes": lost, "offset": task.content_offset, "size": task.size}
        events = [FileEvent("gone", task.path, plan.source_key, task.id, detail)]
        if plan.settings.follow:
            events.append(FileEvent("lost_bytes", task.path, plan.source_key, task.id, {**detail, "why": "destroyed"}))
        add_events(conn, events)
    return True
