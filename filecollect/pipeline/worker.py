"""A worker: claim, prove, read, parse, commit, give back; one process, one owner id.

    claim -> open and prove -> (fetch a step -> group -> prove again -> commit)* -> give back

One commit carries steps of many tasks (at most one of each) until `batch_rows` records or
`batch_bytes` are gathered, so ten thousand small files do not cost ten thousand commits. A task whose
fence misses is dropped at once. Errors of one file never stop the others.
"""

from __future__ import annotations

import os
import random
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import Engine

from filecollect import __version__, failpoints
from filecollect.clock import Clock, utc_text
from filecollect.config import WorkerSettings
from filecollect.domain.batch import Step
from filecollect.domain.lease import Lease, WorkerRecord, provably_dead
from filecollect.domain.retry import backoff_s
from filecollect.domain.states import Status
from filecollect.errors import (
    BatchTooBad,
    CheckpointError,
    Corrupt,
    DatabaseUnavailable,
    FilecollectError,
    FileUnavailable,
    LeaseLost,
    Replaced,
    Retryable,
    Unsupported,
)
from filecollect.events import FileEvent
from filecollect.files.filesystem import FileSystem
from filecollect.host import Host, process_start, processes_are_visible
from filecollect.pipeline.heartbeat import Heartbeat
from filecollect.pipeline.hosts import task_host
from filecollect.pipeline.ingest import Stream
from filecollect.pipeline.patience import T, patiently
from filecollect.pipeline.plan import Plan
from filecollect.pipeline.report import Report, TaskReport
from filecollect.pipeline.rescue import record_completed
from filecollect.store.claim import claim, disown
from filecollect.store.commit import Attempt, Committed, Contribution
from filecollect.store.destination import Origin
from filecollect.store.engine import reading, transaction
from filecollect.store.events import add_events
from filecollect.store.tasks import (
    Task,
    give_back,
    owners_of_running,
    predecessors,
    register_worker,
    tasks_by_id,
)

CLAIMED_AT_ONCE = 32
SMALL_BATCH_ROWS = 200
LOST = "the lease is over: somebody else has this file, or an operator stopped it"


@dataclass(slots=True)
class _Part:
    """A step on its way into the commit, with its stream."""

    stream: Stream
    lease: Lease
    step: Step
    finish: Status | None
    raw_from: int
    raw_to: int


