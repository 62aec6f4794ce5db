"""How fast is a backfill beside `sqlite3 .import`? `make bench`, or `python -m tests.bench --rows N`.

Ratios of one run on one machine: everything is measured in turn, several times, and the best of each
counts. Seconds are processor time of the process, so that other work on the machine matters less; both
sides write to a new database on the same disk. `.import` is measured bare (the ten columns and no index)
and with what exactly-once needs (`_task_id`, `_offset`, UNIQUE over both, `_extra`).
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

COLUMNS = "id integer, customer text, amount real, quantity integer, city text, placed_at text, paid integer"
COLUMNS += ", note text, zip text, score real"
KEYED = COLUMNS + ", _task_id integer not null, _offset integer not null, _extra text, unique (_task_id, _offset)"
CITIES = ("Berlin", "München", "Paris", "New York", "Łódź", "São Paulo")


def rows(count: int) -> list[dict[str, object]]:
    """Return records of ten columns: numbers, text with commas and quotes, times, NULLs."""
    dice = random.Random(7)
    return [
        {
            "id": n,
            "customer": f"customer {dice.randrange(50_000)}",
            "amount": dice.randrange(1, 1_000_000) / 100,
            "quantity": dice.randrange(1, 100),
            "city": dice.choice(CITIES),
            "placed_at": f"2026-{n % 12 + 1:02}-{n % 28 + 1:02}T{n % 24:02}:{n % 60:02}:07Z",
            "paid": n % 3 == 0,
            "note": None if n % 5 else f'said "{n}", and left',
            "zip": f"{n % 100_000:05}",
            "score": dice.randrange(10_000) / 1000,
        }
        for n in range(count)
    ]


def write(directory: Path, count: int) -> None:
    """Write the same records as JSONL, as CSV, and as CSV with the columns that exactly-once adds."""
    records = rows(count)
    position = 0
    with (
        (directory / "rows.jsonl").open("w", encoding="utf-8") as lines,
        (directory / "rows.csv").open("w", encoding="utf-8", newline="") as plain,
        (directory / "keyed.csv").open("w", encoding="utf-8", newline="") as keyed,
    ):
        tables = [csv.writer(plain, lineterminator="\n"), csv.writer(keyed, lineterminator="\n")]
        tables[0].writerow(records[0])
        for record in records:
            line = json.dumps(record, ensure_ascii=False) + "\n"
            lines.write(line)
            values = [str(one).lower() if isinstance(one, bool) else one for one in record.values()]
            tables[0].writerow(values)
            tables[1].writerow([*values, 1, position, None])
            position += len(line.encode())


def cpu_s(words: Sequence[str], directory: Path) -> float:
    """Run a command to its end and return the processor seconds that it used."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=directory, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def imported(directory: Path, table: str, file: str, skip: int, count: int) -> float:
    """Measure `.import` into a table that is there."""
    database = directory / "import.db"
    database.unlink(missing_ok=True)
    with closing(sqlite3.connect(database)) as conn:
        conn.execute(f"CREATE TABLE t ({table})")
    used = cpu_s(["sqlite3", "import.db", f".import --csv --skip {skip} {file} t"], directory)
    return checked(database, "t", count, used)


def backfilled(directory: Path, program: Sequence[str], file: str, count: int) -> float:
    """Measure a backfill in one process."""
    database = directory / "backfill.db"
    database.unlink(missing_ok=True)
    words = ("backfill", file, "--db", "backfill.db", "--workers", "1", "--table", "t", "--no-config", "-q")
    return checked(database, "t", count, cpu_s([*program, *words], directory))


def checked(database: Path, table: str, count: int, used: float) -> float:
    """Return the time, once the rows are known to be there."""
    with closing(sqlite3.connect(database)) as conn:
        found = conn.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    assert found == count, f"{found} rows instead of {count}"
    return used


def main() -> None:
    """Measure everything in turn and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--against", metavar="PYTHON", help="measure the filecollect of another interpreter as well")
    options = parser.parse_args()
    if shutil.which("sqlite3") is None:
        sys.exit("the sqlite3 command is needed (apt install sqlite3)")
    programs = {"": [sys.executable, "-m", "filecollect"]}
    if options.against:
        programs[" (other)"] = [options.against, "-m", "filecollect"]
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory() as name:
        place, count = Path(name), options.rows
        write(place, count)
        jobs: dict[str, Callable[[], float]] = {
            ".import, bare": lambda: imported(place, COLUMNS, "rows.csv", 1, count),
            ".import, same key": lambda: imported(place, KEYED, "keyed.csv", 0, count),
        }
        for label, program in programs.items():
            jobs[f"backfill CSV{label}"] = lambda program=program: backfilled(place, program, "rows.csv", count)  # type: ignore[misc]
            jobs[f"backfill JSONL{label}"] = lambda program=program: backfilled(place, program, "rows.jsonl", count)  # type: ignore[misc]
        best = {name: min(times) for name, times in in_turn(jobs, options.times).items()}
        small: dict[str, Callable[[], float]] = {
            "python -c pass": lambda: cpu_s([sys.executable, "-c", "pass"], place),
            "filecollect --help": lambda: cpu_s([*programs[""], "--help"], place),
        }
        start = {name: min(times) for name, times in in_turn(small, 3 * options.times).items()}
    print(f"{count:,} rows x 10 columns, best of {options.times}, processor seconds")
    print(f"{'':24}{'seconds':>9}{'rows/s':>10}{'bare':>7}{'key':>7}")
    for name, used in best.items():
        shares = "".join(f"{best[other] / used:>7.2f}" for other in (".import, bare", ".import, same key"))
        print(f"{name:24}{used:>9.2f}{count / used:>10,.0f}{shares}")
    print()
    for name, used in start.items():
        print(f"{name:24}{used:>9.3f}{used / start['python -c pass']:>10.1f} x")


def in_turn(jobs: dict[str, Callable[[], float]], times: int) -> dict[str, list[float]]:
    """Do all jobs one after the other, again and again."""
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(times):
        for name, job in jobs.items():
            found[name].append(job())
    return found


if __name__ == "__main__":
    main()
