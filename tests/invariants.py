"""The oracle: checks the promise on a database after anything happened to it.

It shares no code with the product: plain sqlite3, xxhash, json, csv, zlib and zstandard. Every test that writes a
database calls `check`; tests that know what the rows must be compare those as well.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import xxhash
import zstandard


class Violation(AssertionError):
    """An invariant does not hold."""


def _demand(condition: bool, text: str) -> None:
    if not condition:
        raise Violation(text)


def records(content: bytes, format_name: str, parser: dict[str, Any], start: int) -> list[tuple[int, Any]]:
    """Parse content independently: (offset, value) of every record that parses, from `start` on."""
    found: list[tuple[int, Any]] = []
    if format_name == "csv":
        text = content.decode("utf-8-sig" if start == 0 else "utf-8")
        shift = len(content) - len(text.encode())
        lines = text.splitlines(keepends=True)
        delimiter = (parser.get("dialect") or {}).get("delimiter") or ","
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        position, used = shift, 0
        for row in reader:
            size = sum(len(line.encode()) for line in lines[used : reader.line_num])
            if row and row != parser.get("header"):
                found.append((start + position, row))
            used = reader.line_num
            position += size
        return found
    position = 0
    for line in content.splitlines(keepends=True) if format_name == "jsonl" else content.split(b"\n"):
        bare = line.rstrip(b"\r\n") if format_name == "jsonl" else line.removesuffix(b"\r")
        size = len(line) if format_name == "jsonl" else len(line) + 1
        if bare.strip() if format_name == "jsonl" else bare:
            try:
                value = json.loads(bare) if format_name == "jsonl" else bare.decode()
                if format_name == "lines" or isinstance(value, dict):
                    found.append((start + position, value))
            except ValueError:
                pass
        position += size
    return found


def offsets(database: Path) -> dict[int, int]:
    """Return the position of every task, to be given to a later `check` (I4)."""
    with closing(sqlite3.connect(database)) as conn:
        return dict(conn.execute("SELECT id, content_offset FROM collection_task"))


def check(database: Path, *, before: dict[int, int] | None = None) -> None:
    """Raise Violation unless I1, I2 and I4 hold for every task of a SQLite database."""
    conn = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
    conn.row_factory = sqlite3.Row
    try:
        _demand(conn.execute("PRAGMA integrity_check").fetchone()[0] == "ok", "the database is damaged")
        sources = {row["source_key"]: row for row in conn.execute("SELECT * FROM collection_source")}
        for task in conn.execute("SELECT * FROM collection_task ORDER BY id").fetchall():
            _tiles(conn, task)
            if task["source_key"] in sources:
                _rows(conn, task, sources[task["source_key"]])
        _moved(conn, before or {})
    finally:
        conn.close()


def _tiles(conn: sqlite3.Connection, task: sqlite3.Row) -> None:
    """I1: the ledger tiles [start_offset, content_offset)."""
    position = task["start_offset"]
    spans = conn.execute(
        "SELECT * FROM committed_batch WHERE task_id = ? ORDER BY start_offset", (task["id"],)
    ).fetchall()
    for span in spans:
        _demand(span["start_offset"] == position, f"task {task['id']}: span at {span['start_offset']}, not {position}")
        _demand(span["end_offset"] >= span["start_offset"], f"task {task['id']}: a span runs backwards")
        position = span["end_offset"]
    _demand(position == task["content_offset"], f"task {task['id']}: ledger ends at {position}")
    checkpoint = json.loads(task["checkpoint_json"])
    _demand(checkpoint["offset"] == task["content_offset"], f"task {task['id']}: checkpoint differs from its column")


def decompressed(raw: bytes) -> bytes:
    """Return what gzip or zstd data holds, as far as it can be decoded; other bytes as they are."""
    parts: list[bytes] = []
    if raw.startswith(b"\x1f\x8b\x08"):
        while raw.startswith(b"\x1f\x8b\x08"):
            member = zlib.decompressobj(31)
            try:
                for start in range(0, len(raw), 4096):
                    parts.append(member.decompress(raw[start : start + 4096]))
                    if member.eof:
                        break
            except zlib.error:
                break
            raw = member.unused_data + raw[start + 4096 :] if member.eof else b""
        return b"".join(parts)
    if raw[:4] == b"\x28\xb5\x2f\xfd" or raw[1:4] == b"\x2a\x4d\x18":
        with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as reader:
            try:
                while part := reader.read(4096):
                    parts.append(part)
            except zstandard.ZstdError:
                pass
        return b"".join(parts)
    return raw


def _content(task: sqlite3.Row) -> bytes | None:
    """Return what the task read, None when the file holds other content now."""
    try:
        content = decompressed(Path(os.fsdecode(unquote_to_bytes(task["path"]))).read_bytes())
    except OSError:
        return None
    length = task["head_length"] or 0
    if len(content) < task["content_offset"] or xxhash.xxh3_128_hexdigest(content[:length]) != task["head_digest"]:
        return None
    guard = json.loads(task["checkpoint_json"])["guard"]
    end = task["content_offset"]
    if guard["length"] and xxhash.xxh3_128_hexdigest(content[end - guard["length"] : end]) != guard["digest"]:
        return None
    return content[:end]


def _rows(conn: sqlite3.Connection, task: sqlite3.Row, source: sqlite3.Row) -> None:
    """I2: the rows of a task are exactly the parse of what it read."""
    superseded = (task["last_error"] or "").startswith("superseded")
    settings = json.loads(source["config_json"])["settings"]
    table = '"' + source["table_name"].replace('"', '""') + '"'
    present = conn.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (source["table_name"],)
    ).fetchone()
    if present is None:
        return
    rows = conn.execute(f'SELECT * FROM {table} WHERE "_task_id" = ?', (task["id"],)).fetchall()
    if superseded:
        _demand(not rows or bool(settings.get("key")), f"task {task['id']} is superseded and has rows")
        return
    if settings.get("key"):
        return
    retried = {
        row[0]
        for row in conn.execute(
            "SELECT start_offset FROM quarantined_item WHERE task_id = ? AND state = 'retried'", (task["id"],)
        )
    }
    ledger = conn.execute(
        "SELECT coalesce(sum(row_count), 0) FROM committed_batch WHERE task_id = ?", (task["id"],)
    ).fetchone()[0]
    _demand(
        len(rows) == ledger + len(retried),
        f"task {task['id']}: {len(rows)} rows, the ledger says {ledger} and {len(retried)} retried",
    )
    content = _content(task)
    if content is None:
        return
    passed_over = []
    for span in conn.execute("SELECT * FROM committed_batch WHERE task_id = ?", (task["id"],)):
        if span["kind"] == "skipped":
            # Nobody read these bytes, so they have no digest.
            _demand(span["row_count"] == span["quarantined_count"] == 0, f"task {task['id']}: rows of a skipped span")
            passed_over.append((span["start_offset"], span["end_offset"] - span["start_offset"]))
            continue
        digest = xxhash.xxh3_128_hexdigest(content[span["start_offset"] : span["end_offset"]])
        _demand(digest == span["digest"], f"task {task['id']}: digest of span {span['start_offset']} differs")
    parser = json.loads(task["checkpoint_json"])["parser"]
    good: set[int] = set()
    position = task["start_offset"]
    bad = conn.execute(
        "SELECT start_offset, length FROM quarantined_item WHERE task_id = ? AND state != 'retried' ORDER BY 1",
        (task["id"],),
    ).fetchall()
    for start, length in [*sorted([*map(tuple, bad), *passed_over]), (len(content), 0)]:
        good.update(dict(records(content[position:start], source["format"], parser, position)))
        position = start + length
    expected = sorted(good)
    _demand(
        sorted(row["_offset"] for row in rows) == expected,
        f"task {task['id']}: rows at {sorted(row['_offset'] for row in rows)[:5]}.., expected {expected[:5]}..",
    )


def _moved(conn: sqlite3.Connection, before: dict[int, int]) -> None:
    """I4: no offset fell without an event that says so."""
    back = {
        row[0] for row in conn.execute("SELECT task_id FROM file_event WHERE kind IN ('replayed', 'record_completed')")
    }
    now = dict(conn.execute("SELECT id, content_offset FROM collection_task"))
    for task_id, offset in before.items():
        _demand(now.get(task_id, offset) >= offset or task_id in back, f"task {task_id}: offset fell from {offset}")