class Worker:
    """Work through the tasks of a round."""

    def __init__(
        self,
        engine: Engine,
        files: FileSystem,
        clock: Clock,
        host: Host,
        plans: Mapping[str, Plan],
        settings: WorkerSettings,
        report: Report,
        should_stop: Callable[[], bool],
        *,
        at_once: int = CLAIMED_AT_ONCE,
    ) -> None:
        self.engine = engine
        self.files = files
        self.clock = clock
        self.host = host
        self.plans = plans
        self.settings = settings
        self.report = report
        self.should_stop = should_stop
        self.at_once = at_once
        self.owner = secrets.token_hex(16)
        self.heartbeat = Heartbeat(
            engine,
            clock,
            owner=self.owner,
            lease_s=settings.lease_s,
            every_s=settings.heartbeat_s,
            stall_s=settings.stall_s,
        )
        self.task_host = task_host(engine, host)
        self.patience_s = settings.database_patience_s
        self.group: list[_Part] = []
        self._ended: set[int] = set()
        self._claim_unknown = False
        """Whether the last claim failed, so that it may stand without our knowing what it got."""

    def run(self, ids: Sequence[int]) -> None:
        """Work on the tasks in `ids` until none of them can be claimed; stop at a batch boundary when asked."""
        self._patiently(self._register)
        self.heartbeat.start()
        try:
            waiting = list(ids)
            while waiting and not self.should_stop():
                chunk, waiting = waiting[:500], waiting[500:]
                while claimed := self._patiently(partial(self._claim, chunk, limit=self.at_once)):
                    for task, _ in claimed:
                        self._work(task)
                    if self.should_stop():
                        break
                    self._flush()
            self._flush()
        finally:
            self.heartbeat.stop()

    # -- leases ----------------------------------------------------------------------------------

    def _register(self) -> None:
        start = process_start(os.getpid())
        record = WorkerRecord(
            self.owner, self.host.name, self.host.boot_id, self.host.pid_namespace, os.getpid(), start
        )
        with transaction(self.engine) as conn:
            register_worker(conn, record, __version__)

    def _claim(
        self, ids: Sequence[int] | None, *, limit: int = CLAIMED_AT_ONCE, sources: Collection[str] | None = None
    ) -> list[tuple[Task, bool]]:
        visible = processes_are_visible()
        unknown, self._claim_unknown = self._claim_unknown, True
        with transaction(self.engine) as conn:
            if unknown:
                disown(conn, self.owner, self.heartbeat.held())
            dead = [
                other.owner
                for other in owners_of_running(conn)
                if other.owner != self.owner and provably_dead(other, self.host, process_start(other.pid), visible)
            ]
            claimed = claim(
                conn,
                owner=self.owner,
                among=ids,
                sources=sources,
                limit=limit,
                lease_s=self.settings.lease_s,
                dead=dead,
                host=self.task_host,
                counters=self.heartbeat.counters,
            )
        self._claim_unknown = False
        for task, _ in claimed:
            self.heartbeat.hold(self._lease(task))
        if claimed:
            failpoints.hit("after_claim")
        return claimed

    def _lease(self, task: Task) -> Lease:
        return Lease(task.id, self.owner, task.version)

    # -- one task --------------------------------------------------------------------------------

    def _work(self, task: Task) -> None:
        lease = self._lease(task)
        if self.should_stop():
            self._give_back(lease, "pending", retry_in_s=0, ended="stopped")
            return
        try:
            stream = self._open(task, lease)
        except FilecollectError as problem:
            self._failed(task, lease, problem)
            return
        try:
            self._read(stream, lease)
        except FilecollectError as problem:
            stream.close()
            self._drop_parts(stream)
            if isinstance(problem, DatabaseUnavailable):
                raise
            self._failed(task, lease, problem)

    def _open(self, task: Task, lease: Lease) -> Stream:
        plan = self.plans[task.source_key]
        stream = Stream(plan.files(self.files), task, plan, now=self.clock.time())
        return self._complete_record(stream, lease) if stream.completed_record() else stream

    def _complete_record(self, stream: Stream, lease: Lease) -> Stream:
        """Go back to a last record that was emitted without its end and goes on; return the stream there."""
        task = stream.task
        try:
            with transaction(self.engine) as conn:
                record_completed(conn, lease, stream.plan.destination, stream.checkpoint, stream.handle, task)
            failpoints.hit("after_rescue")
        finally:
            stream.close()
        (again,) = self._reload(task.id)
        return Stream(stream.plan.files(self.files), again, stream.plan, now=self.clock.time())

    def _reload(self, task_id: int) -> list[Task]:
        with transaction(self.engine) as conn:
            return tasks_by_id(conn, [task_id])

    def _read(self, stream: Stream, lease: Lease) -> None:
        while True:
            rows = sum(part.step.row_count for part in self.group)
            room = stream.plan.settings.batch_rows - rows
            size = sum(part.step.new.offset - part.step.old.offset for part in self.group)
            if room <= 0 or size >= stream.plan.settings.batch_bytes:
                self._flush()
                continue
            raw_from = stream.raw_offset
            step = stream.next(room)
            if step is None:
                self._end_without_step(stream, lease)
                return
            finish = self._finish(stream)
            self.group.append(_Part(stream, lease, step, finish, raw_from, stream.raw_offset))
            if finish is not None:
                return
            self._flush()
            if lease.task_id in self._ended:
                return
            if self.should_stop():
                stream.close()
                self._give_back(lease, "pending", retry_in_s=0, ended="stopped")
                return

    def _finish(self, stream: Stream) -> Status | None:
        return "succeeded" if stream.finished else None

    def _end_without_step(self, stream: Stream, lease: Lease) -> None:
        self._flush()
        finished, truncated, standing = stream.finished, stream.truncated, _standing(stream)
        stream.close()
        if finished:
            self._give_back(lease, "succeeded", ended="done", content_digest=stream.content_digest, **standing)
        elif truncated is not None:
            message = (
                f"the {stream.content.codec} file ends inside a block: of its last {truncated} bytes only what "
                "could be decoded was read; once it is complete, the next round goes on from here"
            )
            self._give_back(lease, "pending", error=message, ended="truncated", **standing)
        else:
            message = f"the last record is not complete: {stream.left} bytes are left unread"
            self._give_back(lease, "pending", error=message, ended="left", **standing)

    # -- the commit ------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Commit the gathered group; every part's stream then stands at its committed checkpoint."""
        parts = [part for part in self.group if self._still_proven(part)]
        self.group = []
        if not parts:
            return
        try:
            results = self._commit(parts)
        except BatchTooBad:
            for part in parts:
                self._commit_in_pieces(part)
            return
        except DatabaseUnavailable as problem:
            for part in parts:
                part.stream.close()
                self._hand_back(part.lease, problem)
            raise
        except FilecollectError as problem:
            for part in parts:
                part.stream.close()
                self._failed(part.stream.task, part.lease, problem)
            return
        self.heartbeat.progress()
        for part, result in zip(parts, results, strict=True):
            self._committed(part, result)

    def _still_proven(self, part: _Part) -> bool:
        try:
            part.stream.prove(part.step)
        except FilecollectError as problem:
            part.stream.close()
            self._failed(part.stream.task, part.lease, problem)
            return False
        return True

    def _commit(self, parts: Sequence[_Part]) -> list[Committed]:
        group = self._patiently(lambda: [self._contribution(part) for part in parts])
        return self._patiently(Attempt(self.engine, group, lease_s=self.settings.lease_s))

    def _contribution(self, part: _Part) -> Contribution:
        stream, task = part.stream, part.stream.task
        origin = Origin(task.id, task.generation, task.path, utc_text(self.clock.time()), self.host.name)
        done = part.finish == "succeeded"
        return Contribution(
            lease=part.lease,
            destination=stream.plan.destination,
            origin=origin,
            step=part.step,
            raw_offset=part.raw_to,
            facts=_facts(stream),
            parser=part.step.new.parser,
            quarantine_raw_bytes=stream.plan.settings.quarantine_raw_bytes,
            head=stream.head,
            finish=part.finish,
            content_digest=stream.content_digest if done else None,
            supersedes=self._supersedes(stream) if done else (),
            events=tuple(
                FileEvent(
                    "skipped",
                    task.path,
                    task.source_key,
                    task.id,
                    {"bytes": piece.span.end - piece.span.start, "offset": piece.span.start, "why": "a hole of NULs"},
                )
                for piece in part.step.pieces
                if piece.span.kind == "skipped"
            ),
            first_events=self._first_misfits(part),
        )

    def _first_misfits(self, part: _Part) -> tuple[FileEvent, ...]:
        """Return the event of a step with misfits, for tasks that have not told of any."""
        misfits = part.step.misfits
        if not misfits or part.stream.misfits_told:
            return ()
        task = part.stream.task
        detail = {"columns": misfits, "from": part.step.old.offset, "to": part.step.new.offset}
        return (FileEvent("misfit", task.path, task.source_key, task.id, detail),)

    def _supersedes(self, stream: Stream) -> tuple[int, ...]:
        """Return the generations whose rows go when this one is finished."""
        plan = stream.plan
        if plan.destination.key or plan.settings.effective_on_replace != "replace":
            return ()
        with reading(self.engine) as conn:
            return predecessors(conn, stream.task)

    def _commit_in_pieces(self, part: _Part) -> None:
        """Commit a part that the database refuses too much of in small steps, each its own commit."""
        part.stream.rewind(part.step.old, SMALL_BATCH_ROWS)
        raw_to = part.raw_from
        while (step := part.stream.next(SMALL_BATCH_ROWS)) is not None:
            raw_from, raw_to = raw_to, part.stream.raw_offset
            piece = replace(part, step=step, finish=self._finish(part.stream), raw_from=raw_from, raw_to=raw_to)
            if not self._still_proven(piece):
                return
            (result,) = self._commit([piece])
            self._committed(piece, result)
            if result.lost or piece.finish is not None or step.new.offset >= part.step.new.offset:
                return

    def _committed(self, part: _Part, result: Committed) -> None:
        task = part.stream.task
        if result.lost:
            part.stream.close()
            self._lost(part)
            return
        misfits = part.step.misfits
        nulls: dict[str, int] = {}
        skipped = 0
        for piece in part.step.pieces:
            skipped += piece.span.skipped_count
            for column, values in zip(part.stream.plan.layout.columns, piece.records.columns, strict=True):
                nulls[column.name] = nulls.get(column.name, 0) + values.count(None)
        part.stream.misfits_told |= bool(misfits)
        part.stream.committed(result.displaced)
        if part.finish is not None:
            part.stream.close()
            self._ended.add(task.id)
            self.heartbeat.drop(part.lease)
        self.report(
            TaskReport(
                task.id,
                max(0, part.raw_to - part.raw_from),
                result.inserted,
                result.updated,
                result.ignored,
                result.quarantined,
                skipped,
                misfits,
                nulls,
                "done" if part.finish == "succeeded" else None,
            )
        )

    def _lost(self, part: _Part) -> None:
        task = part.stream.task
        self._ended.add(task.id)
        self.heartbeat.drop(part.lease)
        self.heartbeat.count("fenced")
        detail = {"owner": self.owner, "version": part.lease.version, "offset": part.step.old.offset}

        def note() -> None:
            with transaction(self.engine) as conn:
                add_events(conn, [FileEvent("fenced", task.path, task.source_key, task.id, detail)])

        self._patiently(note)
        self.report(TaskReport(task.id, ended="lost", message=LOST))

    def _drop_parts(self, stream: Stream) -> None:
        self.group = [part for part in self.group if part.stream is not stream]

    # -- endings ---------------------------------------------------------------------------------

    def _failed(self, task: Task, lease: Lease, problem: FilecollectError) -> None:
        self._ended.add(task.id)
        if isinstance(problem, LeaseLost):
            self.heartbeat.count("fenced")
            self.heartbeat.drop(lease)
            self.report(TaskReport(task.id, ended="lost", message=str(problem)))
            return
        attempt = task.attempt_count + 1
        permanent = isinstance(problem, Unsupported | CheckpointError) or not isinstance(problem, Retryable | Replaced)
        if permanent or attempt >= self.settings.max_attempts:
            reason = problem.code if isinstance(problem, Corrupt) else None
            self._give_back(lease, "failed", error=str(problem), ended="failed", failed=True, reason=reason)
        elif isinstance(problem, Replaced):
            self._give_back(lease, "pending", error=str(problem), ended="failed", failed=True)
        else:
            wait = backoff_s(attempt, random.random())
            ended = "failed" if isinstance(problem, FileUnavailable) else "later"
            self._give_back(lease, "pending", error=str(problem), ended=ended, failed=True, retry_in_s=wait)

    def _hand_back(self, lease: Lease, problem: DatabaseUnavailable) -> None:
        """Give a task back for the next round, if the database lets us: no fault of the file's, so no wait."""
        self.heartbeat.drop(lease)
        with suppress(DatabaseUnavailable), transaction(self.engine) as conn:
            give_back(conn, lease, status="pending", error=str(problem), retry_in_s=0)

    def _give_back(
        self,
        lease: Lease,
        status: Status,
        *,
        ended: Any,
        error: str | None = None,
        reason: str | None = None,
        retry_in_s: float | None = None,
        failed: bool = False,
        **values: Any,
    ) -> None:
        failpoints.hit("before_release")
        self.heartbeat.drop(lease)

        def write() -> bool:
            with transaction(self.engine) as conn:
                return give_back(
                    conn, lease, status=status, error=error, retry_in_s=retry_in_s, failed=failed, **values
                )

        if not self._patiently(write):
            self.heartbeat.count("fenced")
            ended, error = "lost", LOST
        self.report(TaskReport(lease.task_id, ended=ended, message=error, reason=reason))

    def _patiently(self, action: Callable[[], T]) -> T:
        """Do something with the database; while it is away, try again for `patience_s`."""
        return patiently(action, clock=self.clock, should_stop=self.should_stop, within_s=self.patience_s)


def _facts(stream: Stream) -> dict[str, Any]:
    stat = stream.stat
    return {"device": stat.device, "inode": stat.inode, "size": stat.size, "mtime_ns": stat.mtime_ns}


def _standing(stream: Stream) -> dict[str, Any]:
    """Return what is stored of a file that is let go."""
    return {"raw_offset": stream.raw_position, **_facts(stream)}
