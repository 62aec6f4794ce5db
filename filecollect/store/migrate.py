"""Bring a database to the schema of this program, once, whoever comes first.

Invariant: after `upgrade` the tables equal `schema.metadata`, and the version row says so. It is one
transaction under a lock (BEGIN IMMEDIATE, or an advisory lock on PostgreSQL), so of two processes
one works and the other finds it done; a crash leaves nothing behind.

A new database is made from the metadata and stamped; only an old one needs Alembic, which is
imported then and not before. Refused, with nothing touched: a table with one of our names that we
did not make, and a database that a newer program has migrated.

Adding a migration: a file in `migrations/versions` which repeats its types instead of importing
`schema`, its id at the end of `REVISIONS`, and `sql/` rendered again.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, select
from sqlalchemy.schema import CreateSchema

from filecollect.errors import UsageError
from filecollect.store.database import database_of
from filecollect.store.engine import reading, schema_of, transaction
from filecollect.store.schema import OUR_TABLES, VERSION_TABLE, filecollect_version, metadata

REVISIONS = ("0001", "0002")
"""All migrations, oldest first."""
HEAD = REVISIONS[-1]
MIGRATIONS = Path(__file__).parent / "migrations"


def current(engine: Engine) -> str | None:
    """Return the database's version, or None where our tables are not."""
    with reading(engine) as conn:
        return _version(conn)


def is_current(engine: Engine) -> bool:
    """Return whether the database has exactly the schema of this program."""
    return current(engine) == HEAD


def upgrade(engine: Engine) -> None:
    """Create or upgrade our tables; several processes may do so at once.

    Raises UsageError for a foreign table with one of our names and for a database that is newer than
    this program, DatabaseUnavailable when the lock cannot be had in time.
    """
    version = current(engine)
    if version == HEAD:
        return
    _refuse_newer(version)
    with transaction(engine) as conn:
        database_of(conn).lock_ddl(conn)
        version = _version(conn)
        if version == HEAD:
            return
        _refuse_newer(version)
        if version is None:
            _create(conn)
        else:
            run_migrations(conn)


def run_migrations(conn: Connection, target: str = "head") -> None:
    """Run Alembic's migrations up to `target` inside the caller's transaction."""
    from alembic import command  # importing alembic costs more than most commands take
    from alembic.config import Config

    config = Config()
    # Alembic's options go through ConfigParser, to which a percent sign is special.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = conn
    config.attributes["schema"] = schema_of(conn)
    command.upgrade(config, target)


def _version(conn: Connection) -> str | None:
    if not inspect(conn).has_table(VERSION_TABLE, schema=schema_of(conn)):
        return None
    version: str | None = conn.scalar(select(filecollect_version.c.version_num))
    return version


def _create(conn: Connection) -> None:
    schema = schema_of(conn)
    inspector = inspect(conn)
    if schema is not None and not inspector.has_schema(schema):
        conn.execute(CreateSchema(schema))
    taken = [name for name in (VERSION_TABLE, *OUR_TABLES) if inspector.has_table(name, schema=schema)]
    if taken:
        raise UsageError(
            f"the database already has a table {taken[0]!r} that filecollect did not make",
            hint="use another database, or rename that table; on PostgreSQL another schema will do",
        )
    metadata.create_all(conn, checkfirst=False)
    conn.execute(filecollect_version.insert().values(version_num=HEAD))


def _refuse_newer(version: str | None) -> None:
    if version is not None and version not in REVISIONS:
        raise UsageError(
            f"the database has schema version {version}, this filecollect knows versions up to {HEAD}",
            hint="use the newer filecollect that upgraded it",
        )
