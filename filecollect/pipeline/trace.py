"""Trace a row back: the file, the line, the raw bytes and the batch it came with.

A line number is told only when it is certain: the file is still there and the whole span in which the
row was committed still has the ledger's digest. The line is the span's first line plus the line ends
before the record; the record's end is found by the source's own parser, so a quoted line end does not
cut it. Of a file that is gone or was changed, everything that the database knows is told.
"""

from __future__ import annotations

import sqlite3

from sqlalchemy import Connection, inspect
from sqlalchemy.exc import DBAPIError, NoSuchTableError

from filecollect.errors import Corrupt, FilecollectError, FileUnavailable, Replaced, Unsupported, UsageError
from filecollect.files.content import Content, open_content
from filecollect.files.filesystem import FileSystem
from filecollect.files.fingerprint import span_digest
from filecollect.files.paths import os_path
from filecollect.parse.api import Parser, Tail
from filecollect.parse.build import make_parser
from filecollect.parse.lineends import LineEnds
from filecollect.pipeline.plan import stored_plan
from filecollect.store.database import quoted
from filecollect.store.engine import schema_of
from filecollect.store.queries import Row, batch_of
from filecollect.store.sources import stored_source
from filecollect.store.tasks import Task, tasks_by_id

RAW_BYTES = 1024 * 1024
"""Most bytes of one record that are shown."""
_LINE_READ = 1024 * 1024


def trace(conn: Connection, files: FileSystem, table: str, where: str, limit: int) -> list[Row]:
    """Return where the rows of `table` that match `where` came from; raise UsageError for wrong SQL."""
    return [_origin(conn, files, task_id, offset) for task_id, offset in _places(conn, table, where, limit)]


def _places(conn: Connection, table: str, where: str, limit: int) -> list[tuple[int, int]]:
    name = _sql_name(conn, table)
    # On lines of its own the condition may end in a comment.
    query = f'SELECT "_task_id", "_offset" FROM {name} WHERE (\n{where}\n) ORDER BY 1, 2 LIMIT {limit}'
    if conn.dialect.paramstyle in {"format", "pyformat"}:
        query = query.replace("%", "%%")
    try:
        return [(int(row[0]), int(row[1])) for row in conn.exec_driver_sql(query)]
    except (DBAPIError, sqlite3.Warning) as problem:
        said = str(getattr(problem, "orig", problem)).strip().partition("\n")[0]
        raise UsageError(f"the database says: {said}", hint="--where takes an SQL condition on the table") from problem


def _sql_name(conn: Connection, table: str) -> str:
    """Return the quoted name of a table that rows were collected into; raise UsageError for another."""
    schema, _, name = table.rpartition(".")
    inspector = inspect(conn)
    for at, wanted in ((schema_of(conn), table), (schema or None, name)):
        try:
            columns = {column["name"] for column in inspector.get_columns(wanted, schema=at)}
        except (NoSuchTableError, DBAPIError):
            continue
        # Asked first: SQLite takes a quoted name that is no column for a text.
        if not {"_task_id", "_offset"} <= columns:
            raise UsageError(f"the table {table} was not collected: it has no columns _task_id and _offset")
        return quoted(wanted) if at is None else f"{quoted(at)}.{quoted(wanted)}"
    raise UsageError(f"no table {table}", hint="filecollect sources list")


def _origin(conn: Connection, files: FileSystem, task_id: int, offset: int) -> Row:
    found = tasks_by_id(conn, [task_id])
    batch = batch_of(conn, task_id, offset)
    task = found[0] if found else None
    line, raw = (None, None) if task is None or batch is None else _read(conn, files, task, batch, offset)
    return {
        "task_id": task_id,
        "generation": None if task is None else task.generation,
        "source": None if task is None else task.source_key,
        "path": None if task is None else task.path,
        "line": line,
        "offset": offset,
        "raw": raw,
        "batch": None if batch is None else batch["seq"],
        "committed_at": None if batch is None else batch["committed_at"],
    }


def _read(conn: Connection, files: FileSystem, task: Task, batch: Row, offset: int) -> tuple[int | None, bytes | None]:
    try:
        with files.open(os_path(task.path)) as handle:
            content = open_content(handle, handle.stat().size)
            if span_digest(content, batch["start_offset"], batch["end_offset"]) != batch["digest"]:
                return None, None
            parser = _parser(conn, task)
            ends = LineEnds("utf-8") if parser is None else parser.ends
            line = batch["start_line"] + _line_ends(content, ends, batch["start_offset"], offset)
            data = content.read_at(offset, min(RAW_BYTES, batch["end_offset"] - offset))
    except (FileUnavailable, Corrupt, Replaced, Unsupported):
        return None, None
    raw = data[: _length(parser, ends, data, offset)]
    return line, ends.bare(raw.removesuffix(ends.mark))


def _line_ends(content: Content, ends: LineEnds, start: int, end: int) -> int:
    count = 0
    while start < end and (data := content.read_at(start, min(_LINE_READ, end - start))):
        count += ends.count(data, 0, len(data))
        start += len(data)
    return count


def _parser(conn: Connection, task: Task) -> Parser | None:
    stored = stored_source(conn, task.source_key)
    if stored is None:
        return None
    try:
        plan = stored_plan(stored)
        return make_parser(plan.spec, plan.layout, task.position.parser)
    except FilecollectError:
        return None


def _length(parser: Parser | None, ends: LineEnds, data: bytes, offset: int) -> int:
    """Return the length of the record that `data` begins with: as it was parsed, else its first line."""
    after = ends.after(data, 0)
    one_line = after if after > 0 else len(data)
    if parser is None:
        return one_line
    parsed = parser.parse(data, offset=offset, line=1, limit=1, tail=Tail.TAKE)
    lengths = dict(zip(parsed.records.offsets, parsed.records.lengths, strict=True))
    lengths |= {bad.offset: bad.length for bad in parsed.bad}
    return lengths.get(offset, one_line)
