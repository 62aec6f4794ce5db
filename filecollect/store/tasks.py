"""Tasks: recording, claiming, renewing and giving back.

The lease protocol: a claim is one short transaction that writes owner, lease_until and version + 1
to tasks that are pending and due, or running under an expired lease or a provably dead owner. The
pair (owner, version) is the fencing token; every later write names it and must hit exactly one row.
Files are opened only after the claim has committed.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, exists, insert, null, or_, select, update

from filecollect.domain.lease import Lease, WorkerRecord
from filecollect.domain.position import HEAD_LENGTHS, Checkpoint, Proof
from filecollect.domain.states import Status
from filecollect.events import FileEvent
from filecollect.store.events import add_events
from filecollect.store.schema import collection_task, committed_batch, worker
from filecollect.store.types import DatabaseNow

task = collection_task.c


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


def tasks_at_paths(conn: Connection, source_key: str, paths: Sequence[str]) -> dict[str, Task]:
    """Return the newest task of each path in a source."""
    found: dict[str, Task] = {}
    for start in range(0, len(paths), 500):
        chunk = list(paths[start : start + 500])
        rows = conn.execute(
            select(collection_task).where(task.source_key == source_key, task.path.in_(chunk)).order_by(task.id)
        )
        found.update({row.path: from_row(row) for row in rows})
    return found


def tasks_with_heads(conn: Connection, source_key: str, heads: Sequence[Proof], limit: int = 16) -> list[Task]:
    """Return the newest tasks of a source that begin with one of `heads`, skipped ones left out."""
    if not heads:
        return []
    same = or_(*(and_(task.head_length == head.length, task.head_digest == head.digest) for head in heads))
    rows = conn.execute(
        select(collection_task)
        .where(task.source_key == source_key, same, task.status.not_in(("skipped", "cancelled")))
        .order_by(task.id.desc())
        .limit(limit)
    )
    return [from_row(row) for row in rows]


def small_tasks(
    conn: Connection, source_key: str, inode: int, paths: Sequence[str], below: int = HEAD_LENGTHS[0], limit: int = 4
) -> list[Task]:
    """Return the newest tasks whose content is too short to be found by a head: of an inode, and at some paths."""
    found: list[Task] = []
    for same in (task.inode == inode, task.path.in_(paths)) if paths else (task.inode == inode,):
        rows = conn.execute(
            select(collection_task)
            .where(task.source_key == source_key, same, task.head_length > 0, task.head_length < below)
            .where(task.status.not_in(("skipped", "cancelled")))
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

    A running task stays its owner's: its version is part of the condition.
    """
    done = conn.execute(
        update(collection_task)
        .where(task.id == known.id, task.version == known.version, task.status == known.status)
        .where(task.content_offset == known.content_offset)
        .values(updated_at=DatabaseNow(), **values)
    )
    return done.rowcount == 1


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


def tasks_waiting_dormant(conn: Connection, source_key: str, *, after: int, limit: int) -> list[Task]:
    """Return tasks of a source that are pending without a time to run, by id."""
    rows = conn.execute(
        select(collection_task)
        .where(task.source_key == source_key, task.status == "pending", task.next_run_at.is_(None), task.id > after)
        .order_by(task.id)
        .limit(limit)
    )
    return [from_row(row) for row in rows]


def claim(
    conn: Connection,
    *,
    owner: str,
    among: Sequence[int] | None,
    limit: int,
    lease_s: float,
    dead: Collection[str],
    sources: Collection[str] | None = None,
) -> list[tuple[Task, bool]]:
    """Lease up to `limit` claimable tasks to `owner`: of `among`, oldest first, or any that are due.

    Without `among`, those that wait longest come first, so that none starves; `sources` narrows both.

    Returns each task with whether it was taken over without any progress of its dead owner. An
    expired or dead owner's takeover is recorded as an event; one without progress counts an attempt.
    """
    if among is not None and not among:
        return []
    claimable = or_(
        and_(task.status == "pending", task.next_run_at <= DatabaseNow()),
        and_(task.status == "running", or_(task.lease_until <= DatabaseNow(), task.owner_id.in_(list(dead)))),
    )
    wanted = select(collection_task).where(claimable).limit(limit)
    wanted = wanted.order_by(task.next_run_at, task.id) if among is None else wanted.where(task.id.in_(among))
    wanted = wanted if sources is None else wanted.where(task.source_key.in_(sources))
    rows = conn.execute(wanted if among is None else wanted.order_by(task.id)).all()
    claimed: list[tuple[Task, bool]] = []
    for old in map(from_row, rows):
        taken_over = old.status == "running"
        stuck = taken_over and not _made_progress(conn, old)
        done = conn.execute(
            update(collection_task)
            .where(task.id == old.id, task.version == old.version, task.status == old.status)
            .where(task.owner_id == old.owner_id if taken_over else task.owner_id.is_(None))
            .values(
                status="running",
                owner_id=owner,
                lease_until=DatabaseNow(lease_s),
                version=task.version + 1,
                attempt_count=task.attempt_count + (1 if stuck else 0),
                updated_at=DatabaseNow(),
            )
        )
        if done.rowcount != 1:
            continue
        if taken_over:
            detail = {"from": old.owner_id, "offset": old.content_offset, "progress": not stuck}
            add_events(conn, [FileEvent("takeover", old.path, old.source_key, old.id, detail)])
        new = conn.execute(select(collection_task).where(task.id == old.id)).one()
        claimed.append((from_row(new), stuck))
    return claimed


def any_claimable(conn: Connection, sources: Collection[str], dead: Collection[str]) -> bool:
    """Return whether a `claim` of these sources would find something; takes no lock."""
    claimable = or_(
        and_(task.status == "pending", task.next_run_at <= DatabaseNow()),
        and_(task.status == "running", or_(task.lease_until <= DatabaseNow(), task.owner_id.in_(list(dead)))),
    )
    return bool(conn.execute(select(exists().where(task.source_key.in_(sources), claimable))).scalar())


def wake_dormant(conn: Connection, task_id: int) -> bool:
    """Make a dormant task due at once."""
    dormant = (task.id == task_id, task.status == "pending", task.next_run_at.is_(None))
    done = conn.execute(
        update(collection_task).where(*dormant).values(next_run_at=DatabaseNow(), updated_at=DatabaseNow())
    )
    return done.rowcount == 1


def _made_progress(conn: Connection, old: Task) -> bool:
    mine = committed_batch.c
    same = and_(mine.task_id == old.id, mine.owner_id == old.owner_id, mine.version == old.version)
    return bool(conn.execute(select(exists().where(same))).scalar())


def renew(conn: Connection, *, owner: str, leases: Collection[Lease], lease_s: float) -> set[int]:
    """Renew leases in id order; return the ids that are still ours."""
    kept: set[int] = set()
    for lease in sorted(leases, key=lambda held: held.task_id):
        done = conn.execute(
            update(collection_task)
            .where(*holds(lease))
            .values(lease_until=DatabaseNow(lease_s), updated_at=DatabaseNow())
        )
        if done.rowcount == 1:
            kept.add(lease.task_id)
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

    Returns False when the lease was not held any more; then nothing was changed.
    """
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
    return done.rowcount == 1


def register_worker(conn: Connection, record: WorkerRecord, app_version: str) -> None:
    """Insert this process into `worker`."""
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
    """Return the workers that hold running tasks."""
    running = select(task.owner_id).where(task.status == "running").distinct()
    rows = conn.execute(select(worker).where(worker.c.owner_id.in_(running)))
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
