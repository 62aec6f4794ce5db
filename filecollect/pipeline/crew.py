"""The workers of a daemon: in this process, or in processes of their own.

The supervisor tells which tasks were woken and that something is due; reports come back. Workers claim
tasks from the database themselves, so nothing is lost when one dies: it is started anew, and what it held
is taken over at once because its death can be proven. A child that a failpoint killed ends the daemon.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Protocol

from sqlalchemy import Engine

from filecollect import failpoints
from filecollect.clock import Clock, SystemClock
from filecollect.config import WorkerSettings
from filecollect.errors import DatabaseUnavailable, FilecollectError
from filecollect.files.filesystem import FileSystem, LocalFileSystem
from filecollect.host import this_host
from filecollect.pipeline.pool import WorkerDied
from filecollect.pipeline.report import TaskReport
from filecollect.pipeline.tail import Tailer
from filecollect.store.engine import close, open_engine, schema_of

AWAY_S = 1.0
"""How long a worker waits before it asks a database again that is away."""
RESTART_S = 1.0
"""How long a dead worker's place stays empty, doubled at every death within a minute, at most one minute."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the supervisor tells a worker."""

    woken: frozenset[int] = frozenset()
    poke: bool = False
    sources: frozenset[str] | None = None
    events_come: bool | None = None


class Crew(Protocol):
    """Some workers."""

    def start(self) -> None:
        """Start all workers."""

    def tell(self, told: Told) -> None:
        """Tell every worker something."""

    def run(self, timeout_s: float, wake: int) -> list[TaskReport]:
        """Work, or wait for news, at most so long or until the descriptor `wake` is readable."""

    def stop(self) -> list[TaskReport]:
        """Let every worker stop at a batch boundary and wait for it."""


class LocalCrew:
    """One worker in this process: its turns alternate with the supervisor's scans."""

    def __init__(
        self,
        engine: Engine,
        settings: WorkerSettings,
        should_stop: Callable[[], bool],
        *,
        clock: Clock | None = None,
        files: FileSystem | None = None,
        most_open: int | None = None,
    ) -> None:
        self.news: list[TaskReport] = []
        self.clock = clock or SystemClock()
        self.tailer = Tailer(
            engine,
            files or LocalFileSystem(),
            self.clock,
            this_host(settings.host),
            settings,
            self.news.append,
            should_stop,
            most_open=most_open,
        )
        self.woken: set[int] = set()
        self.problem: str | None = None

    def start(self) -> None:
        """Start the worker."""
        self.tailer.begin()

    def tell(self, told: Told) -> None:
        """Tell the worker something."""
        _hear(self.tailer, told, self.woken)

    def run(self, timeout_s: float, wake: int) -> list[TaskReport]:
        """Do one turn, then wait until the next one is wanted."""
        woken, self.woken = self.woken, set()
        try:
            pause = self.tailer.turn(woken)
            self.problem = None
        except DatabaseUnavailable as problem:
            self.problem = problem.message
            pause = AWAY_S
            self.tailer.poke()
        news, self.news[:] = list(self.news), []
        if pause > 0 and not news:
            select.select([wake], [], [], min(pause, timeout_s))
        return news

    def stop(self) -> list[TaskReport]:
        """Stop the worker."""
        self.tailer.end()
        news, self.news[:] = list(self.news), []
        return news


def _hear(tailer: Tailer, told: Told, woken: set[int]) -> None:
    woken |= told.woken
    if told.poke:
        tailer.poke()
    if told.sources is not None:
        tailer.sources = told.sources
        tailer.poke()
    if told.events_come is not None:
        tailer.events_come = told.events_come


@dataclass(frozen=True, slots=True)
class _Orders:
    """What a worker process is started with."""

    url: str
    settings: WorkerSettings
    schema: str | None = None


