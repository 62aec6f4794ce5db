"""Tasks: recording, renewing and giving back; how they are claimed stands in `claim`.

A task belongs to the host whose file it is, or to every host (NULL: shared storage, and SQLite). The
same path on two hosts is two files, so every look-up by path or content names the host.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, insert, null, or_, select, update

from filecollect.domain.lease import Lease, WorkerRecord
from filecollect.domain.position import HEAD_LENGTHS, Checkpoint, Proof
from filecollect.domain.states import Status, may_change
from filecollect.errors import InvariantError
from filecollect.store.schema import collection_task, committed_batch, worker
from filecollect.store.types import DatabaseNow

task = collection_task.c
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Task:
    """A row of `collection_task`; `bound` is the raw size at which the round stops."""

    id: int
    generation: str
    parent_task_id: int | None
    source_key: str
    status: str
    start_offset: int
    content_offset: int
    checkpoint: Any
    bound: int | None
    owner_id: str | None
    version: int
    attempt_count: int
    path: str
    device: int | None
    inode: int | None
    size: int
    mtime_ns: int
    head: Proof
    content_digest: str | None
    last_error: str | None
    next_run_at: datetime | None
    raw_offset: int = 0
    updated_at: datetime | None = None

    @property
    def is_placeholder(self) -> bool:
        """Return whether this only remembers a path that could not be read so far."""
        return self.status == "failed" and self.head.length == 0 and self.content_offset == 0

    @property
    def position(self) -> Checkpoint:
        """Return the checkpoint; raise CheckpointError when it is damaged."""
        return Checkpoint.from_json(self.checkpoint)


def from_row(row: Any) -> Task:
    """Make a Task of a whole row of `collection_task`."""
    return Task(
        id=row.id,
        generation=row.generation,
        parent_task_id=row.parent_task_id,
        source_key=row.source_key,
        status=row.status,
        start_offset=row.start_offset,
        content_offset=row.content_offset,
        checkpoint=row.checkpoint_json,
        bound=(row.snapshot_json or {}).get("bound"),
        owner_id=row.owner_id,
        version=row.version,
        attempt_count=row.attempt_count,
        path=row.path,
        device=row.device,
        inode=row.inode,
        size=row.size or 0,
        mtime_ns=row.mtime_ns or 0,
        head=Proof(row.head_length or 0, row.head_digest or ""),
        content_digest=row.content_digest,
        last_error=row.last_error,
        next_run_at=row.next_run_at,
        raw_offset=row.raw_offset,
        updated_at=row.updated_at,
    )


def snapshot(bound: int | None, taken_at: str) -> dict[str, Any]:
    """Return `snapshot_json`: the raw size at which a bounded round stops, and when it was taken."""
    return {"v": 1, "bound": bound, "taken_at": taken_at}


def on_host(host: str | None) -> ColumnElement[bool]:
    """Return the condition that a task belongs to a host, or to all (None)."""
    return task.host.is_(None) if host is None else task.host == host


def tasks_at_paths(conn: Connection, source_key: str, paths: Sequence[str], host: str | None = None) -> dict[str, Task]:
    """Return the newest task of each path in a source on a host."""
    found: dict[str, Task] = {}
    for start in range(0, len(paths), 500):
        chunk = list(paths[start : start + 500])
        rows = conn.execute(
            select(collection_task)
            .where(task.source_key == source_key, task.path.in_(chunk), on_host(host))
            .order_by(task.id)
        )
        found.update({row.path: from_row(row) for row in rows})
    return found


def tasks_with_heads(
    conn: Connection, source_key: str, heads: Sequence[Proof], host: str | None = None, limit: int = 16
) -> list[Task]:
    """Return the newest tasks of a source on a host that begin with one of `heads`, skipped ones left out."""
    if not heads:
        return []
    same = or_(*(and_(task.head_length == head.length, task.head_digest == head.digest) for head in heads))
    rows = conn.execute(
        select(collection_task)
        .where(task.source_key == source_key, same, on_host(host), task.status != "skipped")
        .order_by(task.id.desc())
        .limit(limit)
    )
    return [from_row(row) for row in rows]


def small_tasks(
    conn: Connection,
    source_key: str,
    inode: int,
    paths: Sequence[str],
    host: str | None = None,
    *,
    below: int = HEAD_LENGTHS[0],
    limit: int = 4,
) -> list[Task]:
    """Return the newest tasks whose content is too short to be found by a head: of an inode, and at some paths."""
    found: list[Task] = []
    for same in (task.inode == inode, task.path.in_(paths)) if paths else (task.inode == inode,):
        rows = conn.execute(
            select(collection_task)
            .where(task.source_key == source_key, same, task.head_length > 0, task.head_length < below)
            .where(on_host(host))
            .where(task.status != "skipped")
            .order_by(task.id.desc())
            .limit(limit)
        )
        found += [from_row(row) for row in rows]
    return found


def tasks_by_id(conn: Connection, ids: Sequence[int]) -> list[Task]:
    """Return tasks by id, in id order."""
    found: list[Task] = []
    for start in range(0, len(ids), 500):
        chunk = list(ids[start : start + 500])
        rows = conn.execute(select(collection_task).where(task.id.in_(chunk)).order_by(task.id))
        found.extend(from_row(row) for row in rows)
    return found


def predecessors(conn: Connection, known: Task) -> tuple[int, ...]:
    """Return the earlier generations at a task's path whose rows are still there, newest first."""
    found: list[int] = []
    one = known
    while one.parent_task_id is not None and one.start_offset == 0:
        parents = tasks_by_id(conn, [one.parent_task_id])
        if not parents or parents[0].path != known.path or is_superseded(parents[0]):
            break
        one = parents[0]
        found.append(one.id)
    return tuple(found)


