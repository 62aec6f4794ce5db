"""Builds everything from a call and its config: the only place where the parts are wired together."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from filecollect import failpoints
from filecollect.clock import SystemClock
from filecollect.config import Config, SourceSettings, WorkerSettings
from filecollect.errors import DatabaseUnavailable, UsageError
from filecollect.files.filesystem import LocalFileSystem
from filecollect.files.finder import Found, Scan, find
from filecollect.host import this_host
from filecollect.parse.spec import Wanted
from filecollect.pipeline.assign import Assigner, Assignment
from filecollect.pipeline.backfill import Backfill, Summary, with_workers
from filecollect.pipeline.plan import Plan
from filecollect.pipeline.pool import Job, Pool, work_here
from filecollect.pipeline.report import TaskReport
from filecollect.store.engine import checkpoint_wal, close, open_engine
from filecollect.store.migrate import upgrade

WORTH_A_PROCESS_BYTES = 8 * 1024 * 1024
"""Rounds smaller than this are over before another process has started."""


@dataclass(frozen=True, slots=True)
class BackfillCall:
    """What `filecollect backfill` was asked to do."""

    paths: tuple[str, ...]
    base: SourceSettings
    changes: dict[str, Any]
    said: frozenset[str]
    source: str | None = None
    table: str | None = None
    workers: int | None = None
    dry_run: bool = False
    alter: bool = False
    config: Config | None = None
    never: tuple[str, ...] = ()
    cwd: Path = field(default_factory=Path.cwd)


def wanted_of(settings: SourceSettings) -> Wanted:
    """Return what the settings force of a file's format."""
    header = settings.header
    return Wanted(
        format=None if settings.format == "auto" else settings.format,
        encoding=settings.encoding,
        delimiter=settings.delimiter,
        header=header,
        null=settings.null,
        skip_lines=settings.skip_lines,
        ragged=settings.ragged,
        names=settings.names,
        max_record_bytes=settings.max_record_bytes,
        quarantine_raw_bytes=settings.quarantine_raw_bytes,
    )


def said_by(settings: SourceSettings) -> dict[str, Any]:
    """Return what a configured source says, to be compared with what was decided before."""
    values = settings.model_dump(mode="json")
    names = settings.model_fields_set - {"paths", "table"}
    return {name: values[name] for name in names if (name, values[name]) != ("format", "auto")}


def sqlite_files(url: str) -> tuple[str, ...]:
    """Return the database's own files, which are never collected."""
    if not url.startswith("sqlite:///"):
        return ()
    path = url.removeprefix("sqlite:///")
    return tuple(path + suffix for suffix in ("", "-wal", "-shm", "-journal"))


