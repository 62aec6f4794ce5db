"""Run the program as a user does, in a process of its own, and look at the database afterwards."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.invariants import check, offsets

REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Return the document on standard output."""
        return json.loads(self.out)


class Program:
    """The program in one working directory; every database it wrote is checked.

    `database` is what `--db` says where a test does not care: a file, or the URL of a PostgreSQL
    database, in which `schema` holds our tables.
    """

    def __init__(self, directory: Path, database: str = "o.db", schema: str | None = None) -> None:
        self.directory = directory
        self.database = database
        self.schema = schema

    def __call__(self, *words: str, failpoints: str | None = None, env: dict[str, str] | None = None) -> Ended:
        """Run one command to its end, then check the invariants of every database in the directory."""
        before = self.offsets()
        ended = self.run(*words, failpoints=failpoints, env=env)
        self.check(before)
        return ended

    def offsets(self) -> dict[Path | str, dict[int, int]]:
        """Return every task's position in every database, for a later `check`."""
        return {place: offsets(place, self.schema) for place in self.databases()}

    def check(self, before: dict[Path | str, dict[int, int]] | None = None) -> None:
        """Check the invariants of every database."""
        for place in self.databases():
            check(place, before=(before or {}).get(place), schema=self.schema)

    @property
    def is_served(self) -> bool:
        """Return whether the database is one of a server."""
        return "://" in self.database

    def run(
        self, *words: str, failpoints: str | None = None, env: dict[str, str] | None = None, powerless: bool = False
    ) -> Ended:
        """Run one command to its end; `powerless` means that root, too, is refused what permissions refuse."""
        drop = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if powerless and not os.geteuid() else []
        done = subprocess.run(
            [*drop, sys.executable, "-m", "filecollect", *words],
            cwd=self.directory,
            env=self.environment(failpoints) | (env or {}),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        code = 128 - done.returncode if done.returncode < 0 else done.returncode
        return Ended(code, done.stdout, done.stderr)

    def start(self, *words: str, failpoints: str | None = None) -> subprocess.Popen[bytes]:
        """Start one command as a terminal does, in a process group of its own; its output goes to a file."""
        with (self.directory / "started.txt").open("wb") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "filecollect", *words],
                cwd=self.directory,
                env=self.environment(failpoints),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def environment(self, failpoints: str | None = None) -> dict[str, str]:
        """Return an environment without the caller's own settings."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("FILECOLLECT_")}
        env["PYTHONPATH"] = str(REPOSITORY)
        if failpoints is not None:
            env["FILECOLLECT_FAILPOINTS"] = failpoints
        return env

    def databases(self) -> list[Path | str]:
        """Return the SQLite databases in the directory that have our tables, and the server's."""
        found: list[Path | str] = [self.database] if self.is_served else []
        for path in sorted(self.directory.glob("*.db")):
            with closing(sqlite3.connect(path)) as conn:
                if conn.execute("SELECT 1 FROM sqlite_master WHERE name = 'collection_task'").fetchone():
                    found.append(path)
        return found

    def sql(self, database: str, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with closing(sqlite3.connect(self.directory / database)) as conn, conn:
            return conn.execute(query).fetchall()

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query in `database`."""
        if not self.is_served:
            return self.sql(self.database, query)
        with psycopg.connect(self.database, autocommit=True) as conn:
            if self.schema is not None:
                conn.execute(f'SET search_path = "{self.schema}"')
            cursor = conn.execute(query)
            return cursor.fetchall() if cursor.description else []

    def write(self, name: str, text: str | bytes) -> Path:
        """Write a file, whose directory is made, and return its path."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path


def aged(path: Path, seconds: float = 60) -> Path:
    """Make a file look as if it had not been written for some time."""
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns - int(seconds * 1e9)))
    return path