def is_superseded(known: Task) -> bool:
    """Return whether a task's rows went because a newer generation replaced it."""
    return known.status == "skipped" and (known.last_error or "").startswith("superseded")


def lock_tasks(conn: Connection, ids: Collection[int]) -> None:
    """Lock tasks until the transaction ends, in id order; on SQLite the transaction is the lock."""
    if ids:
        conn.execute(select(task.id).where(task.id.in_(sorted(ids))).order_by(task.id).with_for_update()).all()


def add_task(conn: Connection, **values: Any) -> int:
    """Insert a new generation and return its id; `checkpoint_json` defaults to the very start."""
    values.setdefault("checkpoint_json", Checkpoint().to_json())
    values.setdefault("attempt_count", 0)
    values.setdefault("content_offset", 0)
    values.setdefault("raw_offset", values["content_offset"])
    values.setdefault("start_offset", values["content_offset"])
    done = conn.execute(
        insert(collection_task).values(
            generation=secrets.token_hex(16),
            version=0,
            created_at=DatabaseNow(),
            updated_at=DatabaseNow(),
            **values,
        )
    )
    key = done.inserted_primary_key
    assert key is not None
    return int(key[0])


def change_task(conn: Connection, known: Task, **values: Any) -> bool:
    """Change a task that nobody has moved since `known` was read; False when somebody has.

    A running task stays its owner's: its version is part of the condition. Raises InvariantError for a
    state that cannot follow.
    """
    _check_change(known.status, values.get("status", known.status))
    done = conn.execute(
        update(collection_task)
        .where(task.id == known.id, task.version == known.version, task.status == known.status)
        .where(task.content_offset == known.content_offset)
        .values(updated_at=DatabaseNow(), **values)
    )
    return done.rowcount == 1


def _check_change(old: str, new: str) -> None:
    if not may_change(old, new):
        raise InvariantError(f"a task that is {old} cannot become {new}")


def force_task(conn: Connection, task_id: int, **values: Any) -> None:
    """Change a task under the source's lock, whoever holds it."""
    conn.execute(update(collection_task).where(task.id == task_id).values(updated_at=DatabaseNow(), **values))


def move_task(conn: Connection, known: Task, path: str) -> None:
    """Note the new path of a task that keeps its owner."""
    conn.execute(
        update(collection_task)
        .where(task.id == known.id, task.path == known.path, task.version == known.version)
        .values(path=path)
    )


def add_skipped_span(conn: Connection, task_id: int, end: int) -> None:
    """Note that a new task's content up to `end` is passed over; nobody read it, so it has no digest."""
    conn.execute(
        insert(committed_batch).values(
            task_id=task_id,
            seq=1,
            start_offset=0,
            end_offset=end,
            start_line=1,
            row_count=0,
            quarantined_count=0,
            skipped_count=0,
            digest="",
            kind="skipped",
            owner_id="",
            version=0,
            committed_at=DatabaseNow(),
        )
    )


def forget_passed_over(conn: Connection, known: Task) -> list[str]:
    """Let files that were passed over for the sake of a task be looked at anew; return their paths."""
    skipped = (task.parent_task_id == known.id, task.status == "skipped", task.mtime_ns.is_not(None))
    not_superseded = or_(task.last_error.is_(None), task.last_error.not_like("superseded%"))
    done = conn.execute(
        update(collection_task).where(*skipped, not_superseded).values(mtime_ns=null()).returning(task.path)
    )
    return [row.path for row in done]


def tasks_waiting_dormant(
    conn: Connection, source_key: str, *, after: int, limit: int, host: str | None = None
) -> list[Task]:
    """Return tasks of a source on a host that are pending without a time to run, by id."""
    rows = conn.execute(
        select(collection_task)
        .where(task.source_key == source_key, task.status == "pending", task.next_run_at.is_(None), task.id > after)
        .where(on_host(host))
        .order_by(task.id)
        .limit(limit)
    )
    return [from_row(row) for row in rows]


def wake_dormant(conn: Connection, task_id: int) -> bool:
    """Make a dormant task due at once."""
    dormant = (task.id == task_id, task.status == "pending", task.next_run_at.is_(None))
    done = conn.execute(
        update(collection_task).where(*dormant).values(next_run_at=DatabaseNow(), updated_at=DatabaseNow())
    )
    return done.rowcount == 1


