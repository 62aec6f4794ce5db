"""Open a database, and the two ways to use it: `transaction` writes, `reading` reads.

Invariants. A write transaction on SQLite takes the write lock at its beginning (BEGIN IMMEDIATE), so
it waits in one place and never fails half-way because somebody else wrote. A reading one is a
snapshot, cannot write, and takes no lock that a writer would wait for. Nothing here commits or
begins anywhere else. A read never changes the file: the switch to WAL happens at the first write.

Only one process at a time checkpoints the WAL (`checkpointer`, or `close(truncate=True)` at the
end), because SQLite before 3.51.3 can lose a page when several commit and checkpoint together.

Failure cases: what the database says is turned into our errors by `faults.database_error`. An engine
belongs to the process that opened it: after a fork the child opens its own, and using the parent's
is an InvariantError. Threads may share one; each transaction has its own connection.

What it does not do: retry, create tables, decide who owns what.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event, select
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError, TimeoutError
from sqlalchemy.pool import QueuePool

from filecollect.errors import FilecollectError, InvariantError, UsageError
from filecollect.store.faults import database_error as database_error
from filecollect.store.filesystems import network_file_system
from filecollect.store.types import DatabaseNow, to_json

Durability = Literal["relaxed", "full"]
OLDEST_SQLITE = (3, 35)
_READING = "filecollect_reading"
_POSTGRESQL = {"postgres", "postgresql", "postgresql+psycopg"}
_SQLITE = {"sqlite", "sqlite+pysqlite"}
_CACHE_KIB = 32 * 1024
_WAL_PAGES = 1000
_CLOSE_WAIT_MS = 1000
_CONNECT_TIMEOUT_S = 10
_KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3, "tcp_user_timeout": 60_000}
"""A server that vanishes without a word is noticed within a minute, not within hours."""


def database_url(text: str) -> URL:
    """Return the URL of a database written as a URL or as a bare path; raise UsageError for others.

    `postgres://` and `postgresql://` mean psycopg. A SQLite path becomes absolute.
    """
    if "://" not in text:
        url = URL.create("sqlite", database=text)
    else:
        try:
            url = make_url(text)
        except (ArgumentError, ValueError) as problem:
            # The text may hold a password, so it is not repeated.
            raise UsageError(
                "the database's URL cannot be read", hint="sqlite:///FILE or postgresql://..."
            ) from problem
    if url.drivername in _POSTGRESQL:
        return url.set(drivername="postgresql+psycopg")
    if url.drivername not in _SQLITE:
        raise UsageError(
            f"expected a database URL with sqlite or postgresql, got {url.drivername!r}",
            hint="sqlite:///FILE or postgresql://USER@HOST/DATABASE",
        )
    if url.host or url.query:
        raise UsageError(
            f"expected sqlite:///FILE, got {url.render_as_string()!r}", hint="an absolute path has four slashes"
        )
    if not url.database or url.database == ":memory:":
        raise UsageError("an in-memory database cannot keep checkpoints", hint="name a file: sqlite:///FILE")
    return URL.create("sqlite", database=str(Path(url.database).expanduser().absolute()))


def open_engine(
    url: str | URL,
    *,
    durability: Durability = "relaxed",
    create: bool = False,
    checkpointer: bool = False,
    schema: str | None = None,
    busy_timeout_s: float = 10.0,
) -> Engine:
    """Open a database that is there, or with `create` may be made at the first write.

    `schema` (PostgreSQL) is where all tables live that name no other one. `checkpointer` lets this process move the WAL
    into the file on its own. Raises UsageError where no database can be, DatabaseUnavailable where
    one is away.
    """
    place = url if isinstance(url, URL) else database_url(url)
    if place.get_backend_name() == "sqlite":
        if schema is not None:
            raise UsageError("a schema needs PostgreSQL; SQLite has one file instead")
        return _open_sqlite(Path(place.database or ""), durability, create, checkpointer, busy_timeout_s)
    return _open_postgresql(place, durability, schema)


@contextmanager
def transaction(engine: Engine) -> Iterator[Connection]:
    """Hold the one write transaction: commit at the end, roll back on any exception.

    Raises DatabaseUnavailable when the database is locked, full or away; also at COMMIT, and then
    its outcome is unknown.
    """
    with _translated(), engine.begin() as conn:
        yield conn


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """Hold a snapshot that cannot write and that no writer waits for."""
    with _translated(), engine.connect() as conn:
        if conn.dialect.name == "sqlite":
            conn.execution_options(**{_READING: True})
        else:
            conn.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with conn.begin():
            yield conn


def close(engine: Engine, *, truncate: bool) -> None:
    """Close all connections; `truncate` first moves the whole WAL into the file, so that one file is left.

    Other processes that still have the database open keep its companions; nothing is lost by that.
    """
    path = engine.url.database
    try:
        if truncate and engine.dialect.name == "sqlite" and path and os.path.exists(path):
            checkpoint_wal(engine, truncate=True)
    finally:
        engine.dispose()


def checkpoint_wal(engine: Engine, *, truncate: bool = False) -> bool:
    """Move the WAL into the file; return whether all of it could be moved. For one process only.

    With `truncate` readers are waited for at most a second and the WAL file is emptied.
    """
    if engine.dialect.name != "sqlite":
        return True
    with _translated():
        raw = engine.raw_connection()
        try:
            driver: Any = raw.driver_connection
            before = driver.execute("PRAGMA busy_timeout").fetchone()[0]
            driver.execute(f"PRAGMA busy_timeout={min(before, _CLOSE_WAIT_MS)}")
            try:
                mode = "TRUNCATE" if truncate else "PASSIVE"
                busy, in_wal, moved = driver.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
            finally:
                driver.execute(f"PRAGMA busy_timeout={before}")
        finally:
            raw.close()
    return bool(busy == 0 and in_wal == moved)


def db_now(conn: Connection) -> datetime:
    """Return the database's clock, in UTC."""
    now = conn.scalar(select(DatabaseNow()))
    assert isinstance(now, datetime)
    return now


