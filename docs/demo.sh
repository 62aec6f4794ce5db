#!/bin/sh
# A directory of exports goes into SQLite; the collector is killed half-way, goes on, and nothing is lost or doubled.
# Needs `filecollect` and python3 on the PATH. Everything happens in a temporary directory, which is removed.
set -eu

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
trap 'exit 130' INT TERM
cd "$place"

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

query() {
    printf '\n%s\n' "$1"
    python3 - "$1" <<'PYTHON'
import sqlite3
import sys

cursor = sqlite3.connect("exports.db").execute(sys.argv[1])
print("  ".join(column[0] for column in cursor.description))
for row in cursor:
    print("  ".join(str(value) for value in row))
PYTHON
}

python3 - <<'PYTHON'
"""Make three days of orders as CSV, one day of events as JSON lines, and an application's log."""

import csv
import json
import pathlib
import random

chance = random.Random(1)
names = ["Ada Lovelace", 'Grace "Amazing" Hopper', "Łukasiewicz, Jan", "Line\nBreak Ltd"]
exports = pathlib.Path("exports")
for folder in ("orders", "events", "logs"):
    (exports / folder).mkdir(parents=True)
number = 0
for day in ("2026-10-30", "2026-10-31", "2026-11-01"):
    with open(exports / "orders" / f"orders-{day}.csv", "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file)
        out.writerow(["order_id", "customer", "zip", "amount", "placed_at"])
        for _ in range(20_000):
            number += 1
            zip_code = f"{chance.randrange(100_000):05d}"
            placed = f"{day}T{chance.randrange(24):02d}:{chance.randrange(60):02d}:00Z"
            out.writerow([number, chance.choice(names), zip_code, f"{chance.randrange(1, 100_000) / 100:.2f}", placed])
with open(exports / "events" / "events.jsonl", "w", encoding="utf-8") as file:
    for event in range(1, 10_001):
        record = {"id": event, "kind": chance.choice(["view", "cart", "paid"]), "order": {"id": event * 3}}
        file.write(json.dumps(record) + "\n")
    file.write('{"id": 10001, "kind": "torn\n')  # a record that can never be read
with open(exports / "logs" / "app.log", "w", encoding="utf-8") as file:
    for line in range(1, 5_001):
        file.write(f"2026-11-01 12:{line // 100:02d}:00 INFO request {line} served\n")
PYTHON

show ls exports/orders exports/events exports/logs

echo
echo "# The collector is killed (SIGKILL) inside its third commit ..."
export FILECOLLECT_FAILPOINTS=before_commit@3=kill
show filecollect backfill exports --db exports.db --workers 1 || echo "exit code $?"
unset FILECOLLECT_FAILPOINTS

echo
echo "# ... and simply started again. One record can never become a row: it is quarantined, so the exit code is 1."
show filecollect backfill exports --db exports.db || echo "exit code $?"

show filecollect status --db exports.db
show filecollect quarantine list --db exports.db

echo
echo "# Every order is there exactly once, and knows its file."
query 'SELECT count(*) AS orders, count(DISTINCT order_id) AS ids, min(order_id) AS first, max(order_id) AS last FROM orders'
query "SELECT replace(t.path, rtrim(t.path, replace(t.path, '/', '')), '') AS file, count(*) AS orders
FROM orders o JOIN collection_task t ON t.id = o._task_id GROUP BY t.path ORDER BY t.path"

python3 - <<'PYTHON'
import sqlite3

count, ids, total = sqlite3.connect("exports.db").execute(
    "SELECT count(*), count(DISTINCT order_id), sum(order_id) FROM orders"
).fetchone()
assert (count, ids, total) == (60_000, 60_000, 60_000 * 60_001 // 2), (count, ids, total)
print("\n60,000 orders, each once: nothing lost, nothing doubled.")
PYTHON