def renew(conn: Connection, *, owner: str, leases: Collection[Lease], lease_s: float) -> set[int]:
    """Renew leases in id order, waiting for nobody; return the ids that are not lost.

    A row that somebody has locked is passed over and counts as kept: our own commit in progress renews
    it itself, and whatever else it is, the fence of the next commit decides.
    """
    kept: set[int] = set()
    held = sorted(leases, key=lambda lease: lease.task_id)
    for start in range(0, len(held), _AT_ONCE):
        some = held[start : start + _AT_ONCE]
        ids = [lease.task_id for lease in some]
        free = select(task.id, task.version, task.owner_id, task.status, task.lease_until > DatabaseNow())
        rows = conn.execute(free.where(task.id.in_(ids)).order_by(task.id).with_for_update(skip_locked=True)).all()
        versions = {lease.task_id: lease.version for lease in some}
        ours = [
            row.id
            for row in rows
            if (row.version, row.owner_id, row.status, bool(row[4])) == (versions[row.id], owner, "running", True)
        ]
        if ours:
            values = {"lease_until": DatabaseNow(lease_s), "updated_at": DatabaseNow()}
            done = conn.execute(update(collection_task).where(task.id.in_(ours)).values(values))
            if done.rowcount != len(ours):
                raise InvariantError(f"{len(ours)} locked tasks were renewed, {done.rowcount} changed")
        kept.update(ours)
        locked = set(ids) - {row.id for row in rows}
        if locked:
            # Read without a lock: a task of a forgotten source is not there at all.
            kept.update(conn.scalars(select(task.id).where(task.id.in_(sorted(locked)))))
    return kept


def holds(lease: Lease) -> tuple[Any, ...]:
    """Return the conditions under which `lease` may write to its task."""
    return (
        task.id == lease.task_id,
        task.status == "running",
        task.owner_id == lease.owner,
        task.version == lease.version,
        task.lease_until > DatabaseNow(),
    )


def give_back(
    conn: Connection,
    lease: Lease,
    *,
    status: Status,
    error: str | None = None,
    retry_in_s: float | None = None,
    failed: bool = False,
    **values: Any,
) -> bool:
    """End a lease: the task becomes `status`; pending is due in `retry_in_s` (None = dormant).

    Returns False when the lease was not held any more; then nothing was changed. May be called again
    when it is not known whether the first call was committed.
    """
    _check_change("running", status)
    done = conn.execute(
        update(collection_task)
        .where(*holds(lease))
        .values(
            status=status,
            owner_id=null(),
            lease_until=null(),
            next_run_at=null() if retry_in_s is None else DatabaseNow(retry_in_s),
            last_error=error,
            attempt_count=task.attempt_count + 1 if failed else task.attempt_count,
            updated_at=DatabaseNow(),
            **values,
        )
    )
    return done.rowcount == 1 or _is_given_back(conn, lease, status)


def _is_given_back(conn: Connection, lease: Lease, status: Status) -> bool:
    """Return whether this very lease was ended like that already: nobody else writes that version."""
    same = (task.id == lease.task_id, task.version == lease.version, task.status == status, task.owner_id.is_(None))
    return conn.execute(select(task.id).where(*same)).first() is not None


def register_worker(conn: Connection, record: WorkerRecord, app_version: str) -> None:
    """Insert this process into `worker`, once."""
    if conn.execute(select(worker.c.owner_id).where(worker.c.owner_id == record.owner)).first() is not None:
        return
    conn.execute(
        insert(worker).values(
            owner_id=record.owner,
            host=record.host,
            boot_id=record.boot_id,
            pid_namespace=record.pid_namespace,
            pid=record.pid,
            process_start=record.process_start,
            app_version=app_version,
            started_at=DatabaseNow(),
            heartbeat_at=DatabaseNow(),
            counters_json={},
        )
    )


def note_heartbeat(conn: Connection, owner: str, counters: dict[str, int]) -> None:
    """Store that `owner` lives, and its counters."""
    conn.execute(
        update(worker).where(worker.c.owner_id == owner).values(heartbeat_at=DatabaseNow(), counters_json=counters)
    )


def owners_of_running(conn: Connection) -> list[WorkerRecord]:
    """Return the workers that hold running tasks, by asking for one of each worker."""
    one = select(task.id).where(task.owner_id == worker.c.owner_id, task.status == "running").limit(1)
    rows = conn.execute(select(worker).where(one.correlate(worker).scalar_subquery().is_not(None)))
    return [
        WorkerRecord(row.owner_id, row.host, row.boot_id, row.pid_namespace, row.pid, row.process_start) for row in rows
    ]


def boot_of_last_commit(conn: Connection, task_id: int) -> str | None:
    """Return the boot id under which the task's last batch was committed."""
    row = conn.execute(
        select(worker.c.boot_id)
        .join(committed_batch, committed_batch.c.owner_id == worker.c.owner_id)
        .where(committed_batch.c.task_id == task_id)
        .order_by(committed_batch.c.seq.desc())
        .limit(1)
    ).first()
    return None if row is None else row.boot_id
