"""Run the daemon as a user does, wait on conditions, stop or kill it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.invariants import check
from tests.program import REPOSITORY

PATIENCE_S = 60.0

FAST = """
[worker]
workers = {workers}
rescan_s = 0.5
idle_release_s = {idle_release_s}
lease_s = 20
heartbeat_s = 5
"""


def wait_until(true: Callable[[], Any], *, what: str = "the condition", patience_s: float = PATIENCE_S) -> Any:
    """Wait until something is true and return it; fail after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while True:
        found = true()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what} did not come within {patience_s} s"
        time.sleep(0.02)


class Daemon:
    """`filecollect run` in one directory; the process is always ended by its own id."""

    def __init__(self, directory: Path, *words: str, workers: int = 1, idle_release_s: float = 30) -> None:
        self.directory = directory
        self.words = words
        self.workers = workers
        self.idle_release_s = idle_release_s
        self.process: subprocess.Popen[bytes] | None = None
        self.log = directory / "daemon.stderr"
        self.temporary = tempfile.TemporaryDirectory(prefix="fc")

    def config(self, text: str) -> Path:
        """Write a config with quick timings and return its path."""
        path = self.directory / "filecollect.toml"
        head = 'database = "o.db"\n' + FAST.format(workers=self.workers, idle_release_s=self.idle_release_s)
        path.write_text(head + text)
        return path

    def start(self, *, failpoints: str | None = None) -> None:
        """Start it."""
        assert self.process is None
        env = {name: value for name, value in os.environ.items() if not name.startswith("FILECOLLECT_")}
        env["PYTHONPATH"] = str(REPOSITORY)
        # A killed process cannot remove its temporary directory. Short, for the sockets in it.
        env["TMPDIR"] = self.temporary.name
        if failpoints is not None:
            env["FILECOLLECT_FAILPOINTS"] = failpoints
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "filecollect", "run", *self.words],
                cwd=self.directory,
                env=env,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def signal(self, number: int) -> int:
        """Send a signal and return the exit code, negative for a signal's death."""
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        self.process = None
        return code

    def stop(self) -> None:
        """Stop it as systemd does; it must end with 0 and a true database."""
        code = self.signal(signal.SIGTERM)
        assert code == 0, self.said()
        assert "Traceback" not in self.said()
        self.check()

    def kill(self) -> None:
        """Kill it and all its workers, as a machine that loses power would."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        self.process = None

    def end(self) -> None:
        """Leave nothing behind."""
        if self.process is not None:
            self.kill()
        self.temporary.cleanup()

    def said(self) -> str:
        """Return what it has said so far."""
        return self.log.read_text() if self.log.exists() else ""

    def check(self) -> None:
        """Check the invariants."""
        check(self.directory / "o.db")

    def sql(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query; none while there is no such table yet."""
        try:
            with closing(sqlite3.connect(f"file:{self.directory / 'o.db'}?mode=ro", uri=True, timeout=30)) as conn:
                return conn.execute(query).fetchall()
        except sqlite3.OperationalError as problem:
            if "no such table" in str(problem) or "unable to open" in str(problem):
                return []
            raise

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        rows = self.sql(f"SELECT count(*) FROM {table}")
        return int(rows[0][0]) if rows else 0

    def wait_for(self, table: str, count: int) -> None:
        """Wait until a table has so many rows."""
        wait_until(lambda: self.count(table) >= count, what=f"{count} rows in {table} (it has {self.count(table)})")
        assert self.count(table) == count, f"{self.count(table)} rows instead of {count}"

    def kinds(self) -> list[str]:
        """Return the kinds of events so far."""
        return [row[0] for row in self.sql("SELECT kind FROM file_event ORDER BY id")]


@contextmanager
def daemon(directory: Path, *words: str, workers: int = 1, idle_release_s: float = 30) -> Iterator[Daemon]:
    """Hold a daemon that is ended whatever happens."""
    one = Daemon(directory, *words, workers=workers, idle_release_s=idle_release_s)
    try:
        yield one
    finally:
        one.end()
