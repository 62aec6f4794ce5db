"""Wake-ups: which paths changed, as told by the operating system, without opening anything.

Events only save waiting. They may be lost (a full queue, a network file system, more directories than
may be watched), so the caller's periodic scan stays the truth, and a directory that cannot be watched
makes `complete` False: then the caller looks more often. Each event costs some 50 us here, so in a storm
(10,000 appends a second) modifications are not asked for any more: busy files are read on a timer anyway.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

STORM_EVENTS_PER_S = 1000
CALM_S = 30.0
_STRUCTURE: list[type[FileSystemEvent]] = [
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileMovedEvent,
]

Root = tuple[str, bool]
"""A directory, and whether everything below it counts."""


class Watch(FileSystemEventHandler):
    """Watch directories; `take` returns what happened, `fileno` becomes readable when something did."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._structure = False
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._observer: Any = None
        self._watches: dict[Root, tuple[Any, tuple[int, int]]] = {}
        self._counted_since = time.monotonic()
        self._count = 0
        self.storm_until = 0.0
        self.refused: str | None = None

    def start(self) -> None:
        """Start to observe; where the system cannot, everything is left to scans."""
        try:
            self._observer = Observer()
            self._observer.start()
        except OSError as problem:
            self._refuse(problem)

    def stop(self) -> None:
        """Stop observing."""
        if self._observer is not None:
            self._observer.stop()
            self._observer.join()
            self._observer = None
        for descriptor in (self._reading, self._writing):
            os.close(descriptor)

    @property
    def complete(self) -> bool:
        """Return whether every change to a watched file is told."""
        return self._observer is not None and self.refused is None and not self.storm

    @property
    def storm(self) -> bool:
        """Return whether modifications are not asked for at the moment."""
        return time.monotonic() < self.storm_until

    def fileno(self) -> int:
        """Return a descriptor that is readable while there is something to take."""
        return self._reading

    def take(self) -> tuple[set[str], bool]:
        """Return the paths that were modified, and whether files came, went or were moved."""
        with suppress(BlockingIOError):
            os.read(self._reading, 4096)
        with self._lock:
            changed, structure = self._changed, self._structure
            self._changed, self._structure = set(), False
        return changed, structure

    def follow(self, roots: Iterable[Root]) -> None:
        """Watch exactly `roots` that exist; call it at every scan, so that what came back is watched again."""
        if self._observer is None:
            return
        filters = _STRUCTURE if self.storm else [*_STRUCTURE, FileModifiedEvent]
        wanted = _outermost(roots)
        for root, (watch, identity) in list(self._watches.items()):
            if root not in wanted or _identity(root[0]) != identity or set(watch.event_filter) != set(filters):
                with suppress(KeyError, OSError):
                    self._observer.unschedule(watch)
                del self._watches[root]
        for root in wanted:
            known = _identity(root[0])
            if root in self._watches or known is None:
                continue
            try:
                watch = self._observer.schedule(self, root[0], recursive=root[1], event_filter=filters)
            except OSError as problem:
                self._refuse(problem)
                continue
            self._watches[root] = (watch, known)

    def _refuse(self, problem: OSError) -> None:
        self.refused = problem.strerror or str(problem)

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Take in one event; called in the observer's thread."""
        now = time.monotonic()
        with self._lock:
            was_empty = not self._changed and not self._structure
            if isinstance(event, FileModifiedEvent):
                self._changed.add(os.fsdecode(event.src_path))
            else:
                self._structure = True
            self._count += 1
            if now - self._counted_since >= 1.0:
                if self._count / (now - self._counted_since) > STORM_EVENTS_PER_S:
                    self.storm_until = now + CALM_S
                self._counted_since, self._count = now, 0
        if was_empty:
            with suppress(BlockingIOError, OSError):
                os.write(self._writing, b".")


def _identity(directory: str) -> tuple[int, int] | None:
    try:
        stat = os.stat(directory)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def _outermost(roots: Iterable[Root]) -> set[Root]:
    """Return the roots that are not below another recursive one."""
    wanted: dict[str, bool] = {}
    for path, recursive in roots:
        wanted[path] = wanted.get(path, False) or recursive
    deep = [path.rstrip("/") + "/" for path, recursive in wanted.items() if recursive]
    return {
        (path, recursive)
        for path, recursive in wanted.items()
        if not any(path.startswith(above) for above in deep if above != path.rstrip("/") + "/")
    }
