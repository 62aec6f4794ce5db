"""Trace a row back: the file, the line, the raw bytes and the batch it came with."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from filecollect.errors import FileUnavailable, UsageError
from filecollect.files.filesystem import FileSystem
from filecollect.files.fingerprint import span_digest
from filecollect.files.paths import os_path
from filecollect.store.destination import quoted
from filecollect.store.queries import batch_of
from filecollect.store.tasks import tasks_by_id

RAW_BYTES = 64 * 1024


def trace(conn: Connection, files: FileSystem, table: str, where: str, limit: int) -> list[dict[str, Any]]:
    """Return where the rows of `table` that match `where` came from; raise UsageError for wrong SQL."""
    name = ".".join(quoted(part) for part in table.split("."))
    query = f'SELECT "_task_id", "_offset" FROM {name} WHERE {where} ORDER BY 1, 2 LIMIT {limit}'
    try:
        found = [(row[0], row[1]) for row in conn.exec_driver_sql(query)]
    except DBAPIError as problem:
        raise UsageError(f"the database says: {problem.orig}", hint="--where takes an SQL condition") from problem
    return [_one(conn, files, task_id, offset) for task_id, offset in found]


def _one(conn: Connection, files: FileSystem, task_id: int, offset: int) -> dict[str, Any]:
    tasks = tasks_by_id(conn, [task_id])
    batch = batch_of(conn, task_id, offset)
    if not tasks or batch is None:
        return {"task_id": task_id, "offset": offset, "path": None, "line": None, "raw": None, "batch": None}
    task = tasks[0]
    line, raw = None, None
    try:
        with files.open(os_path(task.path)) as handle:
            if span_digest(handle, batch["start_offset"], batch["end_offset"]) == batch["digest"]:
                before = handle.read_at(batch["start_offset"], offset - batch["start_offset"])
                line = batch["start_line"] + before.count(b"\n")
                raw = handle.read_at(offset, min(RAW_BYTES, batch["end_offset"] - offset)).partition(b"\n")[0]
    except FileUnavailable:
        line = None
    return {
        "task_id": task_id,
        "generation": task.generation,
        "path": task.path,
        "line": line,
        "offset": offset,
        "raw": raw,
        "batch": batch["seq"],
        "committed_at": batch["committed_at"],
    }
