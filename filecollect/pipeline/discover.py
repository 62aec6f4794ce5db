"""Discovery: found files become tasks, under the source's lock.

    look (no lock)   -> heads, stat of every file that is not plainly unchanged
    gather (no lock) -> candidates from the database, facts from their bytes, a verdict
    record (locked)  -> candidates read again; where they are the same the verdict is written,
                        where somebody was faster the file is looked at once more

So two scanners at the same moment never make two tasks of one generation. Files are handled oldest
first, because ids are given in that order and id order is age order.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine, select

from filecollect import failpoints
from filecollect.clock import Clock
from filecollect.domain.rotation import rotated_from, same_chain
from filecollect.errors import FilecollectError, FileUnavailable, InvariantError, UsageError
from filecollect.files.filesystem import FileStat, FileSystem
from filecollect.files.paths import os_path
from filecollect.host import Host
from filecollect.pipeline.compare import Candidate, LedgerSpan, Look, Match, look, match
from filecollect.pipeline.hosts import task_host
from filecollect.pipeline.plan import Plan
from filecollect.pipeline.record import Decision, Recorder, held_back
from filecollect.store.engine import reading, transaction
from filecollect.store.schema import committed_batch
from filecollect.store.sources import lock_source
from filecollect.store.tasks import (
    Task,
    boot_of_last_commit,
    is_superseded,
    lock_tasks,
    small_tasks,
    tasks_at_paths,
    tasks_with_heads,
)

CHUNK = 200
TRIES = 20


@dataclass(frozen=True, slots=True)
class _Seen:
    look: Look
    candidates: tuple[Candidate, ...]
    match: Match
    skipped: Task | None

    @property
    def signature(self) -> tuple[Any, ...]:
        return _signature(self.candidates, self.skipped)

    @property
    def task_ids(self) -> list[int]:
        return [task_id for task_id, *_ in self.signature]


def _signature(candidates: Sequence[Candidate], skipped: Task | None) -> tuple[Any, ...]:
    tasks = [one.task for one in candidates] + ([skipped] if skipped else [])
    return tuple((task.id, task.version, task.status, task.content_offset) for task in tasks)


class Discoverer:
    """Record the found files of one source; in an `endless` round followed files get no upper bound."""

    def __init__(
        self,
        engine: Engine,
        files: FileSystem,
        clock: Clock,
        host: Host,
        plan: Plan,
        *,
        endless: bool = False,
        at_end: bool = False,
    ) -> None:
        self.engine = engine
        self.files = plan.files(files)
        self.clock = clock
        self.host = host
        self.plan = plan
        self.endless = endless and plan.settings.follow
        self.task_host = task_host(engine, host, plan)
        self.recorder = Recorder(self.files, clock, plan, endless=self.endless, at_end=at_end, task_host=self.task_host)

    def discover(self, found: Sequence[tuple[str, FileStat]], *, dry_run: bool = False) -> list[Decision]:
        """Return one decision for each found file, given oldest first; record them unless `dry_run`.

        Files besides that have to be read now because another one has changed come last.
        """
        decided: dict[str, Decision] = {}
        for start in range(0, len(found), CHUNK):
            # Files that look alike are candidates for one another, so those that come later go one by one.
            for late in self._pass(found[start : start + CHUNK], decided, dry_run):
                self._alone(late, decided)
        others = self._bereft(decided)
        return [decided[path] for path, _ in found if path in decided] + others

    def _bereft(self, decided: dict[str, Decision]) -> list[Decision]:
        paths, self.recorder.bereft = self.recorder.bereft, []
        new = [path for path in paths if path not in decided]
        for path in paths:
            with suppress(FileUnavailable):
                self._alone((path, self.files.stat(os_path(path))), decided)
        return [decided[path] for path in new if path in decided and decided[path].work]

    def _alone(self, file: tuple[str, FileStat], decided: dict[str, Decision]) -> None:
        for _ in range(TRIES):
            if not self._pass([file], decided, False):
                return
        raise InvariantError(f"discovery of source {self.plan.source_key} was overtaken {TRIES} times", path=file[0])

    def _pass(
        self, found: Sequence[tuple[str, FileStat]], decided: dict[str, Decision], dry_run: bool
    ) -> list[tuple[str, FileStat]]:
        """Decide on files; return those of which somebody knew more by the time of recording."""
        with reading(self.engine) as conn:
            known = tasks_at_paths(conn, self.plan.source_key, [path for path, _ in found], self.task_host)
        seen: list[_Seen] = []
        for path, stat in found:
            plain = self._plainly(path, stat, known.get(path))
            if plain is not None:
                decided[path] = plain
                continue
            try:
                seen.append(self._see(path))
            except FilecollectError as problem:
                decided[path] = self._unreadable(path, stat, problem, dry_run)
        if dry_run:
            decided.update((one.look.path, self._preview(one)) for one in seen)
            return []
        return [(one.look.path, one.look.stat) for one in self._record(seen, decided)] if seen else []

    # -- looking ---------------------------------------------------------------------------------

    def _plainly(self, path: str, stat: FileStat, task: Task | None) -> Decision | None:
        """Decide without opening the file when nothing about it has changed."""
        key = self.plan.source_key
        if stat.size == 0 and task is None:
            return Decision(path, key, "skipped", reason="empty", message="the file is empty")
        if task is not None and task.is_placeholder and self._is_too_soon(task, stat):
            return Decision(path, key, "failed", task.id, reason="retry", message=task.last_error, again=True)
        if task is None or (task.size, task.mtime_ns, task.inode) != (stat.size, stat.mtime_ns, stat.inode):
            return None
        if task.status == "succeeded" and task.raw_offset == stat.size:
            return Decision(path, key, "unchanged", task.id, size=stat.size)
        if task.status == "pending" and task.next_run_at is None and self.endless:
            return Decision(path, key, "unchanged", task.id, size=stat.size)
        if task.status == "skipped":
            return Decision(path, key, "unchanged", task.id, reason="duplicate", message=task.last_error)
        if task.status in {"paused", "cancelled"}:
            return held_back(path, key, task)
        if task.status == "failed" and not task.is_placeholder:
            return Decision(path, key, "failed", task.id, reason=task.status, message=task.last_error)
        return None

    def _is_too_soon(self, task: Task, stat: FileStat) -> bool:
        """Return whether a file that could not be read need not be tried again yet."""
        due, tried = task.next_run_at, task.updated_at
        if due is None or tried is None or not self.endless:
            return False
        return due.timestamp() > self.clock.time() and stat.changed_ns / 1e9 < tried.timestamp()

    def _see(self, path: str) -> _Seen:
        seen = look(self.files, path)
        with reading(self.engine) as conn:
            candidates, skipped = self._candidates(conn, seen)
        verdict = match(
            self.files,
            seen,
            candidates,
            plan=self.plan,
            engine=self.engine,
            boot_id=self.host.boot_id,
            settled=self.clock.time() - seen.stat.changed_ns / 1e9 >= self.plan.settings.settle_s,
        )
        return _Seen(seen, candidates, verdict, skipped)

    def _candidates(self, conn: Connection, seen: Look) -> tuple[tuple[Candidate, ...], Task | None]:
        """Return the tasks that a file may be, and the task that only remembers that its path was passed over."""
        here = tasks_at_paths(conn, self.plan.source_key, [seen.path], self.task_host).get(seen.path)
        skipped: Task | None = None
        if here is not None and (here.status == "skipped" or here.is_placeholder):
            skipped = None if is_superseded(here) else here
            here = None
        key = self.plan.source_key
        elsewhere = tasks_with_heads(conn, key, seen.searchable, self.task_host)
        if self.plan.settings.follow:
            elsewhere += small_tasks(conn, key, seen.stat.inode, rotated_from(seen.path), self.task_host)
            alike = tasks_with_heads(conn, key, seen.small, self.task_host)
            elsewhere += [task for task in alike if same_chain(seen.path, task.path)]
        # The same one may be found twice; dict keeps the first, newest one.
        tasks = list({task.id: task for task in ([here] if here else []) + elsewhere}.values())
        candidates = tuple(
            Candidate(
                task,
                here is not None and task.id == here.id,
                _spans(conn, task.id),
                boot_of_last_commit(conn, task.id),
            )
            for task in tasks
        )
        return candidates, skipped

    def _unreadable(self, path: str, stat: FileStat, problem: FilecollectError, dry_run: bool) -> Decision:
        if dry_run or not self.endless:
            return Decision(path, self.plan.source_key, "failed", reason=problem.code, message=problem.message)
        with transaction(self.engine) as conn:
            if not lock_source(conn, self.plan.source_key):
                raise UsageError(f"source {self.plan.source_key} was forgotten meanwhile")
            known = tasks_at_paths(conn, self.plan.source_key, [path], self.task_host).get(path)
            return self.recorder.unreadable(conn, path, stat, known, problem)

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
            # In id order, like every commit's: so nobody waits in a circle, and nothing moves from here on.
            lock_tasks(conn, {task_id for one in seen for task_id in one.task_ids})
            for one in seen:
                if _signature(*self._candidates(conn, one.look)) != one.signature:
                    late.append(one)
                    continue
                decision = self.recorder.write(conn, one.look, one.match, one.skipped)
                if decision is None:
                    late.append(one)
                else:
                    decided[one.look.path] = decision
            failpoints.hit("before_record")
        failpoints.hit("after_record")
        return late


def _spans(conn: Connection, task_id: int) -> tuple[LedgerSpan, ...]:
    rows = conn.execute(
        select(committed_batch.c.start_offset, committed_batch.c.end_offset, committed_batch.c.digest)
        .where(committed_batch.c.task_id == task_id)
        .order_by(committed_batch.c.start_offset)
    )
    return tuple(LedgerSpan(row.start_offset, row.end_offset, row.digest) for row in rows)