def schema_of(source: Connection | Engine) -> str | None:
    """Return the schema in which our tables live, or None for the default one."""
    schema: str | None = source.get_execution_options().get("schema_translate_map", {}).get(None)
    return schema


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (DBAPIError, TimeoutError, sqlite3.Error) as problem:
        error = database_error(problem)
        if error is None:
            raise
        raise error from problem


def _open_sqlite(path: Path, durability: Durability, create: bool, checkpointer: bool, busy_timeout_s: float) -> Engine:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise UsageError(f"SQLite {sqlite3.sqlite_version} is too old, filecollect needs {oldest} or newer")
    _check_place(path, create)
    pragmas = (
        f"synchronous={'FULL' if durability == 'full' else 'NORMAL'}",
        "foreign_keys=0",
        f"cache_size=-{_CACHE_KIB}",
        # A read error in mapped memory would kill the process instead of raising.
        "mmap_size=0",
        f"wal_autocheckpoint={_WAL_PAGES if checkpointer else 0}",
    )
    uri = f"file:{quote(os.fsencode(path))}?mode={'rwc' if create else 'rw'}"

    def connect() -> sqlite3.Connection:
        # isolation_level=None: the driver never begins by itself, the `begin` event does.
        connection = sqlite3.connect(
            uri, uri=True, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")
        return connection

    engine = create_engine(
        URL.create("sqlite", database=str(path)),
        creator=connect,
        poolclass=QueuePool,
        pool_size=4,
        max_overflow=4,
        hide_parameters=True,
        json_serializer=to_json,
    )
    opened_by = os.getpid()

    @event.listens_for(engine, "begin")
    def begin(conn: Connection) -> None:
        if os.getpid() != opened_by:
            raise InvariantError("a database opened before a fork is used after it")
        if conn.get_execution_options().get(_READING):
            _set_query_only(conn, True)
            conn.exec_driver_sql("BEGIN")
            return
        _set_query_only(conn, False)
        _ensure_wal(conn, busy_timeout_s)
        conn.exec_driver_sql("BEGIN IMMEDIATE")

    if path.exists():
        _probe(engine, str(path))
    return engine


def _check_place(path: Path, create: bool) -> None:
    """Raise UsageError unless a SQLite database is at `path` or, with `create`, can be made there.

    The file itself is not opened: closing it again would drop the locks that SQLite holds on it in
    this process.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        if not create:
            raise UsageError(
                "there is no such database", path=str(path), hint="`filecollect backfill` makes one"
            ) from None
        if not path.parent.is_dir():
            raise UsageError("the database's directory does not exist", path=str(path)) from None
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise UsageError("the database's directory cannot be written to", path=str(path)) from None
    except OSError as problem:
        raise UsageError(f"the database cannot be opened: {problem.strerror}", path=str(path)) from problem
    else:
        if stat.S_ISDIR(mode):
            raise UsageError("expected a database file, got a directory", path=str(path))
        if not stat.S_ISREG(mode):
            raise UsageError("expected a database file, got a device, pipe or socket", path=str(path))
        if not os.access(path, os.R_OK):
            raise UsageError("no permission to read the database", path=str(path))
    kind = network_file_system(path)
    if kind is not None:
        raise UsageError(
            f"the database lies on a network file system ({kind}), where SQLite's locks are not safe",
            path=str(path),
            hint="put it on a local disk, or use PostgreSQL",
        )


def _probe(engine: Engine, path: str) -> None:
    try:
        with reading(engine) as conn:
            conn.exec_driver_sql("SELECT count(*) FROM sqlite_master")
    except BaseException as problem:
        engine.dispose()
        if isinstance(problem, FilecollectError):
            problem.path = path
        raise


def _set_query_only(conn: Connection, wanted: bool) -> None:
    info = conn.connection.info
    if info.get("query_only", False) != wanted:
        conn.exec_driver_sql(f"PRAGMA query_only={int(wanted)}")
        info["query_only"] = wanted


def _ensure_wal(conn: Connection, timeout_s: float) -> None:
    info = conn.connection.info
    if info.get("wal"):
        return
    deadline = time.monotonic() + timeout_s
    while True:
        # The switch needs the file alone and does not wait for it by busy_timeout.
        try:
            mode = conn.exec_driver_sql("PRAGMA journal_mode=WAL").scalar()
        except DBAPIError as problem:
            busy = getattr(problem.orig, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
            if not busy or time.monotonic() >= deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise UsageError(f"SQLite cannot use a write-ahead log here (it stays in mode {mode!r})")
        info["wal"] = True
        return


def _open_postgresql(url: URL, durability: Durability, schema: str | None) -> Engine:
    defaults: dict[str, Any] = {"fallback_application_name": "filecollect"}
    defaults |= {name: value for name, value in _KEEPALIVES.items() if name not in url.query}
    if "connect_timeout" not in url.query and "PGCONNECT_TIMEOUT" not in os.environ:
        defaults["connect_timeout"] = _CONNECT_TIMEOUT_S
    try:
        engine = create_engine(
            url,
            pool_size=4,
            max_overflow=4,
            pool_pre_ping=True,
            hide_parameters=True,
            json_serializer=to_json,
            connect_args=defaults,
        )
    except ModuleNotFoundError as problem:
        raise UsageError(
            "the driver for PostgreSQL is not installed", hint="pip install 'filecollect[postgres]'"
        ) from problem
    except SQLAlchemyError as problem:
        raise UsageError("the database's URL cannot be used", hint="postgresql://USER@HOST/DATABASE") from problem
    opened_by = os.getpid()

    @event.listens_for(engine, "connect", insert=True)
    def prepare(connection: Any, _record: object) -> None:
        # In a transaction these settings would be undone by the pool's rollback.
        before, connection.autocommit = connection.autocommit, True
        connection.execute("SET TIME ZONE 'UTC'")
        if schema is not None:
            # Alone, so that a table of the same name elsewhere is never taken for ours.
            connection.execute("SELECT set_config('search_path', %s, false)", ('"' + schema.replace('"', '""') + '"',))
        if durability == "full":
            connection.execute("SET synchronous_commit = on")
        connection.autocommit = before

    @event.listens_for(engine, "begin")
    def begin(_conn: Connection) -> None:
        if os.getpid() != opened_by:
            raise InvariantError("a database opened before a fork is used after it")

    if schema is not None:
        engine = engine.execution_options(schema_translate_map={None: schema})
    try:
        with _translated(), engine.connect():
            pass
    except BaseException:
        engine.dispose()
        raise
    return engine
