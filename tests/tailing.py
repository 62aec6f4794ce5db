"""The daemon inside the test: one step at a time, on real files and a real database, with any clock or file system."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filecollect.clock import SystemClock
from filecollect.config import load_config
from filecollect.files.filesystem import FileHandle, FileStat, FileSystem, LocalFileSystem
from filecollect.host import this_host
from filecollect.pipeline.crew import LocalCrew
from filecollect.pipeline.scan import Call, Scanner
from filecollect.pipeline.supervisor import Supervisor
from filecollect.store.engine import close, open_engine
from filecollect.store.migrate import upgrade
from tests.invariants import check


class HandClock:
    """A clock that stands still until it is moved; monotonic and wall time go together."""

    def __init__(self) -> None:
        self.started = SystemClock().time()
        self.passed = 0.0

    def time(self) -> float:
        """Return seconds since the epoch."""
        return self.started + self.passed

    def monotonic(self) -> float:
        """Return seconds since the start."""
        return 1000.0 + self.passed

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.passed += seconds


class NoWakes:
    """A watch that tells nothing, as on a network file system, or everything, as when all is quiet."""

    def __init__(self, *, complete: bool) -> None:
        self.complete = complete
        self.refused: str | None = None
        self.changed: set[str] = set()
        self.structure = False
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)

    def take(self) -> tuple[set[str], bool]:
        """Return what was put in."""
        changed, structure, self.changed, self.structure = self.changed, self.structure, set(), False
        return changed, structure

    def follow(self, roots: Iterable[tuple[str, bool]]) -> None:
        """Take no notice."""

    def fileno(self) -> int:
        """Return a descriptor that is never readable."""
        return self._reading

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._reading)
        os.close(self._writing)


class Watched:
    """A file system that counts opens, knows how many are open, and fails where it is told to."""

    def __init__(self) -> None:
        self.inner = LocalFileSystem()
        self.opened: list[str] = []
        self.open_now = 0
        self.most_open = 0
        self.failing: dict[str, Exception] = {}

    def trusting(self, roots: Iterable[str], *, follow_symlinks: bool) -> FileSystem:
        """Return itself."""
        return self

    def open(self, path: str | bytes) -> FileHandle:
        """Open a file, counted."""
        name = os.fsdecode(path)
        if name in self.failing:
            raise self.failing[name]
        handle = self.inner.open(path)
        self.opened.append(name)
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        close_it = handle.close
        closed = False

        def close_once() -> None:
            nonlocal closed
            if not closed:
                closed = True
                self.open_now -= 1
            close_it()

        handle.close = close_once  # type: ignore[method-assign]
        return handle

    def stat(self, path: str | bytes) -> FileStat:
        """Return facts."""
        return self.inner.stat(path)

    def lstat(self, path: str | bytes) -> FileStat:
        """Return facts of the path itself."""
        return self.inner.lstat(path)

    def scandir(self, path: str) -> Iterator[os.DirEntry[str]]:
        """Return entries."""
        return self.inner.scandir(path)


class Tail:
    """A supervisor with one worker, stepped by hand."""

    def __init__(self, directory: Path, text: str, *, clock: Any = None, most_open: int | None = None) -> None:
        self.directory = directory
        self.database = directory / "o.db"
        config = directory / "filecollect.toml"
        config.write_text('database = "o.db"\n' + text)
        self.clock = clock or HandClock()
        self.files = Watched()
        self.engine = open_engine(str(self.database), create=True, checkpointer=True)
        upgrade(self.engine)
        loaded = load_config(config, os.environ)
        self.watch = NoWakes(complete=True)
        self.said: list[str] = []
        settings = loaded.worker
        base = next(iter(loaded.source.values()))
        call = Call((), base, {}, frozenset(), config=loaded, never=(str(self.database),), cwd=directory)
        self.stopping = False
        self.crew = LocalCrew(
            self.engine, settings, lambda: self.stopping, clock=self.clock, files=self.files, most_open=most_open
        )
        self.supervisor = Supervisor(
            self.engine,
            self.files,
            self.clock,
            this_host(None),
            settings,
            Scanner(call, self.files),
            self.crew,
            self.watch,
            lambda level, sentence: self.said.append(f"{level} {sentence}"),
        )
        self.crew.start()

    def step(self, seconds: float = 0.05) -> None:
        """Let some time pass and do what is due."""
        self.clock.sleep(seconds)
        self.supervisor.step(0.0)

    def until(self, true: Callable[[], Any], *, steps: int = 2000, seconds: float = 0.05) -> None:
        """Step until something is true."""
        for _ in range(steps):
            if true():
                return
            self.step(seconds)
        raise AssertionError(f"not true after {steps} steps; said: {self.said[-5:]}")

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self.engine.connect() as conn:
            return [tuple(row) for row in conn.exec_driver_sql(query)]

    def count(self, table: str) -> int:
        """Return how many rows a table has, 0 while there is none."""
        there = self.sql(f"SELECT 1 FROM sqlite_master WHERE name = '{table}'")
        return int(self.sql(f"SELECT count(*) FROM {table}")[0][0]) if there else 0

    def die(self) -> None:
        """End as a killed process does: nothing is committed, nothing given back, its death can be proven."""
        tailer = self.crew.tailer
        tailer.heartbeat.stop()
        for held in tailer.held.values():
            held.stream.close()
        with self.engine.connect() as conn:
            conn.exec_driver_sql("UPDATE worker SET process_start = '0' WHERE owner_id = ?", (tailer.owner,))
            conn.commit()
        self.engine.dispose()
        self.watch.close()

    def end(self) -> None:
        """Stop, and check the invariants."""
        self.supervisor.stop()
        close(self.engine, truncate=True)
        self.watch.close()
        check(self.database)


@contextmanager
def tailing(directory: Path, text: str, **more: Any) -> Iterator[Tail]:
    """Hold a daemon to be stepped by hand; it is stopped and checked at the end."""
    tail = Tail(directory, text, **more)
    yield tail
    tail.end()
