"""The supervisor: scans, discovers, wakes workers, and keeps the database's log short.

    scan      every `rescan_s`, and soon after files came, went or were moved: lists everything
    look      a modified file that no worker holds goes through discovery again at once
    wake      a modified file that a worker holds: the worker is told, in memory
    settle    after each scan, generations that nothing can continue are finished

The scan is the truth; events only save waiting. What a scan finds unchanged since the last look costs
neither a read nor a statement: it is compared with what is kept here in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sqlalchemy import Engine

from filecollect import failpoints
from filecollect.clock import Clock
from filecollect.config import WorkerSettings
from filecollect.domain.rotation import age_order
from filecollect.errors import UsageError
from filecollect.events import FileEvent
from filecollect.files.filesystem import FileStat, FileSystem
from filecollect.files.finder import Found, Scan
from filecollect.files.paths import stored_path
from filecollect.host import Host
from filecollect.pipeline.assign import Assignment, Refused
from filecollect.pipeline.crew import Crew, Told
from filecollect.pipeline.discover import Discoverer
from filecollect.pipeline.hosts import task_host
from filecollect.pipeline.plan import Plan
from filecollect.pipeline.prepare import check_table, create_source
from filecollect.pipeline.reconcile import orphans, settle
from filecollect.pipeline.record import Decision
from filecollect.pipeline.report import TaskReport
from filecollect.pipeline.scan import Group, Scanner
from filecollect.store.engine import transaction
from filecollect.store.events import add_event_once

SOON_S = 0.2
"""Least time between two scans that events ask for."""
STABLE_S = 5.0
"""A drop is ready when it has not changed for so long, unless `ready` says otherwise."""
LOOK_S = 1.0
"""How often everything is listed while no events come."""


class Wakes(Protocol):
    """Where wake-ups come from; see `files.watch.Watch`."""

    refused: str | None

    @property
    def complete(self) -> bool:
        """Return whether every change is told."""

    def take(self) -> tuple[set[str], bool]:
        """Return modified paths, and whether files came or went."""

    def follow(self, roots: Iterable[tuple[str, bool]]) -> None:
        """Watch these directories."""

    def fileno(self) -> int:
        """Return a descriptor to wait on."""


Say = Callable[[str, str], None]
"""Tell a person something: a level (info, warning) and a sentence."""


@dataclass(slots=True)
class _Known:
    """What is remembered of a file: its facts at the last look, and its task."""

    signature: tuple[int, ...]
    task_id: int | None


@dataclass(slots=True)
class Totals:
    """What was done since the start."""

    inserted: int = 0
    updated: int = 0
    ignored: int = 0
    quarantined: int = 0
    skipped: int = 0
    bytes: int = 0
    misfits: dict[str, int] = field(default_factory=dict)

    def add(self, news: TaskReport) -> None:
        """Count a report."""
        self.inserted += news.inserted
        self.updated += news.updated
        self.ignored += news.ignored
        self.quarantined += news.quarantined
        self.skipped += news.skipped
        self.bytes += news.bytes
        for name, count in news.misfits.items():
            self.misfits[name] = self.misfits.get(name, 0) + count


class Supervisor:
    """Lead the workers of one daemon."""

    def __init__(
        self,
        engine: Engine,
        files: FileSystem,
        clock: Clock,
        host: Host,
        settings: WorkerSettings,
        scanner: Scanner,
        crew: Crew,
        watch: Wakes,
        say: Say,
        *,
        from_end: bool = False,
    ) -> None:
        self.engine = engine
        self.files = files
        self.clock = clock
        self.host = host
        self.settings = settings
        self.scanner = scanner
        self.crew = crew
        self.watch = watch
        self.say = say
        self.from_end = from_end
        self.totals = Totals()
        self.plans: dict[str, Plan] = {}
        self.known: dict[str, _Known] = {}
        self.paths: dict[int, str] = {}
        self.held: set[int] = set()
        self.orphans: dict[int, float] = {}
        self.first = True
        self.scan_at = 0.0
        self._scanned_at = 0.0
        self._said: set[str] = set()
        self._complete: bool | None = None

    def step(self, timeout_s: float) -> None:
        """Scan when that is due, then let the workers work for at most `timeout_s`."""
        now = self.clock.monotonic()
        if now >= self.scan_at:
            self.scan()
        self._events_come()
        for news in self.crew.run(min(timeout_s, max(0.0, self.scan_at - self.clock.monotonic())), self.watch.fileno()):
            self._note(news)
        self._wake()

    def stop(self) -> None:
        """Stop the workers at a batch boundary."""
        for news in self.crew.stop():
            self.totals.add(news)

    # -- the scan --------------------------------------------------------------------------------

    def scan(self) -> None:
        """List everything; discover what is new or changed since the last look."""
        began = self.clock.monotonic()
        self.scan_at = began + self._interval()
        self.watch.follow(self.scanner.roots())
        groups = self.scanner.scan(literal_paths_exist=False)
        failpoints.hit("after_scan")
        present: set[str] = set()
        undecided: set[int] = set()
        work = False
        for group in groups:
            self._note_scan(group.scan)
            changed: list[Found] = []
            for one in group.scan.files:
                path = stored_path(one.path)
                present.add(path)
                if self._has_changed(path, one.stat):
                    changed.append(one)
            for decision in self._discover(group, changed):
                work |= decision.work
                if decision.of is not None:
                    undecided.add(decision.of)
        for path in self.known.keys() - present:
            del self.known[path]
        self._settle(present, undecided)
        self.first = False
        self._scanned_at = self.clock.monotonic()
        self.crew.tell(Told(poke=work, sources=frozenset(self.plans)))

    def _settle(self, present: Collection[str], undecided: Collection[int]) -> None:
        """End the generations that nothing continues, once they have been without a file for long enough."""
        now = self.clock.monotonic()
        still: dict[int, float] = {}
        for plan in self.plans.values():
            wait_s = max(plan.settings.settle_s, SOON_S)
            ripe = []
            host = task_host(self.engine, self.host, plan)
            for task in orphans(self.engine, self.files, plan, present=present, undecided=undecided, host=host):
                still[task.id] = self.orphans.get(task.id, now)
                if now - still[task.id] >= wait_s:
                    ripe.append(task)
                else:
                    self._soon(wait_s)
            for path in settle(self.engine, plan, ripe):
                self.known.pop(path, None)
                self._soon(0.0)
        self.orphans = still

    def _interval(self) -> float:
        return self.settings.rescan_s if self.watch.complete else min(LOOK_S, self.settings.rescan_s)

    def _soon(self, wait_s: float) -> None:
        """Bring the next scan forward; scans never take more than a tenth of the time."""
        took = self._scanned_at - (self.scan_at - self._interval())
        at = max(self.clock.monotonic() + wait_s, self._scanned_at + max(SOON_S, 9 * max(0.0, took)))
        self.scan_at = min(self.scan_at, at)

    def _has_changed(self, path: str, stat: FileStat) -> bool:
        known = self.known.get(path)
        signature = _signature(stat)
        if known is None or known.signature == signature:
            return known is None
        if known.task_id in self.held and known.signature[:2] == signature[:2] and signature[2] >= known.signature[2]:
            # Its worker reads it; only another file or a shorter one is news here.
            self.crew.tell(Told(woken=frozenset({known.task_id or 0})))
            return False
        return True

    def _note_scan(self, scan: Scan) -> None:
        for problem in scan.problems:
            self._warn(f"{stored_path(problem.path)}: {problem.message}")
        for path, why in scan.special:
            self._warn(f"{stored_path(path)}: {why}")
        if self.first:
            for pattern in scan.missing:
                self._warn(f"{pattern}: no such file yet; it is read as soon as it is there")

    # -- discovery -------------------------------------------------------------------------------

    def _discover(self, group: Group, found: Sequence[Found]) -> list[Decision]:
        ready = [one for one in found if self._may_be_read(group, one)]
        if not ready:
            return []
        decisions: list[Decision] = []
        try:
            for assigner, part in self.scanner.assigners(
                self.engine, self.files, [Group(group.source, group.settings, Scan(files=ready))]
            ):
                decisions += self._record(assigner.assign(part.files))
        except UsageError as problem:
            if self.first:
                raise
            self._warn(str(problem))
        return decisions

    def _may_be_read(self, group: Group, found: Found) -> bool:
        """Return whether a file can be judged: a drop only when it is stable."""
        if group.settings.follow:
            return True
        ready = group.settings.ready
        wait = getattr(ready, "stable_s", None)
        stable_s = STABLE_S if wait is None else wait
        age = self.clock.time() - found.stat.changed_ns / 1e9
        if age < stable_s:
            self._soon(stable_s - age + 0.01)
        return age >= stable_s

    def _record(self, assignment: Assignment) -> list[Decision]:
        decisions: list[Decision] = []
        for plan, found in assignment.files.values():
            check_table(self.engine, plan)
            created = plan.created
            plan = create_source(self.engine, plan, alter=self.scanner.call.alter)
            if plan.source_key not in self.plans:
                verb = "new source" if created else "source"
                self.say("info", f"{verb} {plan.source_key}: {plan.spec.format} into table {plan.destination.table}")
            self.plans[plan.source_key] = plan
            at_end = (self.first and self.from_end) or (created and plan.settings.start == "end")
            discoverer = Discoverer(self.engine, self.files, self.clock, self.host, plan, endless=True, at_end=at_end)
            stats = {stored_path(one.path): one.stat for one in found}
            ordered = age_order([(path, stat.mtime_ns) for path, stat in stats.items()])
            for decision in discoverer.discover([(path, stats[path]) for path, _ in ordered]):
                if decision.path in stats:
                    self._remember(decision, stats[decision.path])
                decisions.append(decision)
        for refused in assignment.refused:
            self._refused(refused)
        return decisions

    def _remember(self, decision: Decision, stat: FileStat) -> None:
        is_ours = decision.task_id in self.held and decision.of is None
        if decision.again and not is_ours:
            self.known.pop(decision.path, None)
        else:
            self.known[decision.path] = _Known(_signature(stat), decision.task_id)
            if decision.task_id is not None:
                self.paths[decision.task_id] = decision.path
        if decision.outcome == "failed":
            self._warn(f"{decision.path}: {decision.message}")
        elif decision.outcome != "unchanged" and decision.reason not in {"empty", "undecided"}:
            what = decision.outcome if decision.reason is None else f"{decision.outcome} ({decision.reason})"
            self.say("info", f"{decision.path}: {what}")

    def _refused(self, refused: Refused) -> None:
        if refused.reason == "empty":
            return
        self._warn(f"{refused.path}: {refused.message}")
        kind: Any = "skipped" if refused.outcome == "skipped" else "failed"
        detail = {"reason": refused.reason, "message": refused.message}
        with transaction(self.engine) as conn:
            add_event_once(conn, FileEvent(kind, refused.path, None, None, detail))

    # -- news ------------------------------------------------------------------------------------

    def _events_come(self) -> None:
        complete = self.watch.complete
        if complete == self._complete:
            return
        self._complete = complete
        self.crew.tell(Told(events_come=complete))
        if self.watch.refused is not None:
            self._warn(f"directories cannot be watched ({self.watch.refused}): looking every second instead")

    def _wake(self) -> None:
        """Pass on what the file system says."""
        changed, structure = self.watch.take()
        woken: set[int] = set()
        for path in changed:
            known = self.known.get(stored_path(path))
            if known is None:
                structure = True
            elif known.task_id in self.held:
                woken.add(known.task_id or 0)
            else:
                known.signature = ()
                structure = True
        if woken:
            self.crew.tell(Told(woken=frozenset(woken)))
        if structure:
            self._soon(0.0)

    def _note(self, news: TaskReport) -> None:
        self.totals.add(news)
        if news.began:
            self.held.add(news.task_id)
        if news.ended is None:
            return
        self.held.discard(news.task_id)
        if news.message and news.ended in {"failed", "later", "moved", "left", "truncated"}:
            self.say("warning" if news.ended != "moved" else "info", news.message)
        if news.ended == "lost":
            self.say("info", f"{self.paths.get(news.task_id, f'task {news.task_id}')}: {news.message}")
        known = self.known.get(self.paths.get(news.task_id, ""))
        if known is not None:
            # It may have been written to while its worker let it go.
            known.signature = ()
        self._soon(SOON_S)

    def _warn(self, sentence: str) -> None:
        """Say something once."""
        if sentence not in self._said:
            self._said.add(sentence)
            self.say("warning", sentence)


def _signature(stat: FileStat) -> tuple[int, ...]:
    return (stat.device, stat.inode, stat.size, stat.mtime_ns, stat.ctime_ns)
