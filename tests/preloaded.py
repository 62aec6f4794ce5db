"""Run the program many times without its imports: each run is a fresh fork of a server that has them.

For sweeps of runs that are killed; a run is the command itself, in a process of its own.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import sys
from dataclasses import dataclass
from pathlib import Path

PRELOADED = ["filecollect.app", "filecollect.cli.main", "filecollect.cli.backfill", "tests.preloaded"]
PATIENCE_S = 100.0


@dataclass(frozen=True)
class Run:
    """One call of the program."""

    directory: Path
    words: tuple[str, ...]
    failpoints: str = ""


def _child(run: Run) -> None:
    from filecollect.cli.main import main

    os.chdir(run.directory)
    for name in [name for name in os.environ if name.startswith("FILECOLLECT_")]:
        del os.environ[name]
    if run.failpoints:
        os.environ["FILECOLLECT_FAILPOINTS"] = run.failpoints
    with (run.directory / "said.txt").open("a", encoding="utf-8") as said:
        sys.argv = ["filecollect", *run.words]
        sys.stdout = sys.stderr = io.TextIOWrapper(said.buffer, encoding="utf-8", write_through=True)
        main()


def run(directory: Path, *words: str, failpoints: str = "") -> int:
    """Run the program to its end and return its exit code, 137 when it was killed."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_child, args=(Run(directory, words, failpoints),))
    process.start()
    process.join(PATIENCE_S)
    code = process.exitcode
    if code is None:
        process.kill()
        raise AssertionError(f"{words} did not end")
    return 128 - code if code < 0 else code
