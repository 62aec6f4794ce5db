"""A backfill: one bounded round over files, from finding them to the summary.

    find -> assign to sources -> create tables -> record tasks -> work -> sum up

The upper bound of each file is its size when it was recorded; what grows later is the next round's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlalchemy import Engine

from filecollect import failpoints
from filecollect.clock import Clock
from filecollect.config import WorkerSettings
from filecollect.domain.rotation import age_order
from filecollect.errors import FileUnavailable
from filecollect.events import FileEvent
from filecollect.files.filesystem import FileSystem
from filecollect.files.finder import Found, Scan
from filecollect.files.paths import os_path, stored_path
from filecollect.host import Host
from filecollect.pipeline.assign import Assignment, Refused
from filecollect.pipeline.discover import Discoverer
from filecollect.pipeline.patience import T, patiently
from filecollect.pipeline.plan import Plan
from filecollect.pipeline.prepare import check_table, create_source
from filecollect.pipeline.reconcile import orphans, settle
from filecollect.pipeline.record import Decision, held_back
from filecollect.pipeline.report import TaskReport
from filecollect.store.engine import reading, transaction
from filecollect.store.events import add_event_once
from filecollect.store.sources import stored_sources
from filecollect.store.tasks import Task, tasks_by_id


@dataclass(slots=True)
class FileResult:
    """What became of one file in this round.

    `held`: another worker had the task, so it may stop at an older upper bound than this round's.
    """

    path: str
    task_id: int | None
    source: str | None
    outcome: str
    rows: int = 0
    quarantined: int = 0
    bytes: int = 0
    reason: str | None = None
    message: str | None = None
    size: int = 0
    open: bool = False
    held: bool = False


@dataclass(slots=True)
class SourceResult:
    """What became of one source in this round."""

    source: str
    table: str
    created: bool
    format: str
    columns: list[dict[str, Any]]
    nulls: dict[str, int] = field(default_factory=dict)
    misfits: dict[str, int] = field(default_factory=dict)
    why: tuple[str, ...] = ()


@dataclass(slots=True)
class Summary:
    """A whole round, for people and for JSON."""

    files: list[FileResult] = field(default_factory=list)
    sources: dict[str, SourceResult] = field(default_factory=dict)
    inserted: int = 0
    updated: int = 0
    ignored: int = 0
    skipped: int = 0
    bytes_total: int = 0
    bytes_done: int = 0
    warnings: list[str] = field(default_factory=list)
    stopped: bool = False

    @property
    def rows(self) -> int:
        """Return rows written in any way."""
        return self.inserted + self.updated + self.ignored

    @property
    def quarantined(self) -> int:
        """Return quarantined records."""
        return sum(one.quarantined for one in self.files)

    @property
    def misfits(self) -> int:
        """Return values that went to `_extra` because they do not fit their column."""
        return sum(sum(one.misfits.values()) for one in self.sources.values())

    def exit_code(self, *, strict: bool) -> int:
        """Return 1 when something failed, was left, quarantined or misfit, else 0."""
        bad = any(one.outcome == "failed" or one.open for one in self.files)
        refused = strict and any(one.outcome == "skipped" for one in self.files)
        return int(bad or refused or self.quarantined > 0 or self.misfits > 0)


class Backfill:
    """Carry out one bounded round; `work` runs the workers over recorded tasks."""

    def __init__(
        self,
        engine: Engine,
        files: FileSystem,
        clock: Clock,
        host: Host,
        settings: WorkerSettings,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.engine = engine
        self.files = files
        self.clock = clock
        self.host = host
        self.settings = settings
        self.should_stop = should_stop
        self.summary = Summary()
        self.by_task: dict[int, FileResult] = {}
        self._discoverers: dict[str, Discoverer] = {}

    def note_scan(self, scan: Scan) -> None:
        """Take over what the scan could not read."""
        for problem in scan.problems:
            result = FileResult(stored_path(problem.path), None, None, "failed", reason=problem.kind)
            result.message = problem.message
            self.summary.files.append(result)
        for path, why in scan.special:
            self.summary.files.append(
                FileResult(stored_path(path), None, None, "skipped", reason="special", message=why)
            )
        for pattern in scan.unmatched:
            self.summary.warnings.append(f"{pattern}: no file matches")

    def record(self, assignment: Assignment, *, dry_run: bool, alter: bool) -> list[int]:
        """Create tables, record tasks; return the ids of the tasks to work on, oldest first."""
        failpoints.hit("after_scan")
        for plan, _ in assignment.files.values():
            self._patiently(partial(check_table, self.engine, plan))
        for key, (plan, found) in list(assignment.files.items()):
            plan = plan if dry_run else self._patiently(partial(create_source, self.engine, plan, alter=alter))
            assignment.files[key] = (plan, found)
            self._source(plan, assignment.why.get(key, ()))
            why = self._patiently(self._paused).get(key)
            if why is None:
                self._discover(plan, found, dry_run)
            else:
                paths = sorted(stored_path(one.path) for one in found)
                self.summary.files += [FileResult(path, None, key, "failed", 0, 0, 0, "paused", why) for path in paths]
        self._refused(assignment.refused, dry_run)
        ids = sorted(self.by_task)
        self.summary.bytes_total = sum(self.by_task[one].size for one in ids)
        return ids

    def _paused(self) -> dict[str, str]:
        """Return the sentence for every paused source."""
        with reading(self.engine) as conn:
            stored = [one for one in stored_sources(conn).values() if one.status == "paused"]
        return {
            one.source_key: f"source {one.source_key} is paused"
            + (f" ({one.paused_reason})" if one.paused_reason else "")
            + f"; `filecollect sources resume {one.source_key}` lets it go on"
            for one in stored
        }

    def _source(self, plan: Plan, why: tuple[str, ...]) -> None:
        columns = [column.to_json() for column in plan.columns]
        self.summary.sources[plan.source_key] = SourceResult(
            plan.source_key, plan.destination.table, plan.created, plan.spec.format, columns, why=why
        )

    def _discover(self, plan: Plan, found: Sequence[Found], dry_run: bool) -> None:
        stats = {stored_path(one.path): one.stat for one in found}
        ordered = age_order([(path, stat.mtime_ns) for path, stat in stats.items()])
        at_end = plan.created and plan.settings.start == "end"
        discoverer = Discoverer(self.engine, self.files, self.clock, self.host, plan, at_end=at_end)
        if dry_run and plan.created:
            decisions = [
                Decision(path, plan.source_key, "loaded", size=stats[path].size, work=False) for path, _ in ordered
            ]
        else:
            oldest_first = [(path, stats[path]) for path, _ in ordered]
            decisions = self._patiently(lambda: discoverer.discover(oldest_first, dry_run=dry_run))
        if not dry_run:
            self._discoverers[plan.source_key] = discoverer
            undecided = {decision.of for decision in decisions if decision.of is not None}
            left = self._orphans(plan, discoverer, stats, undecided)
            again = [path for path in self._patiently(lambda: settle(self.engine, plan, left)) if path in stats]
            if again:
                anew = [(path, stats[path]) for path in again]
                decided = {one.path: one for one in self._patiently(lambda: discoverer.discover(anew))}
                decisions = [decided.get(one.path, one) for one in decisions]
                rest = self._orphans(plan, discoverer, stats, undecided)
                self._patiently(lambda: settle(self.engine, plan, rest))
        for decision in decisions:
            result = FileResult(
                decision.path,
                decision.task_id,
                decision.source_key,
                decision.outcome,
                reason=decision.reason,
                message=decision.message,
                size=decision.size,
            )
            self.summary.files.append(result)
            if not dry_run:
                self._open(result, decision, follow=plan.settings.follow)

    def _open(self, result: FileResult, decision: Decision, *, follow: bool) -> None:
        result.open = decision.work and decision.task_id is not None
        result.held = decision.again and not follow
        if result.open and decision.task_id is not None:
            self.by_task[decision.task_id] = result

    def _orphans(
        self, plan: Plan, discoverer: Discoverer, present: Collection[str], undecided: Collection[int]
    ) -> list[Task]:
        def find() -> list[Task]:
            return orphans(
                self.engine, self.files, plan, present=present, undecided=undecided, host=discoverer.task_host
            )

        return self._patiently(find)

    def _refused(self, refused: Sequence[Refused], dry_run: bool) -> None:
        for one in refused:
            self.summary.files.append(
                FileResult(one.path, None, None, one.outcome, reason=one.reason, message=one.message)
            )
            if not dry_run and one.reason != "empty":
                detail = {"reason": one.reason, "message": one.message}
                kind: Any = "skipped" if one.outcome == "skipped" else "failed"
                self._patiently(partial(self._note_once, FileEvent(kind, one.path, None, None, detail)))

    def _note_once(self, event: FileEvent) -> None:
        with transaction(self.engine) as conn:
            add_event_once(conn, event)

    def _patiently(self, action: Callable[[], T]) -> T:
        return patiently(
            action, clock=self.clock, should_stop=self.should_stop, within_s=self.settings.database_patience_s
        )

    # -- while working ---------------------------------------------------------------------------

    def report(self, news: TaskReport) -> None:
        """Take in what a worker says."""
        result = self.by_task.get(news.task_id)
        if result is None:
            return
        summary = self.summary
        summary.inserted += news.inserted
        summary.updated += news.updated
        summary.ignored += news.ignored
        summary.skipped += news.skipped
        summary.bytes_done += news.bytes
        result.rows += news.inserted + news.updated + news.ignored
        result.quarantined += news.quarantined
        result.bytes += news.bytes
        source = summary.sources[result.source or ""]
        for into, more in ((source.nulls, news.nulls), (source.misfits, news.misfits)):
            for name, count in more.items():
                into[name] = into.get(name, 0) + count
        if news.ended is None:
            return
        result.message = news.message or result.message
        if news.ended == "done":
            result.open = result.held
        elif news.ended == "left":
            result.reason = "incomplete_record"
        elif news.ended == "truncated":
            result.outcome, result.reason = "failed", "truncated"
        elif news.ended == "failed":
            result.outcome, result.reason = "failed", news.reason or "failed"
        elif news.ended == "later":
            result.outcome, result.reason = "failed", result.reason or "retry"

    def settle(self, should_stop: Callable[[], bool], again: Callable[[list[int]], None]) -> None:
        """Wait for tasks that another worker held; read what it leaves behind ourselves."""
        patience = self.clock.monotonic() + 2 * self.settings.lease_s
        last: dict[int, int] = {}
        waiting: list[int]
        while not should_stop():
            tasks, paused = self._patiently(self._open_tasks), self._patiently(self._paused)
            waiting = []
            for task in tasks:
                result = self.by_task[task.id]
                if _is_held_back(task, result, paused.get(task.source_key)):
                    continue
                bound = task.bound if task.bound is not None else task.size
                bound = max(bound, result.size) if result.held else bound
                if task.status == "succeeded" and result.held and task.raw_offset < result.size:
                    waiting += self._look_again(task.id, result)
                elif task.status == "succeeded" or (task.status == "running" and task.raw_offset >= bound):
                    result.open = False
                    result.message = None
                elif task.status == "running" or (task.status == "pending" and result.message is None):
                    waiting.append(task.id)
                    if last.get(task.id) != task.content_offset:
                        last[task.id] = task.content_offset
                        patience = self.clock.monotonic() + 2 * self.settings.lease_s
            if not waiting:
                return
            if self.clock.monotonic() > patience:
                for task_id in waiting:
                    result = self.by_task[task_id]
                    result.outcome, result.reason = "failed", "held"
                    result.message = "another worker holds this file and makes no progress"
                return
            again(waiting)
            self.clock.sleep(0.2)

    def _look_again(self, task_id: int, result: FileResult) -> list[int]:
        """Record what stands behind the bound at which another worker stopped; return what is to be read."""
        discoverer = self._discoverers[result.source or ""]
        del self.by_task[task_id]
        try:
            stat = discoverer.files.stat(os_path(result.path))
        except FileUnavailable as problem:
            result.outcome, result.reason, result.message = "failed", problem.code, problem.message
            result.open = False
            return []
        for decision in self._patiently(lambda: discoverer.discover([(result.path, stat)])):
            if decision.path == result.path:
                result.task_id, result.size = decision.task_id, decision.size
                self._open(result, decision, follow=False)
        return [result.task_id] if result.open and result.task_id is not None else []

    def _open_tasks(self) -> list[Task]:
        with reading(self.engine) as conn:
            return tasks_by_id(conn, [one for one, result in self.by_task.items() if result.open])

    def finish(self, *, stopped: bool) -> Summary:
        """Return the summary; what was not read to its bound keeps its checkpoint and stays pending."""
        self.summary.stopped = stopped
        for result in self.by_task.values():
            if result.open and result.message is None:
                result.message = "stopped before the end; the next round goes on from the checkpoint"
        return self.summary


def _is_held_back(task: Task, result: FileResult, paused: str | None) -> bool:
    """Note, and return, whether an operator stopped a task of this round, or its source (`paused` says so)."""
    if task.status in {"paused", "cancelled"}:
        decision = held_back(task.path, task.source_key, task)
        result.outcome, result.reason, result.message = decision.outcome, decision.reason, decision.message
    elif task.status == "pending" and paused is not None:
        result.outcome, result.reason, result.message = "failed", "paused", paused
    else:
        return False
    result.open = False
    return True


def with_workers(settings: WorkerSettings, workers: int | None) -> WorkerSettings:
    """Return settings with the number of workers of the call."""
    return settings if workers is None else settings.model_copy(update={"workers": workers})
