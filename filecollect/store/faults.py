"""What a database's error means for the caller: try again, change the call, or neither.

    busy, locked, disk full, I/O, connection lost, deadlock, restart -> DatabaseUnavailable
    read-only, no permission, wrong password, not a database         -> UsageError
    damaged file                                                     -> FilecollectError
    anything else (constraints, bad values, bugs)                    -> not ours to translate

Messages hold the driver's own sentence and never a URL, SQL text or bound values.
"""

from __future__ import annotations

import re
import sqlite3

from sqlalchemy.exc import DBAPIError, TimeoutError

from filecollect.errors import DatabaseUnavailable, FilecollectError, UsageError

_REFUSED = re.compile(
    r"(database|role) \"[^\"]*\" does not exist|authentication failed|no pg_hba\.conf entry|no password supplied"
)
_UNAVAILABLE_CLASSES = ("08", "53", "58")
"""SQLSTATE classes: connection, resources (disk full), operating system."""
_UNAVAILABLE_STATES = frozenset(
    {
        "40001",  # serialization failure
        "40003",  # outcome of a statement unknown
        "40P01",  # deadlock
        "55P03",  # lock_timeout
        "57014",  # statement_timeout
        "25006",  # the server has become a standby
        "25P03",  # idle_in_transaction_session_timeout
        "25P04",  # transaction_timeout
        "57P01",  # shutdown by the administrator
        "57P02",  # another backend crashed
        "57P03",  # starting up
        "57P05",  # idle_session_timeout
    }
)
_MESSAGE_LIMIT = 500
_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_AWAY = {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_INTERRUPT,
}


def database_error(problem: BaseException) -> FilecollectError | None:
    """Return our error for a driver's or SQLAlchemy's error, or None where it is none of ours."""
    if isinstance(problem, TimeoutError):
        return DatabaseUnavailable("no connection to the database became free in time")
    lost = False
    if isinstance(problem, DBAPIError):
        lost = problem.connection_invalidated
        if problem.orig is None:
            return None
        problem = problem.orig
    if isinstance(problem, sqlite3.Error):
        return _sqlite_error(problem)
    if type(problem).__module__.partition(".")[0] == "psycopg":
        return _postgresql_error(problem, lost)
    return None


def _sqlite_error(problem: sqlite3.Error) -> FilecollectError | None:
    extended = getattr(problem, "sqlite_errorcode", 0)
    code = extended & 0xFF
    if code in _BUSY:
        return DatabaseUnavailable(
            f"the database is busy: {problem}", hint="another process holds its write lock; is a transaction left open?"
        )
    if code in _AWAY or extended == sqlite3.SQLITE_READONLY_DBMOVED:
        hint = "free some space on its disk" if code == sqlite3.SQLITE_FULL else None
        return DatabaseUnavailable(f"the database cannot be read or written: {problem}", hint=hint)
    if code in {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM}:
        return UsageError(
            f"the database cannot be written: {problem}", hint="filecollect must own the file and its directory"
        )
    if code == sqlite3.SQLITE_NOTADB:
        return UsageError("the file is not a SQLite database")
    if code == sqlite3.SQLITE_CORRUPT:
        return FilecollectError(
            f"the database is damaged: {problem}", hint="restore a backup, or save what is left: sqlite3 FILE .recover"
        )
    return None


def _postgresql_error(problem: BaseException, lost: bool) -> FilecollectError | None:
    state: str | None = getattr(problem, "sqlstate", None)
    # A server's full text quotes the statement; its primary message does not.
    primary: str | None = getattr(getattr(problem, "diag", None), "message_primary", None)
    sentence = (primary or " ".join(str(problem).split()) or type(problem).__name__)[:_MESSAGE_LIMIT]
    if state == "42501":
        return UsageError(f"the database does not permit it: {sentence}")
    # A failed connection attempt carries no SQLSTATE: only its text tells a wrong name from a server that is away.
    if state is None and _REFUSED.search(sentence):
        return UsageError(f"the database refuses the connection: {sentence}")
    unavailable = state is not None and (state[:2] in _UNAVAILABLE_CLASSES or state in _UNAVAILABLE_STATES)
    if lost or unavailable or (state is None and type(problem).__name__ in {"OperationalError", "ConnectionTimeout"}):
        return DatabaseUnavailable(f"the database is not available: {sentence}")
    return None
