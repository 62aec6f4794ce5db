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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from filecollect import failpoints
from filecollect.clock import SystemClock
from filecollect.config import WorkerSettings
from filecollect.errors import DatabaseUnavailable, FilecollectError
from filecollect.files.filesystem import LocalFileSystem
from filecollect.host import this_host
from filecollect.pipeline.plan import Plan
from filecollect.pipeline.report import Report, TaskReport
from filecollect.pipeline.worker import Worker
from filecollect.store.engine import close, open_engine

RESTARTS = 3


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker process has to do."""

    url: str
    plans: Mapping[str, Plan]
    settings: WorkerSettings
    ids: tuple[int, ...]


class WorkerDied(FilecollectError):
    """A worker process was killed by a failpoint."""

    exit_code = 137
    code = "worker_died"


def work_here(job: Job, report: Report, should_stop: Callable[[], bool]) -> None:
    """Work through a job in this process, which then also checkpoints the database's log."""
    engine = open_engine(job.url, durability=job.settings.durability, checkpointer=True)
    try:
        files = LocalFileSystem()
        host = this_host(job.settings.host)
        Worker(engine, files, SystemClock(), host, job.plans, job.settings, report, should_stop).run(job.ids)
    finally:
        close(engine, truncate=True)


def _child(job: Job, pipe: Connection) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    parent = os.getppid()
    failpoints.arm()
    engine = open_engine(job.url, durability=job.settings.durability)
    try:
        files = LocalFileSystem()
        host = this_host(job.settings.host)

        def should_stop() -> bool:
            return stop.is_set() or os.getppid() != parent

        Worker(engine, files, SystemClock(), host, job.plans, job.settings, pipe.send, should_stop).run(job.ids)
    except FilecollectError as problem:
        pipe.send((problem.code, problem.message))
    finally:
        close(engine, truncate=False)
        pipe.close()


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

    def run(self, report: Report, should_stop: Callable[[], bool], every: Callable[[], None]) -> None:
        """Run until all children have ended; call `every` a few times a second.

        Raises WorkerDied when a failpoint killed a child, DatabaseUnavailable when one gave up.
        """
        for _ in range(self.workers):
            self._start()
        restarts, told, killed = 0, False, False
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
        if killed:
            raise WorkerDied("a failpoint killed a worker process")
        if problem is not None:
            raise DatabaseUnavailable(problem)


def sequence_of(ids: Sequence[int]) -> tuple[int, ...]:
    """Return ids oldest first, each once."""
    return tuple(sorted(set(ids)))