def _child(orders: _Orders, pipe: Connection) -> None:
    stop = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    parent = os.getppid()
    failpoints.arm()

    def should_stop() -> bool:
        return stop.is_set() or os.getppid() != parent

    engine = open_engine(orders.url, durability=orders.settings.durability, schema=orders.schema)
    try:
        files = LocalFileSystem()
        host = this_host(orders.settings.host)
        tailer = Tailer(engine, files, SystemClock(), host, orders.settings, pipe.send, should_stop)
        tailer.begin()
        woken: set[int] = set()
        pause = 0.0
        while not should_stop():
            if pipe.poll(min(pause, 0.5)):
                _hear(tailer, pipe.recv(), woken)
                pause = 0.0
                continue
            try:
                pause = tailer.turn(woken)
                woken = set()
            except DatabaseUnavailable:
                pause = AWAY_S
        tailer.end()
    except (FilecollectError, EOFError, BrokenPipeError):
        # The supervisor sees the end of the pipe and what the database says.
        pass
    finally:
        close(engine, truncate=False)
        pipe.close()


class ProcessCrew:
    """Several workers, each a process of its own; only the supervisor checkpoints the database's log."""

    def __init__(self, url: str, settings: WorkerSettings, workers: int, *, schema: str | None) -> None:
        self.orders = _Orders(url, settings, schema)
        self.workers = workers
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["filecollect.pipeline.crew"])
        self.children: dict[Connection, Any] = {}
        self.standing = Told()
        self.deaths: list[float] = []
        self.clock = SystemClock()
        self.start_at: list[float] = []
        self.problem: str | None = None

    def start(self) -> None:
        """Start all workers."""
        for _ in range(self.workers):
            self._start()

    def _start(self) -> None:
        ours, theirs = self.context.Pipe()
        child = self.context.Process(target=_child, args=(self.orders, theirs), daemon=False)
        child.start()
        theirs.close()
        self.children[ours] = child
        self._send(ours, self.standing)

    def _send(self, pipe: Connection, told: Told) -> None:
        with suppress(OSError):  # its death is noticed where news is read
            pipe.send(told)

    def tell(self, told: Told) -> None:
        """Tell every worker something; what lasts is told to later ones, too."""
        self.standing = Told(
            sources=self.standing.sources if told.sources is None else told.sources,
            events_come=self.standing.events_come if told.events_come is None else told.events_come,
        )
        for pipe in self.children:
            self._send(pipe, told)

    def run(self, timeout_s: float, wake: int) -> list[TaskReport]:
        """Wait for news; start anew what has died."""
        now = self.clock.monotonic()
        for at in [at for at in self.start_at if at <= now]:
            self.start_at.remove(at)
            self._start()
        news: list[TaskReport] = []
        for ready in wait([*self.children, wake], timeout=timeout_s):
            if isinstance(ready, Connection):
                self._read(ready, news)
        return news

    def _read(self, pipe: Connection, news: list[TaskReport]) -> None:
        try:
            while pipe.poll():
                news.append(pipe.recv())
        except (EOFError, OSError):
            child = self.children.pop(pipe)
            child.join()
            self._died(child.exitcode)

    def _died(self, code: int | None) -> None:
        if os.environ.get(failpoints.ENVIRONMENT) and code not in (0, None):
            raise WorkerDied("a failpoint killed a worker process")
        now = self.clock.monotonic()
        self.deaths = [*(at for at in self.deaths if now - at < 60), now]
        self.start_at.append(now + min(60.0, RESTART_S * 2.0 ** (len(self.deaths) - 1)))
        self.problem = f"a worker process ended (exit {code}); another takes its place"

    def stop(self) -> list[TaskReport]:
        """Let every worker stop at a batch boundary and wait for it."""
        news: list[TaskReport] = []
        for child in self.children.values():
            child.terminate()
        self.start_at.clear()
        while self.children:
            for ready in wait(list(self.children)):
                assert isinstance(ready, Connection)
                try:
                    news.append(ready.recv())
                except (EOFError, OSError):
                    self.children.pop(ready).join()
        return news


def crew_for(
    engine: Engine,
    url: str,
    settings: WorkerSettings,
    workers: int,
    should_stop: Callable[[], bool],
) -> LocalCrew | ProcessCrew:
    """Return one worker in this process, or several in their own."""
    if workers == 1:
        return LocalCrew(engine, settings, should_stop)
    return ProcessCrew(url, settings, workers, schema=schema_of(engine))