class Round:
    """One backfill call, from opening the database to closing it."""

    def __init__(self, url: str, call: BackfillCall, should_stop: Callable[[], bool]) -> None:
        self.url = url
        self.call = call
        self.should_stop = should_stop
        self.clock = SystemClock()
        worker = call.config.worker if call.config else WorkerSettings()
        self.settings = with_workers(worker, call.workers)
        self.host = this_host(self.settings.host)
        self.files = LocalFileSystem(follow_symlinks=call.base.follow_symlinks)

    def run(self, progress: Callable[[Summary, str], None]) -> Summary:
        """Carry the round out; `progress` is called as it goes, with what is being done."""
        failpoints.arm()
        scans = self._find()
        if self.call.dry_run and not self._exists():
            with tempfile.TemporaryDirectory() as nowhere:
                return self._on(f"sqlite:///{nowhere}/none.db", scans, progress)
        return self._on(self.url, scans, progress)

    def _exists(self) -> bool:
        files = sqlite_files(self.url)
        return not files or Path(files[0]).exists()

    def _on(self, url: str, scans: Any, progress: Callable[[Summary, str], None]) -> Summary:
        """Carry the round out on a database, which is only made once the call is known to be good."""
        engine = self._open(url) if self._exists() else None
        try:
            progress(Summary(), "looking at files")
            assigned = [(assigner.assign(scan.files), scan) for assigner, scan in self._assigners(engine, scans)]
            engine = engine or self._open(url)
            backfill = Backfill(engine, self.files, self.clock, self.host, self.settings)
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
        engine = open_engine(url, durability=self.settings.durability, create=True, checkpointer=True)
        upgrade(engine)
        return engine

    plans: dict[str, Plan]

    def _find(self) -> list[tuple[str | None, SourceSettings, Scan]]:
        self.plans = {}
        call = self.call
        never = frozenset(call.never)

        def scan(patterns: Sequence[str], base: str, settings: SourceSettings) -> Scan:
            return find(
                patterns,
                base=base,
                exclude=settings.exclude,
                never=never,
                follow_symlinks=settings.follow_symlinks,
            )

        if call.paths:
            found = scan(call.paths, str(call.cwd), call.base)
            if found.missing:
                raise UsageError("no such file or directory", path=found.missing[0])
            return self._by_config(found, scan)
        if call.config is None or not call.config.source:
            raise UsageError(
                "no PATH given and no config file with sources found",
                hint="filecollect backfill PATH..., or `filecollect init PATH...` for a config",
            )
        chosen = call.config.source
        if call.source is not None:
            if call.source not in chosen:
                raise UsageError(f"no source {call.source!r} in the config", hint=f"sources: {', '.join(chosen)}")
            chosen = {call.source: chosen[call.source]}
        return [(key, one, scan(one.paths, str(call.cwd), one)) for key, one in chosen.items()]

    def _by_config(self, found: Scan, scan: Callable[..., Scan]) -> list[tuple[str | None, SourceSettings, Scan]]:
        """Give files that a configured source matches to it; the others are named by the call or by family."""
        call = self.call
        configured = call.config.source if call.config else {}
        if call.source in configured:
            return [(call.source, configured[call.source], found)]
        if call.source is not None or call.table is not None:
            return [(call.source or call.table, call.base, found)]
        owner: dict[str, str] = {}
        for key, settings in configured.items():
            for one in scan(settings.paths, str(call.cwd), settings).files:
                owner.setdefault(one.path, key)
        rest = replace(found, files=[one for one in found.files if one.path not in owner])
        split: list[tuple[str | None, SourceSettings, Scan]] = [(None, call.base, rest)]
        for key, settings in configured.items():
            mine = [one for one in found.files if owner.get(one.path) == key]
            if mine:
                split.append((key, settings, Scan(files=mine)))
        return split

    def _assigners(self, engine: Engine | None, scans: Any) -> list[tuple[Assigner, Scan]]:
        call = self.call
        made = []
        configured = call.config.source if call.config else {}
        for key, settings, scan in scans:
            is_configured = key is not None and configured.get(key) is settings
            assigner = Assigner(
                engine,
                self.files,
                settings,
                wanted_of(settings),
                (said_by(settings) if is_configured else {}) | call.changes,
                source=key,
                table=call.table or (settings.table or key if is_configured else None),
                configured=is_configured,
            )
            made.append((assigner, scan))
        return made

    # -- working ---------------------------------------------------------------------------------

    def _job(self, backfill: Backfill, ids: Sequence[int]) -> Job:
        return Job(
            self.url,
            self.plans,
            self.settings,
            tuple(ids),
            self.call.base.follow_symlinks,
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
        checkpointer = open_engine(self.url, durability=self.settings.durability, checkpointer=True)

        def tick() -> None:
            _checkpoint(checkpointer)
            progress(backfill.summary, "loading")

        try:
            Pool(self._job(backfill, ids), workers).run(
                backfill.report,
                self.should_stop,
                tick,
            )
        finally:
            close(checkpointer, truncate=True)

    def _here(
        self, engine: Engine, backfill: Backfill, ids: Sequence[int], progress: Callable[[Summary, str], None]
    ) -> None:
        def report(news: TaskReport) -> None:
            backfill.report(news)
            progress(backfill.summary, "loading")

        work_here(self._job(backfill, ids), report, self.should_stop)


def _checkpoint(engine: Engine) -> None:
    with suppress(DatabaseUnavailable):
        checkpoint_wal(engine)


def assignment_only(call: BackfillCall, engine: Engine | None) -> tuple[Assignment, list[Found]]:
    """Return how files would be assigned, for `preview`; nothing is written."""
    files = LocalFileSystem(follow_symlinks=call.base.follow_symlinks)
    scan = find(call.paths, base=str(call.cwd), exclude=call.base.exclude, never=frozenset(call.never))
    if scan.missing:
        raise UsageError("no such file or directory", path=scan.missing[0])
    assigner = Assigner(
        engine,
        files,
        call.base,
        wanted_of(call.base),
        call.changes,
        source=call.source or call.table,
        table=call.table,
    )
    return assigner.assign(scan.files), scan.files
