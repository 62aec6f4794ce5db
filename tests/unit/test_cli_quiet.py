"""A reader that went away is no error: whatever is asked, the program ends quietly."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from filecollect.cli.main import GROUPS
from tests.program import REPOSITORY, Program

CALLS = [
    ["--help"],
    ["--version"],
    ["backfill", "nope.csv", "--json"],
    ["nope", "--json"],
    ["events", "--db", "o.db"],
    ["status", "--db", "o.db", "--json"],
    ["db", "ddl"],
    *([name, "--help"] for name in ("backfill", *GROUPS)),
]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a database in it."""
    program = Program(tmp_path_factory.mktemp("quiet"))
    program.write("a.csv", "a\n1\n")
    assert program("backfill", "a.csv", "--db", "o.db").code == 0
    return program.directory


@pytest.fixture
def nobody() -> Iterator[int]:
    """A pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def test_no_call_complains_of_a_reader_that_is_gone(directory: Path, nobody: int) -> None:
    """Exit 0, or that of the wrong call itself, and nothing on standard error."""
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    running = {
        " ".join(words): subprocess.Popen(
            [sys.executable, "-m", "filecollect", *words], cwd=directory, env=env, stdout=nobody, stderr=subprocess.PIPE
        )
        for words in CALLS
    }
    ended = {name: (one.communicate()[1], one.returncode) for name, one in running.items()}
    assert {name: end for name, end in ended.items() if end != (b"", 0)} == {}
