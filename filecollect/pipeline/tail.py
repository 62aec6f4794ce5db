"""A worker without an end: it tails followed files and loads ready drops, for ever.

    claim what is due -> look at hot and woken files -> one step of each -> one commit -> let go

A file with news within the last second is hot and looked at every turn; a quiet one costs nothing until
it is woken (a file-system event, told by the supervisor) or, while there are no events, once a second.
All steps of a turn share commits, so a hundred slow files make one commit a turn.

A followed file stays with its worker while it lives. It is let go

    idle       quiet for `idle_release_s`: pending and dormant until discovery sees it change
    finished   rotated away or deleted, read to its end and quiet for `settle_s`: succeeded
    moved      its bytes are not at its path any more (truncated, replaced): dormant, discovery looks
    in turn    more files are due than may be open: whoever waits longest comes next

What is written between the last look and the release is not lost: the file is looked at once more after
the release stands, and the task made due again.
"""

from __future__ import annotations

import math
import resource
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Engine

from filecollect.clock import Clock
from filecollect.config import WorkerSettings
from filecollect.domain.lease import Lease, provably_dead
from filecollect.domain.rotation import is_rotated
from filecollect.domain.states import Status
from filecollect.errors import DatabaseUnavailable, FilecollectError, FileUnavailable, Replaced, UsageError
from filecollect.files.filesystem import FileMissing, FileSystem
from filecollect.files.paths import os_path
from filecollect.host import Host, process_start, processes_are_visible
from filecollect.parse.api import Tail
from filecollect.pipeline.ingest import Stream
from filecollect.pipeline.plan import Plan, stored_plan
from filecollect.pipeline.report import Report, TaskReport
from filecollect.pipeline.worker import CLAIMED_AT_ONCE, LOST, Worker, _facts, _Part, _standing
from filecollect.store.claim import any_claimable
from filecollect.store.engine import reading, transaction
from filecollect.store.sources import stored_source
from filecollect.store.tasks import Task, owners_of_running, wake_dormant

HOT_S = 1.0
CLAIM_S = 1.0
QUIET_LOOK_S = 1.0
"""How often quiet files are looked at while no events come."""
TURN_S = 1.0
"""How long a busy file may keep its place while others wait for one."""
ROW_S = 60.0
"""A ledger row is extended only so long."""
RESERVED_FILES = 128


def most_open_files() -> int:
    """Return how many collected files one worker may hold open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 4096 if soft == resource.RLIM_INFINITY else max(4, min(4096, soft - RESERVED_FILES))


class StoredPlans(Mapping[str, Plan]):
    """Plans of stored sources, read when first asked for."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._plans: dict[str, Plan] = {}

    def __getitem__(self, source_key: str) -> Plan:
        if source_key not in self._plans:
            with reading(self.engine) as conn:
                stored = stored_source(conn, source_key)
            if stored is None:
                raise UsageError(f"source {source_key} is not stored")
            self._plans[source_key] = stored_plan(stored)
        return self._plans[source_key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._plans)

    def __len__(self) -> int:
        return len(self._plans)


@dataclass(slots=True)
class _Held:
    """A task of ours with its open file; times on the monotonic clock."""

    stream: Stream
    lease: Lease
    since: float
    active_at: float
    looked_at: float
    row_since: float
    placed: bool = False
    """Whether it was found out, since the last news, where the file stands now."""

    @property
    def endless(self) -> bool:
        return self.stream.endless


