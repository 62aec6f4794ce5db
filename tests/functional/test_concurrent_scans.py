"""Scanners and workers at the same moment: one task a file, every row once."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from filecollect.clock import SystemClock
from filecollect.config import SourceSettings
from filecollect.domain.columns import Column
from filecollect.files.filesystem import LocalFileSystem
from filecollect.files.paths import stored_path
from filecollect.host import this_host
from filecollect.parse.spec import Spec
from filecollect.pipeline.discover import Discoverer
from filecollect.pipeline.plan import new_plan, to_stored
from filecollect.store.engine import close, open_engine, transaction
from filecollect.store.migrate import upgrade
from filecollect.store.sources import add_source
from tests.program import Program, aged


def test_two_scanners_at_the_same_moment_make_one_task_a_file_200_times(tmp_path: Path) -> None:
    """Discovery under the source's lock: whoever is second finds the first one's task."""
    program = Program(tmp_path)
    files = LocalFileSystem()
    engine = open_engine(str(tmp_path / "o.db"), create=True, checkpointer=True)
    upgrade(engine)
    settings = SourceSettings.model_validate({"paths": ["*.csv"], "follow": False})
    spec = Spec("csv", delimiter=",", header=True)
    plan = new_plan("orders", "orders", settings, spec, (Column("id", "id", "integer"),), inferred=True)
    with transaction(engine) as conn:
        plan.destination.create(conn)
        add_source(conn, to_stored(plan, "orders"))
    problems: list[BaseException] = []

    def scan(start: threading.Barrier, found: str) -> None:
        try:
            start.wait(timeout=30)
            Discoverer(engine, files, SystemClock(), this_host(), plan).discover(
                [(stored_path(found), files.stat(found))]
            )
        except BaseException as problem:
            problems.append(problem)

    for number in range(200):
        path = aged(program.write(f"orders-{number}.csv", f"id\n{number}\n" + f"{number * 7}\n" * 40))
        start = threading.Barrier(2)
        threads = [threading.Thread(target=scan, args=(start, str(path))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    close(engine, truncate=True)

    assert problems == []
    assert program.sql("o.db", "SELECT count(*), count(DISTINCT path) FROM collection_task") == [(200, 200)]


def test_two_first_backfills_at_the_same_moment_load_every_row_once(tmp_path: Path) -> None:
    """Two commands over one directory make one source, and share the work or wait for each other, ten times."""
    for turn in range(10):
        program = Program(tmp_path / str(turn))
        for number in range(20):
            rows = "".join(f"{number * 1000 + n},name\n" for n in range(500))
            aged(program.write(f"drop/orders-{number}.csv", "id,name\n" + rows))
        command = [sys.executable, "-m", "filecollect", "backfill", "drop", "--db", "o.db", "--batch-rows", "100"]

        both = [
            subprocess.Popen(
                command,
                cwd=program.directory,
                env=program.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            for _ in range(2)
        ]
        said = [process.communicate(timeout=90)[0].decode() for process in both]

        assert [process.returncode for process in both] == [0, 0], said
        program("status", "--db", "o.db")
        assert program.sql("o.db", "SELECT count(*), count(DISTINCT id) FROM orders") == [(10_000, 10_000)]
        assert program.sql("o.db", "SELECT count(*) FROM collection_task") == [(20,)]
