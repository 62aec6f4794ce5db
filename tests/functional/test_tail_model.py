"""Model-based: any order of writing, rotating, copying, stopping, killing and waiting, against what was written.

The model is a list of lines and, for each file name, which of them it holds. Only a truncation may lose
lines, and only those that stood in no other file and had not been collected before it.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.tailing import HandClock, Tail

SOURCE = """
[worker]
workers = 1
idle_release_s = 4
rescan_s = 2
[source.app]
paths = ["logs/app.log*"]
format = "lines"
settle_s = 1
"""


class Log(RuleBasedStateMachine):
    """A log with its rotations, and a daemon that comes and goes."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="fcmodel"))
        self.logs = self.directory / "logs"
        self.logs.mkdir()
        self.live = self.logs / "app.log"
        self.live.touch()
        self.clock = HandClock()
        self.tail: Tail | None = None
        self.written: list[str] = []
        self.half = ""
        self.may_be_lost: set[str] = set()

    # -- the writer ------------------------------------------------------------------------------

    def _append(self, text: str) -> None:
        with self.live.open("a") as file:
            file.write(text)
        if self.tail is not None:
            self.tail.watch.changed.add(str(self.live))

    @rule(count=st.integers(1, 30))
    def write(self, count: int) -> None:
        """Write whole lines; the first one ends a half line."""
        text = self.half and "rest\n"
        if self.half:
            self.written.append(self.half + "rest")
            self.half = ""
        for _ in range(count):
            line = f"line {len(self.written):06d} with some words after it"
            self.written.append(line)
            text += line + "\n"
        self._append(text)

    @precondition(lambda self: not self.half)
    @rule()
    def write_half(self) -> None:
        """Write a line without its end."""
        self.half = f"half {len(self.written):06d} of a line, "
        self._append(self.half)

    # -- rotation --------------------------------------------------------------------------------

    def _shift(self) -> None:
        rotated = sorted((int(path.name.split(".")[2]), path) for path in self.logs.glob("app.log.*"))
        for number, path in reversed(rotated):
            path.rename(self.logs / path.name.replace(f".{number}", f".{number + 1}", 1))
        if self.tail is not None:
            self.tail.watch.structure = True

    @precondition(lambda self: self.live.stat().st_size > 0 and not self.half)
    @rule()
    def rotate_by_rename(self) -> None:
        """Rename and create."""
        self._shift()
        self.live.rename(self.logs / "app.log.1")
        self.live.touch()

    @precondition(lambda self: self.live.stat().st_size > 0 and not self.half)
    @rule()
    def rotate_by_copy(self) -> None:
        """Copy and truncate."""
        self._shift()
        shutil.copyfile(self.live, self.logs / "app.log.1")
        os.truncate(self.live, 0)

    @precondition(lambda self: (self.logs / "app.log.1").exists())
    @rule(keep=st.booleans())
    def compress(self, keep: bool) -> None:
        """Compress the newest rotated file; the plain one may stay for a moment."""
        plain = self.logs / "app.log.1"
        (self.logs / "app.log.1.gz").write_bytes(gzip.compress(plain.read_bytes()))
        shutil.copystat(plain, self.logs / "app.log.1.gz")
        if keep and self.tail is not None:
            self.tail.watch.structure = True
            self.tail.step()
        plain.unlink()
        if self.tail is not None:
            self.tail.watch.structure = True

    @precondition(lambda self: self.live.stat().st_size > 0)
    @rule()
    def truncate(self) -> None:
        """Destroy what is there: what was not collected yet may be lost."""
        self.may_be_lost |= set(self.live.read_text().splitlines())
        self.half = ""
        os.truncate(self.live, 0)
        if self.tail is not None:
            self.tail.watch.changed.add(str(self.live))

    # -- the daemon ------------------------------------------------------------------------------

    @precondition(lambda self: self.tail is None)
    @rule()
    def start(self) -> None:
        """Start the daemon, and let it look around."""
        self.tail = Tail(self.directory, SOURCE, clock=self.clock)
        self.tail.step()

    @precondition(lambda self: self.tail is not None)
    @rule(steps=st.integers(1, 20), seconds=st.sampled_from([0.05, 0.5, 2.0]))
    def run(self, steps: int, seconds: float) -> None:
        """Let it work."""
        assert self.tail is not None
        for _ in range(steps):
            self.tail.step(seconds)

    @precondition(lambda self: self.tail is not None)
    @rule()
    def stop(self) -> None:
        """Stop it in order."""
        assert self.tail is not None
        self.tail.end()
        self.tail = None

    @precondition(lambda self: self.tail is not None)
    @rule()
    def kill(self) -> None:
        """Throw it away as it is."""
        assert self.tail is not None
        self.tail.die()
        self.tail = None

    # -- what must hold --------------------------------------------------------------------------

    @invariant()
    def no_line_is_there_twice(self) -> None:
        """Rows are written lines, each once."""
        if self.tail is None:
            return
        rows = self._rows(self.tail)
        assert len(rows) == len(set(rows))
        assert set(rows) <= set(self.written)

    def _rows(self, tail: Tail) -> list[str]:
        return [row[0] for row in tail.sql("SELECT line FROM app")] if tail.count("app") else []

    def teardown(self) -> None:
        """In the end every line is collected, save those that a truncation destroyed."""
        try:
            if self.tail is None:
                self.start()
            tail = self.tail
            assert tail is not None
            wanted = set(self.written) - self.may_be_lost
            tail.until(lambda: wanted <= set(self._rows(tail)), steps=200, seconds=1)
            self.no_line_is_there_twice()
            self.stop()
        finally:
            if self.tail is not None:
                self.tail.die()
            shutil.rmtree(self.directory, ignore_errors=True)


TestLog = Log.TestCase
TestLog.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True
)