class Tailer(Worker):
    """Work on the due tasks of some sources until told to stop, one turn at a time."""

    def __init__(
        self,
        engine: Engine,
        files: FileSystem,
        clock: Clock,
        host: Host,
        settings: WorkerSettings,
        report: Report,
        should_stop: Callable[[], bool],
        *,
        most_open: int | None = None,
    ) -> None:
        super().__init__(engine, files, clock, host, StoredPlans(engine), settings, report, should_stop)
        self.patience_s = math.inf
        self.sources: frozenset[str] = frozenset()
        self.most_open = most_open or most_open_files()
        self.events_come = True
        self.held: dict[int, _Held] = {}
        self._claim_at = 0.0

    def begin(self) -> None:
        """Register this worker and start its heartbeat."""
        self._patiently(self._register)
        self.heartbeat.start()

    def end(self) -> None:
        """Commit what is read, give everything back, and stop; nothing is marked as finished."""
        try:
            with suppress(FilecollectError):
                self._flush()
            for held in list(self.held.values()):
                held.stream.close()
                with suppress(DatabaseUnavailable):
                    self._give_back(held.lease, "pending", retry_in_s=0, ended="stopped", **_facts(held.stream))
            self.held.clear()
        finally:
            self.heartbeat.stop()

    def poke(self) -> None:
        """Let the next turn look for due tasks."""
        self._claim_at = 0.0

    def turn(self, woken: Collection[int] = ()) -> float:
        """Do what can be done now; return in how many seconds the next turn is wanted."""
        more = False
        if self.clock.monotonic() >= self._claim_at:
            more = self._take_due()
        now = self.clock.monotonic()
        for held in [one for one in self.held.values() if self._wants_a_look(one, now, woken)]:
            more |= self._advance(held)
            if self.should_stop():
                break
        self._flush()
        self._sweep()
        self._let_go()
        self.heartbeat.progress()
        return 0.0 if more else self._pause()

    # -- taking ----------------------------------------------------------------------------------

    def _take_due(self) -> bool:
        self._claim_at = self.clock.monotonic() + CLAIM_S
        if not self.sources:
            return False
        visible = processes_are_visible()
        with reading(self.engine) as conn:
            dead = [
                one.owner
                for one in owners_of_running(conn)
                if one.owner != self.owner and provably_dead(one, self.host, process_start(one.pid), visible)
            ]
            if not any_claimable(conn, self.sources, dead, self.task_host):
                return False
        room = self.most_open - len(self.held)
        if room <= 0:
            room = self._make_room()
        if room <= 0:
            return False
        claimed = self._patiently(lambda: self._claim(None, limit=min(room, CLAIMED_AT_ONCE), sources=self.sources))
        for task, _ in claimed:
            self._begin(task)
        if claimed:
            self._claim_at = 0.0
        return bool(claimed)

    def _make_room(self) -> int:
        """Give the places of those that had theirs longest to others; return how many are free then."""
        now = self.clock.monotonic()
        old = sorted((one for one in self.held.values() if now - one.since >= TURN_S), key=lambda one: one.active_at)
        for held in old[:CLAIMED_AT_ONCE]:
            self._release(held, idle=held.stream.finished)
        return self.most_open - len(self.held)

    def _begin(self, task: Task) -> None:
        lease = self._lease(task)
        self._ended.discard(task.id)
        try:
            stream = self._open(task, lease)
        except FilecollectError as problem:
            self._failed(task, lease, problem)
            return
        now = self.clock.monotonic()
        self.held[task.id] = _Held(stream, lease, now, now, now - QUIET_LOOK_S, now - ROW_S)
        self.report(TaskReport(task.id, began=True))

    # -- reading ---------------------------------------------------------------------------------

    def _wants_a_look(self, held: _Held, now: float, woken: Collection[int]) -> bool:
        if not held.endless or now - held.active_at < HOT_S or held.lease.task_id in woken:
            return True
        return not self.events_come and now - held.looked_at >= QUIET_LOOK_S

    def _advance(self, held: _Held) -> bool:
        """Put the next step of one file into the group; return whether there may be more."""
        stream, now = held.stream, self.clock.monotonic()
        held.looked_at = now
        try:
            if stream.endless and stream.refresh():
                held.placed = False
                if stream.completed_record():
                    stream = held.stream = self._complete_record(stream, held.lease)
            step = self._step(held, now)
        except FilecollectError as problem:
            self._fail(held, problem)
            return False
        if step:
            held.active_at = now
        elif not stream.endless:
            self._end_without_step(stream, held.lease)
            self.held.pop(held.lease.task_id, None)
        return step

    def _step(self, held: _Held, now: float) -> bool:
        stream, settings = held.stream, held.stream.plan.settings
        rows = sum(part.step.row_count for part in self.group)
        size = sum(part.step.new.offset - part.step.old.offset for part in self.group)
        if rows >= settings.batch_rows or size >= settings.batch_bytes:
            self._flush()
            rows = 0
            if held.lease.task_id in self._ended:
                return False
        stream.extending = now - held.row_since < ROW_S
        raw_from = stream.raw_offset
        step = stream.next(settings.batch_rows - rows)
        if step is None:
            return False
        if all(piece.extends is None for piece in step.pieces):
            held.row_since = now
        self.group.append(_Part(stream, held.lease, step, self._finish(stream), raw_from, stream.raw_offset))
        return True

    def _finish(self, stream: Stream) -> Status | None:
        return None if stream.endless else super()._finish(stream)

    def _sweep(self) -> None:
        """Forget what the last commit has ended, and what the heartbeat has found out to be lost."""
        for task_id in self._ended & self.held.keys():
            self.held.pop(task_id).stream.close()
        self._ended.clear()
        for lease in self.heartbeat.take_lost():
            held = self.held.get(lease.task_id)
            if held is not None and held.lease == lease:
                held.stream.close()
                del self.held[lease.task_id]
                self.report(TaskReport(lease.task_id, ended="lost", message=LOST))

    # -- letting go ------------------------------------------------------------------------------

    def _let_go(self) -> None:
        now = self.clock.monotonic()
        for held in list(self.held.values()):
            if not held.endless:
                continue
            quiet = now - held.active_at
            settings = held.stream.plan.settings
            try:
                if quiet >= settings.settle_s and not held.placed and self._is_final(held):
                    self._finish_here(held)
                    continue
                waits = settings.final_after_s is not None and held.stream.left > 0
                if waits and quiet >= (settings.final_after_s or 0):
                    self._emit_last(held)
                elif quiet >= self.settings.idle_release_s and not waits:
                    self._release(held, idle=True)
            except FilecollectError as problem:
                self._fail(held, problem)

    def _is_final(self, held: _Held) -> bool:
        """Return whether nothing more is expected of a file: it was rotated away, or deleted."""
        held.placed = True
        stream = held.stream
        if self._stands_at(stream.task.path, held):
            return is_rotated(stream.task.path)
        (known,) = self._reload(stream.task.id)
        if known.path == stream.task.path or not self._stands_at(known.path, held):
            return True
        stream.task = replace(stream.task, path=known.path)
        return is_rotated(known.path)

    def _stands_at(self, path: str, held: _Held) -> bool:
        try:
            there = self.files.stat(os_path(path))
        except FileMissing:
            return False
        except FileUnavailable:
            return True
        return (there.device, there.inode) == (held.stream.stat.device, held.stream.stat.inode)

    def _finish_here(self, held: _Held) -> None:
        """Take what is left, a last record without its end too, and end the task."""
        stream = held.stream
        stream.refresh()
        stream.end_here(Tail.TAKE)
        while not stream.finished and self._step(held, self.clock.monotonic()):
            self._flush()
            if held.lease.task_id in self._ended:
                self._sweep()
                return
        self.held.pop(held.lease.task_id, None)
        self._end_without_step(stream, held.lease)

    def _emit_last(self, held: _Held) -> None:
        held.stream.end_here(held.stream.last_tail(self.clock.time()))
        try:
            if self._step(held, self.clock.monotonic()):
                self._flush()
                self._sweep()
        finally:
            held.stream.end_here(Tail.WAIT)
        held.active_at = self.clock.monotonic()

    def _release(self, held: _Held, *, idle: bool) -> None:
        """Give a task back: dormant until its file changes, or due again at once."""
        stream = held.stream
        self.held.pop(held.lease.task_id, None)
        wait: dict[str, Any] = {} if idle else {"retry_in_s": 0}
        self._give_back(held.lease, "pending", ended="idle", **wait, **_standing(stream))
        with suppress(FileUnavailable):
            if idle and stream.handle.stat().size != stream.stat.size:
                with transaction(self.engine) as conn:
                    wake_dormant(conn, held.lease.task_id)
        stream.close()

    # -- trouble ---------------------------------------------------------------------------------

    def _fail(self, held: _Held, problem: FilecollectError) -> None:
        self.held.pop(held.lease.task_id, None)
        self._drop_parts(held.stream)
        seen = max(held.stream.bound, held.stream.stat.size)
        held.stream.close()
        if isinstance(problem, DatabaseUnavailable):
            raise problem
        self._failed(replace(held.stream.task, size=max(seen, held.stream.task.size)), held.lease, problem)

    def _failed(self, task: Task, lease: Lease, problem: FilecollectError) -> None:
        """A file whose bytes are elsewhere waits for discovery to find them; all else as in a round."""
        if isinstance(problem, Replaced | FileMissing):
            self._ended.add(task.id)
            self._give_back(lease, "pending", ended="moved", error=str(problem), size=task.size)
            return
        super()._failed(task, lease, problem)

    def _pause(self) -> float:
        """Return how long nothing has to be done."""
        now = self.clock.monotonic()
        waits = [max(0.0, self._claim_at - now)]
        for held in self.held.values():
            settings = held.stream.plan.settings
            quiet = now - held.active_at
            if quiet < HOT_S:
                waits.append(settings.batch_wait_ms / 1000)
            elif not self.events_come:
                waits.append(max(0.01, QUIET_LOOK_S - (now - held.looked_at)))
        return max(0.001, min(waits))
