"""Reconciliation: tasks whose bytes are no longer at their path, settled after a complete scan.

A followed generation ends in one of these ways; which one is known only when nothing can continue it:

    its path is taken by a newer generation, or empty, and everything known of it was read -> succeeded
    ... and bytes of it were seen but not read -> gone, with `lost_bytes` (the known minimum)

Nothing is settled while an undecided file may be its copy, or when the directory above it is missing,
too: a whole root that is gone is an unmounted volume, not a deletion. A daemon settles only what was an
orphan at an earlier scan already, at least `settle_s` ago, because files move while they are listed.
A file that comes back continues at the same offset.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress

from sqlalchemy import Connection, Engine, null

from filecollect.errors import FileUnavailable
from filecollect.events import FileEvent
from filecollect.files.content import open_content
from filecollect.files.filesystem import FileMissing, FileSystem
from filecollect.files.fingerprint import proves
from filecollect.files.paths import os_path
from filecollect.pipeline.plan import Plan
from filecollect.pipeline.proof import resumed
from filecollect.store.engine import reading, transaction
from filecollect.store.events import add_events
from filecollect.store.tasks import Task, change_task, forget_passed_over, tasks_at_paths, tasks_waiting_dormant

CHUNK = 500


def orphans(
    engine: Engine,
    files: FileSystem,
    plan: Plan,
    *,
    present: Collection[str],
    undecided: Collection[int],
    host: str | None = None,
) -> list[Task]:
    """Return a source's tasks whose bytes no file of a scan holds, and that nobody works on.

    `present` are the stored paths of the scan, `undecided` the tasks that a file may be a copy of, `host`
    is whose tasks are looked at (None: those of all hosts).
    """
    found: list[Task] = []
    after = 0
    files = plan.files(files)
    while True:
        with reading(engine) as conn:
            tasks = tasks_waiting_dormant(conn, plan.source_key, after=after, limit=CHUNK, host=host)
            if not tasks:
                return found
            after = tasks[-1].id
            newest = tasks_at_paths(conn, plan.source_key, [task.path for task in tasks], host)
        for task in tasks:
            superseded = newest[task.path].id != task.id
            if task.id in undecided or (task.path in present and not superseded):
                continue
            if not _may_be_there(files, task, superseded):
                found.append(task)


def settle(engine: Engine, plan: Plan, tasks: Iterable[Task]) -> list[str]:
    """End tasks that nothing can continue, each as it deserves; return paths that must be looked at anew first.

    A file that was passed over as a copy of what is an orphan now may be all that is left of it.
    """
    again: list[str] = []
    for task in tasks:
        with transaction(engine) as conn:
            passed_over = forget_passed_over(conn, task) if task.size > task.raw_offset else []
            again += passed_over
            if not passed_over:
                _settle(conn, plan, task)
    return again


def _may_be_there(files: FileSystem, task: Task, superseded: bool) -> bool:
    """Return whether the task's bytes may be at its path, or beside it under another name, or nothing is known."""
    path = os_path(task.path)
    if _has_moved(files, path, task):
        return True
    try:
        with files.open(path) as handle:
            position = task.position
            content, proven = resumed(handle, handle.stat().size, position)
            same = proven or proves(content, task.head, task.head.length)
            return same and not superseded and content.size_up_to(position.offset) >= position.offset
    except FileMissing:
        return not os.path.isdir(os.path.dirname(path))
    except FileUnavailable:
        return True


def _has_moved(files: FileSystem, path: str, task: Task) -> bool:
    """Return whether the task's file stands under another name in the same directory: the scan came too early."""
    directory = os.path.dirname(path)
    with suppress(FileUnavailable, OSError):
        for entry in files.scandir(directory):
            if entry.path != path and entry.inode() == task.inode:
                return _begins_alike(files, entry.path, task)
    return False


def _begins_alike(files: FileSystem, path: str, task: Task) -> bool:
    with files.open(path) as handle:
        return proves(open_content(handle, handle.stat().size), task.head, task.head.length)


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
