"""Wires the daemon together: `filecollect run`, from opening the database to closing it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from filecollect import failpoints
from filecollect.app import sqlite_files
from filecollect.clock import SystemClock
from filecollect.config import WorkerSettings
from filecollect.errors import DatabaseUnavailable
from filecollect.files.filesystem import LocalFileSystem
from filecollect.files.watch import Watch
from filecollect.host import this_host
from filecollect.pipeline.backfill import with_workers
from filecollect.pipeline.crew import crew_for
from filecollect.pipeline.hosts import task_host
from filecollect.pipeline.scan import Call, Scanner
from filecollect.pipeline.supervisor import Say, Supervisor, Totals
from filecollect.store.engine import checkpoint_wal, close, open_engine
from filecollect.store.migrate import upgrade

CHECKPOINT_S = 1.0
AWAY_S = 1.0


def run(url: str, call: Call, say: Say, should_stop: Callable[[], bool], *, from_end: bool) -> Totals:
    """Collect until `should_stop`; raise UsageError for a call that cannot be meant."""
    failpoints.arm()
    settings = with_workers(call.config.worker if call.config else WorkerSettings(), call.workers)
    files = LocalFileSystem()
    scanner = Scanner(call, files)
    scanner.roots()
    clock = SystemClock()
    schema = call.config.db_schema if call.config else None
    engine = open_engine(url, durability=settings.durability, create=True, checkpointer=True, schema=schema)
    watch = Watch()
    try:
        host = this_host(settings.host)
        task_host(engine, host)
        upgrade(engine)
        watch.start()
        workers = settings.worker_count(sqlite=bool(sqlite_files(url)))
        crew = crew_for(engine, url, settings, workers, should_stop)
        supervisor = Supervisor(engine, files, clock, host, settings, scanner, crew, watch, say, from_end=from_end)
        crew.start()
        try:
            checkpoint_at = 0.0
            while not should_stop():
                try:
                    supervisor.step(CHECKPOINT_S)
                    if clock.monotonic() >= checkpoint_at:
                        checkpoint_at = clock.monotonic() + CHECKPOINT_S
                        checkpoint_wal(engine)
                except DatabaseUnavailable as problem:
                    say("warning", f"the database is away, trying again: {problem.message}")
                    clock.sleep(AWAY_S)
        finally:
            with suppress(DatabaseUnavailable):
                supervisor.stop()
        return supervisor.totals
    finally:
        watch.stop()
        close(engine, truncate=True)
