"""Builds everything from a call and its config: the only place where the parts are wired together."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Engine

from filecollect import failpoints
from filecollect.clock import SystemClock
from filecollect.config import WorkerSettings
from filecollect.errors import DatabaseUnavailable
from filecollect.files.filesystem import LocalFileSystem
from filecollect.files.finder import Found
from filecollect.host import this_host
from filecollect.pipeline.assign import Assignment
from filecollect.pipeline.backfill import Backfill, Summary, with_workers
from filecollect.pipeline.hosts import task_host
from filecollect.pipeline.plan import Plan
from filecollect.pipeline.pool import Job, Pool, Stuck, work_here
from filecollect.pipeline.report import TaskReport
from filecollect.pipeline.scan import Call, Group, Scanner
from filecollect.pipeline.worker import CLAIMED_AT_ONCE
from filecollect.store.engine import checkpoint_wal, close, open_engine
from filecollect.store.migrate import upgrade

WORTH_A_PROCESS_BYTES = 8 * 1024 * 1024
"""Rounds smaller than this are over before another process has started."""
SHARES = 4
"""Into how many claims each worker's part of a round is cut, so that all end at about the same time."""


def sqlite_files(url: str) -> tuple[str, ...]:
    """Return the database's own files, which are never collected."""
    if not url.startswith("sqlite:///"):
        return ()
    path = url.removeprefix("sqlite:///")
    return tuple(path + suffix for suffix in ("", "-wal", "-shm", "-journal"))


class Round:
    """One backfill call, from opening the database to closing it."""

    def __init__(self, url: str, call: Call, should_stop: Callable[[], bool]) -> None:
        self.url = url
        self.call = call
        self.should_stop = should_stop
        self.clock = SystemClock()
        worker = call.config.worker if call.config else WorkerSettings()
        self.settings = with_workers(worker, call.workers)
        self.host = this_host(self.settings.host)
        self.schema = call.config.db_schema if call.config else None
        self.files = LocalFileSystem()
        self.scanner = Scanner(call, self.files)
        self.plans: dict[str, Plan] = {}

    def run(self, progress: Callable[[Summary, str], None]) -> Summary:
        """Carry the round out; `progress` is called as it goes, with what is being done."""
        failpoints.arm()
        groups = self.scanner.scan()
        if self.call.dry_run and not self._exists():
            with tempfile.TemporaryDirectory() as nowhere:
                return self._on(f"sqlite:///{nowhere}/none.db", groups, progress)
        return self._on(self.url, groups, progress)

    def _exists(self) -> bool:
        files = sqlite_files(self.url)
        return not files or Path(files[0]).exists()

    def _on(self, url: str, groups: Sequence[Group], progress: Callable[[Summary, str], None]) -> Summary:
        """Carry the round out on a database, which is only made once the call is known to be good."""
        engine = self._open(url) if self._exists() else None
        try:
            progress(Summary(), "looking at files")
            assigned = [
                (assigner.assign(scan.files), scan)
                for assigner, scan in self.scanner.assigners(engine, self.files, groups)
            ]
            engine = engine or self._open(url)
            backfill = Backfill(engine, self.files, self.clock, self.host, self.settings, self.should_stop)
            ids: list[int] = []
            for assignment, scan in assigned:
                backfill.note_scan(scan)
                ids += backfill.record(assignment, dry_run=self.call.dry_run, alter=self.call.alter)
                self.plans.update({key: plan for key, (plan, _) in assignment.files.items()})
            if self.call.dry_run:
                return backfill.finish(stopped=False)
            self._work(engine, backfill, sorted(set(ids)), progress)
            if not self.should_stop():
                writer = engine
                backfill.settle(self.should_stop, lambda again: self._here(writer, backfill, again, progress))
            return backfill.finish(stopped=self.should_stop())
        finally:
            if engine is not None:
                close(engine, truncate=True)

    def _open(self, url: str) -> Engine:
        schema = self.schema if url == self.url else None
        engine = open_engine(url, durability=self.settings.durability, create=True, checkpointer=True, schema=schema)
        task_host(engine, self.host)
        upgrade(engine)
        return engine

    # -- working ---------------------------------------------------------------------------------

    def _job(self, ids: Sequence[int], workers: int = 1) -> Job:
        return Job(
            self.url,
            self.plans,
            self.settings,
            tuple(ids),
            self.schema,
            max(1, min(CLAIMED_AT_ONCE, len(ids) // (SHARES * workers))),
        )

    def _work(
        self, engine: Engine, backfill: Backfill, ids: list[int], progress: Callable[[Summary, str], None]
    ) -> None:
        if not ids or self.should_stop():
            return
        workers = self.settings.worker_count(sqlite=self.url.startswith("sqlite"))
        workers = min(workers, len(ids), 1 + backfill.summary.bytes_total // WORTH_A_PROCESS_BYTES)
        if workers == 1:
            self._here(engine, backfill, ids, progress)
            return
        close(engine, truncate=False)
        checkpointer = open_engine(self.url, durability=self.settings.durability, checkpointer=True, schema=self.schema)

        def tick() -> None:
            _checkpoint(checkpointer)
            progress(backfill.summary, "loading")

        stuck = Stuck(checkpointer, ids, self.clock, after_s=self.settings.heartbeat_s)
        try:
            Pool(self._job(ids, workers), workers).run(backfill.report, self.should_stop, tick, stuck)
        finally:
            close(checkpointer, truncate=True)

    def _here(
        self, engine: Engine, backfill: Backfill, ids: Sequence[int], progress: Callable[[Summary, str], None]
    ) -> None:
        def report(news: TaskReport) -> None:
            backfill.report(news)
            progress(backfill.summary, "loading")

        work_here(self._job(ids), report, self.should_stop)


def _checkpoint(engine: Engine) -> None:
    with suppress(DatabaseUnavailable):
        checkpoint_wal(engine)


def assignment_only(call: Call, engine: Engine | None) -> tuple[Assignment, list[Found]]:
    """Return how files would be assigned, for `preview`; nothing is written."""
    files = LocalFileSystem()
    scanner = Scanner(call, files)
    ((assigner, scan),) = scanner.assigners(engine, files, scanner.scan())
    return assigner.assign(scan.files), scan.files
