"""Worker processes: started clean (no open database is inherited), watched, reported from.

Children come from a fork server that has the imports loaded and nothing else. Each sends TaskReports
through its own pipe, so a child that is killed in the middle of one spoils nobody else's. A child
that dies is replaced, a few times; one that a failpoint killed is not, so tests see its death.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from sqlalchemy import Engine

from filecollect import failpoints
from filecollect.clock import Clock, SystemClock
from filecollect.config import WorkerSettings
from filecollect.errors import DatabaseUnavailable, FilecollectError
from filecollect.files.filesystem import LocalFileSystem
from filecollect.host import this_host
from filecollect.pipeline.patience import patiently
from filecollect.pipeline.plan import Plan
from filecollect.pipeline.report import Report, TaskReport
from filecollect.pipeline.worker import CLAIMED_AT_ONCE, Worker
from filecollect.store.claim import abandoned
from filecollect.store.engine import close, open_engine, reading

RESTARTS = 3


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker process has to do."""

    url: str
    plans: Mapping[str, Plan]
    settings: WorkerSettings
    ids: tuple[int, ...]
    schema: str | None = None
    at_once: int = CLAIMED_AT_ONCE
    """How many tasks a worker claims at once: with few files each worker must get some."""


class WorkerDied(FilecollectError):
    """A worker process was killed by a failpoint."""

    exit_code = 137
    code = "worker_died"


def _open(job: Job, should_stop: Callable[[], bool], *, checkpointer: bool) -> Engine:
    def once() -> Engine:
        return open_engine(job.url, durability=job.settings.durability, checkpointer=checkpointer, schema=job.schema)

    return patiently(once, clock=SystemClock(), should_stop=should_stop, within_s=job.settings.database_patience_s)


def work_here(job: Job, report: Report, should_stop: Callable[[], bool]) -> None:
    """Work through a job in this process, which then also checkpoints the database's log."""
    engine = _open(job, should_stop, checkpointer=True)
    try:
        files = LocalFileSystem()
        host = this_host(job.settings.host)
        worker = Worker(
            engine, files, SystemClock(), host, job.plans, job.settings, report, should_stop, at_once=job.at_once
        )
        worker.run(job.ids)
    finally:
        close(engine, truncate=True)


def _child(job: Job, pipe: Connection) -> None:
    stop = threading.Event()
    interrupts: list[int] = []

    def interrupted(number: int, _frame: Any) -> None:
        # Ctrl-C reaches all processes of the terminal; like the command, a second one ends us at once.
        if interrupts:
            os._exit(128 + number)
        interrupts.append(number)
        stop.set()

    signal.signal(signal.SIGINT, interrupted)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    parent = os.getppid()
    failpoints.arm()

    def should_stop() -> bool:
        return stop.is_set() or os.getppid() != parent

    engine: Engine | None = None
    try:
        engine = _open(job, should_stop, checkpointer=False)
        files = LocalFileSystem()
        host = this_host(job.settings.host)
        worker = Worker(
            engine, files, SystemClock(), host, job.plans, job.settings, pipe.send, should_stop, at_once=job.at_once
        )
        worker.run(job.ids)
    except FilecollectError as problem:
        pipe.send((problem.code, problem.message))
    finally:
        if engine is not None:
            close(engine, truncate=False)
        pipe.close()


class Stuck:
    """Tell whether leases of a round's tasks have been over for a while and nobody takes them over.

    That is so when a worker stands still (stopped, or in a read that never ends) and its siblings have
    finished. Told at most once every `after_s`.
    """

    def __init__(self, engine: Engine, ids: Collection[int], clock: Clock, *, after_s: float) -> None:
        self.engine = engine
        self.ids = frozenset(ids)
        self.clock = clock
        self.after_s = after_s
        self._seen: frozenset[int] = frozenset()
        self._look_at = clock.monotonic() + after_s

    def __call__(self) -> bool:
        """Return whether the same task was abandoned at this look and at the one before."""
        if self.clock.monotonic() < self._look_at:
            return False
        self._look_at = self.clock.monotonic() + self.after_s
        try:
            with reading(self.engine) as conn:
                now = self.ids & abandoned(conn)
        except DatabaseUnavailable:
            return False
        before, self._seen = self._seen, now
        return bool(before & now)


class Pool:
    """Run a job in several processes."""

    def __init__(self, job: Job, workers: int) -> None:
        self.job = job
        self.workers = workers
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["filecollect.pipeline.pool"])
        self.children: dict[Connection, Any] = {}

    def _start(self) -> None:
        ours, theirs = self.context.Pipe(duplex=False)
        child = self.context.Process(target=_child, args=(self.job, theirs), daemon=False)
        child.start()
        theirs.close()
        self.children[ours] = child

    def run(
        self,
        report: Report,
        should_stop: Callable[[], bool],
        every: Callable[[], None],
        is_stuck: Callable[[], bool] = lambda: False,
    ) -> None:
        """Run until all children have ended; call `every` a few times a second.

        When `is_stuck` says that a task waits for a worker that stands still, one more worker is started.
        Raises WorkerDied when a failpoint killed a child, DatabaseUnavailable when one gave up.
        """
        for _ in range(self.workers):
            self._start()
        restarts, extra, told, killed = 0, 0, False, False
        problem: str | None = None
        while self.children:
            if (should_stop() or killed) and not told:
                told = True
                for child in self.children.values():
                    child.terminate()
            for pipe in wait(list(self.children), timeout=0.2):
                assert isinstance(pipe, Connection)
                try:
                    news = pipe.recv()
                except (EOFError, OSError):
                    child = self.children.pop(pipe)
                    child.join()
                    died = child.exitcode not in (0, None)
                    if died and os.environ.get(failpoints.ENVIRONMENT):
                        killed = True
                    elif died and restarts < RESTARTS and not told:
                        restarts += 1
                        self._start()
                    elif died and not told:
                        problem = f"worker processes keep dying (exit {child.exitcode})"
                    continue
                if isinstance(news, TaskReport):
                    report(news)
                else:
                    problem = news[1]
            every()
            if extra < RESTARTS and not told and self.children and is_stuck():
                extra += 1
                self._start()
        if killed:
            raise WorkerDied("a failpoint killed a worker process")
        if problem is not None:
            raise DatabaseUnavailable(problem)


def sequence_of(ids: Sequence[int]) -> tuple[int, ...]:
    """Return ids oldest first, each once."""
    return tuple(sorted(set(ids)))
