"""Discovery: found files become tasks, under the source's lock.

    look (no lock)  -> heads, stat of every file that is not plainly unchanged
    gather (no lock) -> candidates from the database, facts from their bytes, a verdict
    record (locked) -> candidates read again; where they are the same the verdict is written,
                       where somebody was faster the file is looked at once more

So two scanners at the same moment never make two tasks of one generation. Files are handled oldest
first, because ids are given in that order and id order is age order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, null, select

from filecollect import failpoints
from filecollect.clock import Clock, utc_text
from filecollect.domain.position import Checkpoint
from filecollect.errors import FilecollectError, InvariantError, UsageError
from filecollect.events import FileEvent
from filecollect.files.filesystem import FileStat, FileSystem
from filecollect.files.paths import os_path
from filecollect.host import Host
from filecollect.pipeline.compare import Candidate, LedgerSpan, Look, Match, look, match
from filecollect.pipeline.plan import Plan
from filecollect.store.engine import reading, transaction
from filecollect.store.events import add_events
from filecollect.store.schema import committed_batch
from filecollect.store.sources import lock_source
from filecollect.store.tasks import (
    Task,
    add_task,
    boot_of_last_commit,
    change_task,
    snapshot,
    tasks_at_paths,
    tasks_with_heads,
)
from filecollect.store.types import DatabaseNow

CHUNK = 200
TRIES = 20
READ_AGAIN = frozenset({"succeeded", "gone", "pending", "running"})


@dataclass(frozen=True, slots=True)
class Decision:
    """What discovery made of one file.

    `outcome` is one for the summary: loaded (new), continued, replaced, unchanged, duplicate,
    skipped, failed; `work` tells whether the round has to read `task_id`.
    """

    path: str
    source_key: str
    outcome: str
    task_id: int | None = None
    work: bool = False
    supersedes: tuple[int, ...] = ()
    reason: str | None = None
    message: str | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class _Seen:
    look: Look
    candidates: tuple[Candidate, ...]
    match: Match

    @property
    def signature(self) -> tuple[Any, ...]:
        return _signature(self.candidates)


def _signature(candidates: Sequence[Candidate]) -> tuple[Any, ...]:
    return tuple((one.task.id, one.task.version, one.task.status, one.task.content_offset) for one in candidates)


class Discoverer:
    """Record the found files of one source."""

    def __init__(self, engine: Engine, files: FileSystem, clock: Clock, host: Host, plan: Plan) -> None:
        self.engine = engine
        self.files = files
        self.clock = clock
        self.host = host
        self.plan = plan

    def discover(self, found: Sequence[tuple[str, FileStat]], *, dry_run: bool = False) -> list[Decision]:
        """Return one decision for each found file, given oldest first; record them unless `dry_run`."""
        decisions: list[Decision] = []
        for start in range(0, len(found), CHUNK):
            decisions += self._chunk(found[start : start + CHUNK], dry_run)
        return decisions

    def _chunk(self, found: Sequence[tuple[str, FileStat]], dry_run: bool) -> list[Decision]:
        decided: dict[str, Decision] = {}
        waiting = [(path, stat) for path, stat in found]
        for _ in range(TRIES):
            with reading(self.engine) as conn:
                known = tasks_at_paths(conn, self.plan.source_key, [path for path, _ in waiting])
            seen: list[_Seen] = []
            for path, stat in waiting:
                plain = self._plainly(path, stat, known.get(path))
                if plain is not None:
                    decided[path] = plain
                    continue
                try:
                    seen.append(self._see(path))
                except FilecollectError as problem:
                    decided[path] = Decision(
                        path, self.plan.source_key, "failed", reason=problem.code, message=problem.message
                    )
            if not seen:
                break
            if dry_run:
                for one in seen:
                    decided[one.look.path] = self._preview(one)
                break
            late = self._record(seen, decided)
            if not late:
                break
            waiting = [(one.look.path, one.look.stat) for one in late]
        else:
            raise InvariantError(f"discovery of source {self.plan.source_key} was overtaken {TRIES} times")
        return [decided[path] for path, _ in found if path in decided]

    # -- looking ---------------------------------------------------------------------------------

    def _plainly(self, path: str, stat: FileStat, task: Task | None) -> Decision | None:
        """Decide without opening the file when nothing about it has changed."""
        if stat.size == 0 and task is None:
            return Decision(path, self.plan.source_key, "skipped", reason="empty", message="the file is empty")
        if task is None or (task.size, task.mtime_ns, task.inode) != (stat.size, stat.mtime_ns, stat.inode):
            return None
        key = self.plan.source_key
        if task.status == "succeeded" and task.content_offset == stat.size:
            return Decision(path, key, "unchanged", task.id, size=stat.size)
        if task.status == "skipped":
            return Decision(path, key, "unchanged", task.id, reason="duplicate", message=task.last_error)
        if task.status in {"failed", "paused", "cancelled"}:
            return Decision(path, key, "failed", task.id, reason=task.status, message=task.last_error)
        return None

    def _see(self, path: str) -> _Seen:
        seen = look(self.files, path)
        with reading(self.engine) as conn:
            candidates = self._candidates(conn, seen)
        settled = self.clock.time() - seen.stat.mtime_ns / 1e9 >= self.plan.settings.settle_s
        verdict = match(
            self.files,
            seen,
            candidates,
            follow=self.plan.settings.follow,
            boot_id=self.host.boot_id,
            settled=settled,
        )
        return _Seen(seen, candidates, verdict)

    def _candidates(self, conn: Connection, seen: Look) -> tuple[Candidate, ...]:
        here = tasks_at_paths(conn, self.plan.source_key, [seen.path]).get(seen.path)
        tasks = [] if here is None or _superseded(here) else [here]
        tasks += [
            task
            for task in tasks_with_heads(conn, self.plan.source_key, seen.searchable)
            if here is None or task.id != here.id
        ]
        return tuple(
            Candidate(
                task,
                here is not None and task.id == here.id,
                _spans(conn, task.id),
                boot_of_last_commit(conn, task.id),
            )
            for task in tasks
        )

    def _preview(self, one: _Seen) -> Decision:
        names = {"new": "loaded", "grown": "continued", "renamed": "continued", "copy": "continued"}
        names |= {"rolled_back": "continued", "covered": "unchanged", "undecided": "skipped"}
        names |= {"edited": "replaced", "truncated": "replaced"}
        outcome = names.get(one.match.outcome, one.match.outcome)
        return Decision(
            one.look.path,
            self.plan.source_key,
            outcome,
            one.match.task.id if one.match.task else None,
            work=outcome in {"loaded", "continued", "replaced"},
            size=one.look.stat.size,
        )

    # -- recording -------------------------------------------------------------------------------

    def _record(self, seen: Sequence[_Seen], decided: dict[str, Decision]) -> list[_Seen]:
        """Write verdicts whose candidates are still the same; return the others."""
        late: list[_Seen] = []
        with transaction(self.engine) as conn:
            if not lock_source(conn, self.plan.source_key):
                raise UsageError(f"source {self.plan.source_key} was forgotten meanwhile")
            for one in seen:
                if _signature(self._candidates(conn, one.look)) != one.signature:
                    late.append(one)
                    continue
                decision = self._write(conn, one)
                if decision is None:
                    late.append(one)
                else:
                    decided[one.look.path] = decision
            failpoints.hit("before_record")
        failpoints.hit("after_record")
        return late

    def _write(self, conn: Connection, one: _Seen) -> Decision | None:
        outcome, task, seen = one.match.outcome, one.match.task, one.look
        if outcome in {"new", "edited", "truncated", "replaced", "rolled_back"}:
            return self._new_generation(conn, one)
        assert task is not None
        if outcome in {"unchanged", "grown", "renamed", "copy"}:
            return self._continue(conn, one, task)
        if outcome == "undecided":
            return self._decision(
                seen, "skipped", None, reason="undecided", message=f"may be a copy in the making of {task.path}"
            )
        if outcome == "duplicate" and self.plan.settings.duplicates == "ingest":
            return self._new_generation(conn, one)
        kind = "duplicate" if outcome == "duplicate" else "already_covered"
        message = f"same content as {task.path} (task {task.id})"
        task_id = add_task(
            conn,
            parent_task_id=task.id,
            source_key=self.plan.source_key,
            status="skipped",
            last_error=message,
            **self._identity(seen),
        )
        self._event(conn, kind, seen.path, task_id, {"of": task.id, "path": task.path})
        return self._decision(seen, "duplicate", task_id, reason=kind, message=message)

    def _new_generation(self, conn: Connection, one: _Seen) -> Decision:
        outcome, old, seen = one.match.outcome, one.match.task, one.look
        values: dict[str, Any] = {}
        if outcome == "rolled_back" and old is not None:
            values = self._rolled_back(seen, old, one)
        task_id = add_task(
            conn,
            parent_task_id=None if old is None else old.id,
            source_key=self.plan.source_key,
            status="pending",
            next_run_at=DatabaseNow(),
            snapshot_json=snapshot(seen.stat.size, utc_text(self.clock.time())),
            **self._identity(seen),
            **values,
        )
        self._event(conn, "discovered", seen.path, task_id, {"size": seen.stat.size})
        if outcome in {"new", "duplicate"} or old is None:
            return self._decision(seen, "loaded", task_id, work=True)
        kind = {"edited": "edited_before_checkpoint"}.get(outcome, outcome)
        detail: dict[str, Any] = {"previous": old.id, "offset": old.content_offset, "size": seen.stat.size}
        if one.match.differs_at is not None:
            detail["start_offset"], detail["end_offset"] = one.match.differs_at
        if outcome == "rolled_back":
            detail["continued_at"] = one.match.common
        self._event(conn, kind, seen.path, task_id, detail)
        self._retire(conn, old, outcome)
        supersedes = self._supersedes(conn, old) if outcome != "rolled_back" else ()
        name = "continued" if outcome == "rolled_back" else "replaced"
        return self._decision(seen, name, task_id, work=True, supersedes=supersedes, reason=kind)

    def _supersedes(self, conn: Connection, old: Task) -> tuple[int, ...]:
        """Return the generations whose rows go when the new one is finished."""
        if self.plan.destination.key or self.plan.settings.effective_on_replace != "replace":
            return ()
        return (old.id,)

    def _retire(self, conn: Connection, old: Task, outcome: str) -> None:
        """Let nobody go on reading a generation whose bytes are no longer at its path."""
        unread = old.size > old.content_offset
        if old.status in {"pending", "running"}:
            status = "gone" if unread else "succeeded"
            conn.execute(
                _force(old).values(
                    status=status, owner_id=null(), lease_until=null(), next_run_at=null(), version=old.version + 1
                )
            )
            if unread and self.plan.settings.follow:
                lost = {"bytes": old.size - old.content_offset, "why": outcome}
                self._event(conn, "lost_bytes", old.path, old.id, lost)

    def _rolled_back(self, seen: Look, old: Task, one: _Seen) -> dict[str, Any]:
        from filecollect.pipeline.rescue import checkpoint_at

        common = one.match.common
        with self.files.open(os_path(seen.path)) as handle:
            position = checkpoint_at(handle, old.position, common)
            lines = handle.read_at(0, common).count(b"\n")
        start = Checkpoint(
            offset=common, lines=lines, guard=position.guard, parser=old.position.parser, chain=position.chain
        )
        return {"content_offset": common, "start_offset": common, "checkpoint_json": start.to_json()}

    def _continue(self, conn: Connection, one: _Seen, task: Task) -> Decision | None:
        outcome, seen = one.match.outcome, one.look
        bound = snapshot(seen.stat.size, utc_text(self.clock.time()))
        identity = self._identity(seen, grown=task)
        unread = seen.stat.size > task.content_offset
        if task.status == "skipped":
            return self._decision(seen, "unchanged", task.id, reason="duplicate", message=task.last_error)
        if task.status in {"paused", "cancelled", "failed"} and outcome == "unchanged":
            return self._decision(seen, "failed", task.id, reason=task.status, message=task.last_error)
        if task.status == "running":
            name = "continued" if task.content_offset > task.start_offset else "loaded"
            return self._decision(seen, name, task.id, work=unread, supersedes=self._pending_supersedes(conn, task))
        if task.status in {"paused", "cancelled"}:
            return self._decision(seen, "skipped", task.id, reason=task.status, message=f"the task is {task.status}")
        due = task.next_run_at
        if task.status == "pending" and task.attempt_count and due is not None and due.timestamp() > self.clock.time():
            message = f"{task.last_error}; to be tried again after {utc_text(due.timestamp())}"
            return self._decision(seen, "failed", task.id, reason="retry", message=message)
        values: dict[str, Any] = {**identity, "snapshot_json": bound}
        if unread or task.status not in {"succeeded", "gone"}:
            values |= {"status": "pending", "next_run_at": DatabaseNow(), "last_error": None, "content_digest": None}
        if not change_task(conn, task, **values):
            return None
        if outcome in {"renamed", "copy"}:
            detail = {"from": task.path, "how": "moved" if outcome == "renamed" else "copytruncate"}
            self._event(conn, "renamed", seen.path, task.id, detail)
        if unread and task.content_offset > task.start_offset:
            grown: dict[str, Any] = {"offset": task.content_offset, "size": seen.stat.size}
            self._event(conn, "continued", seen.path, task.id, grown)
        work = unread or task.status not in {"succeeded", "gone"}
        fresh = task.content_offset == 0 and outcome in {"grown", "unchanged"}
        name = "loaded" if work and fresh else "continued" if work else "unchanged"
        return self._decision(seen, name, task.id, work=work, supersedes=self._pending_supersedes(conn, task))

    def _pending_supersedes(self, conn: Connection, task: Task) -> tuple[int, ...]:
        """Return what an unfinished replacement still has to supersede (its round was interrupted)."""
        if task.parent_task_id is None or task.content_digest is not None or task.start_offset > 0:
            return ()
        from filecollect.store.tasks import tasks_by_id

        parents = tasks_by_id(conn, [task.parent_task_id])
        if not parents or _superseded(parents[0]) or parents[0].path != task.path:
            return ()
        return self._supersedes(conn, parents[0])

    # -- small things ----------------------------------------------------------------------------

    def _identity(self, seen: Look, grown: Task | None = None) -> dict[str, Any]:
        head = seen.head if grown is None or seen.head.length >= grown.head.length else grown.head
        return {
            "path": seen.path,
            "device": seen.stat.device,
            "inode": seen.stat.inode,
            "size": seen.stat.size,
            "mtime_ns": seen.stat.mtime_ns,
            "head_length": head.length,
            "head_digest": head.digest,
        }

    def _event(self, conn: Connection, kind: Any, path: str, task_id: int, detail: dict[str, Any]) -> None:
        add_events(conn, [FileEvent(kind, path, self.plan.source_key, task_id, detail)])

    def _decision(self, seen: Look, outcome: str, task_id: int | None, **more: Any) -> Decision:
        return Decision(seen.path, self.plan.source_key, outcome, task_id, size=seen.stat.size, **more)


def _superseded(task: Task) -> bool:
    return task.status == "skipped" and (task.last_error or "").startswith("superseded")


def _spans(conn: Connection, task_id: int) -> tuple[LedgerSpan, ...]:
    rows = conn.execute(
        select(committed_batch.c.start_offset, committed_batch.c.end_offset, committed_batch.c.digest)
        .where(committed_batch.c.task_id == task_id)
        .order_by(committed_batch.c.start_offset)
    )
    return tuple(LedgerSpan(row.start_offset, row.end_offset, row.digest) for row in rows)


def _force(task: Task) -> Any:
    from sqlalchemy import update

    from filecollect.store.schema import collection_task

    return update(collection_task).where(collection_task.c.id == task.id)
