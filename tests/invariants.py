"""The oracle: checks the promise on a database after anything happened to it.

It shares no code with the product: plain sqlite3 or psycopg, xxhash, json, csv, zlib and zstandard. Every
test that writes a database calls `check`; tests that know what the rows must be compare those as well. A
database is the path of a SQLite file or the URL of a PostgreSQL one.
"""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import psycopg
import xxhash
import zstandard


class Violation(AssertionError):
    """An invariant does not hold."""


def _demand(condition: bool, text: str) -> None:
    if not condition:
        raise Violation(text)


def records(
    content: bytes, format_name: str, parser: dict[str, Any], start: int, spec: dict[str, Any]
) -> list[tuple[int, Any]]:
    """Parse content independently: (offset, value) of every record that parses, from `start` on."""
    dialect = parser.get("dialect") or {}
    encoding = parser.get("encoding") or "utf-8"
    newline = dialect.get("newline") or "\n"
    text = content.decode(encoding, "replace")
    lines = text.split(newline)
    pieces = [line + newline for line in lines[:-1]] + lines[-1:]
    sizes = [len(piece.encode(encoding)) for piece in pieces]
    if "\ufffd" in text:
        assert encoding == "utf-8", "the oracle reads no other broken texts"
        sizes = [len(line) + 1 for line in content.split(b"\n")]
    skip = spec.get("skip_lines", 0) if start == 0 else 0
    mark = len("\ufeff".encode(encoding)) if start == 0 and text.startswith("\ufeff") else 0
    if mark:
        pieces[0] = pieces[0][1:]
        sizes[0] -= mark
    position = start + mark + sum(sizes[:skip])
    pieces, sizes = pieces[skip:], sizes[skip:]
    if format_name == "json":
        return _values("".join(pieces), position, encoding, parser.get("array"), bool(spec.get("bare")))
    if format_name == "csv":
        return _csv_records(pieces, sizes, position, dialect | {"header": parser.get("header")}, newline)
    found: list[tuple[int, Any]] = []
    for piece, size in zip(pieces, sizes, strict=True):
        line = piece.removesuffix(newline)
        bare = line.rstrip("\r\n") if format_name == "jsonl" else line.removesuffix("\r")
        if bare.strip() if format_name == "jsonl" else bare:
            try:
                value = json.loads(bare) if format_name == "jsonl" else bare
                if "\ufffd" not in bare and (format_name == "lines" or isinstance(value, dict) or spec.get("bare")):
                    found.append((position, value))
            except ValueError:
                pass
        position += size
    return found


def _csv_records(
    pieces: list[str], sizes: list[int], start: int, dialect: dict[str, Any], newline: str
) -> list[tuple[int, Any]]:
    used = 0
    at_start = True
    comment = dialect.get("comment")

    def lines() -> Iterator[str]:
        nonlocal used, at_start
        for piece in pieces:
            used += 1
            if at_start and (piece == newline or (comment and piece.startswith(comment))):
                # csv.reader makes an empty row of it.
                yield "\n"
                continue
            at_start = False
            yield piece if newline == "\n" else piece.replace("\n", " ").replace("\r", "\n")

    quote = dialect.get("quote", '"')
    reader = csv.reader(
        lines(),
        delimiter=dialect.get("delimiter") or ",",
        quotechar=quote or None,
        escapechar=dialect.get("escape") or None,
        quoting=csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
    )
    found: list[tuple[int, Any]] = []
    before = 0
    header = [name.replace(newline, "\n") for name in dialect["header"] or []]
    for row in reader:
        if row and row != header:
            found.append((start + sum(sizes[:before]), row))
        before, at_start = used, True
    return found


def _values(text: str, start: int, encoding: str, array: str | None, bare: bool) -> list[tuple[int, Any]]:
    """Read the values of a JSON document with the standard library's decoder."""

    def refuse(name: str) -> None:
        raise ValueError(name)

    decoder, constant = json.JSONDecoder(), json.JSONDecoder(parse_constant=refuse)
    found: list[tuple[int, Any]] = []
    position = 0
    while True:
        while position < len(text) and text[position] in " \t\r\n,\x1e":
            position += 1
        if position == len(text):
            return found
        if array in ("open", "closed") and text[position] in "[]" and (not found or text[position] == "]"):
            position += 1
            continue
        _, end = decoder.raw_decode(text, position)
        try:
            value = constant.decode(text[position:end])
        except ValueError:
            position = end
            continue
        if bare or isinstance(value, dict):
            found.append((start + len(text[:position].encode(encoding)), value))
        position = end


class Row(tuple[Any, ...]):
    """A row of either database: by position and by name."""

    names: dict[str, int]

    def __getitem__(self, key: Any) -> Any:
        """Return the value of a column."""
        return tuple.__getitem__(self, self.names[key] if isinstance(key, str) else key)


class Answer(NamedTuple):
    """All rows of a query."""

    rows: list[Row]


class Database:
    """Ask a SQLite or a PostgreSQL database in the same words; nothing is written."""

    def __init__(self, connection: Any, is_sqlite: bool) -> None:
        self.connection = connection
        self.is_sqlite = is_sqlite

    def ask(self, query: str, values: Sequence[Any] = ()) -> Answer:
        """Return the answer to a query whose values are written `?`."""
        cursor = self.connection.cursor()
        cursor.execute(query if self.is_sqlite else query.replace("?", "%s"), tuple(values))
        names = {one[0]: place for place, one in enumerate(cursor.description)}
        kind = type("Row", (Row,), {"names": names})
        return Answer([kind(row) for row in cursor.fetchall()])

    def has_table(self, name: str) -> bool:
        """Return whether there is a table of that quoted name."""
        if self.is_sqlite:
            plain = name[1:-1].replace('""', '"')
            return bool(self.ask("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (plain,)).rows)
        return self.ask("SELECT to_regclass(?)", (name,)).rows[0][0] is not None


@contextmanager
def opened(database: Path | str, schema: str | None = None) -> Iterator[Database]:
    """Open a database for reading: one snapshot."""
    if isinstance(database, Path):
        connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True)
        try:
            yield Database(connection, True)
        finally:
            connection.close()
        return
    with psycopg.connect(database) as served:
        served.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        if schema is not None:
            served.execute(f'SET LOCAL search_path = "{schema}"')
        yield Database(served, False)
        served.rollback()


def _json(value: Any) -> Any:
    if isinstance(value, dict) and list(value) == ["_json"]:
        value = value["_json"]
    return json.loads(value) if isinstance(value, str) else value


def offsets(database: Path | str, schema: str | None = None) -> dict[int, int]:
    """Return the position of every task, to be given to a later `check` (I4)."""
    with opened(database, schema) as conn:
        if not conn.has_table('"collection_task"'):
            return {}
        return {row[0]: row[1] for row in conn.ask("SELECT id, content_offset FROM collection_task").rows}


def check(database: Path | str, *, before: dict[int, int] | None = None, schema: str | None = None) -> None:
    """Raise Violation unless I1, I2 and I4 hold for every task of a database."""
    with opened(database, schema) as conn:
        if not conn.has_table('"collection_task"'):
            return
        if conn.is_sqlite:
            _demand(conn.ask("PRAGMA integrity_check").rows[0][0] == "ok", "the database is damaged")
        sources = {row["source_key"]: row for row in conn.ask("SELECT * FROM collection_source").rows}
        for task in conn.ask("SELECT * FROM collection_task ORDER BY id").rows:
            _tiles(conn, task)
            if task["source_key"] in sources:
                _rows(conn, task, sources[task["source_key"]])
        _moved(conn, before or {})


def _tiles(conn: Database, task: Row) -> None:
    """I1: the ledger tiles [start_offset, content_offset)."""
    position = task["start_offset"]
    spans = conn.ask("SELECT * FROM committed_batch WHERE task_id = ? ORDER BY start_offset", (task["id"],)).rows
    for span in spans:
        _demand(span["start_offset"] == position, f"task {task['id']}: span at {span['start_offset']}, not {position}")
        _demand(span["end_offset"] >= span["start_offset"], f"task {task['id']}: a span runs backwards")
        position = span["end_offset"]
    _demand(position == task["content_offset"], f"task {task['id']}: ledger ends at {position}")
    checkpoint = _json(task["checkpoint_json"])
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


def _content(task: Row) -> bytes | None:
    """Return what the task read, None when the file holds other content now."""
    try:
        content = decompressed(Path(os.fsdecode(unquote_to_bytes(task["path"]))).read_bytes())
    except OSError:
        return None
    length = task["head_length"] or 0
    if len(content) < task["content_offset"] or xxhash.xxh3_128_hexdigest(content[:length]) != task["head_digest"]:
        return None
    guard = _json(task["checkpoint_json"])["guard"]
    end = task["content_offset"]
    if guard["length"] and xxhash.xxh3_128_hexdigest(content[end - guard["length"] : end]) != guard["digest"]:
        return None
    return content[:end]


def _rows(conn: Database, task: Row, source: Row) -> None:
    """I2: the rows of a task are exactly the parse of what it read."""
    superseded = (task["last_error"] or "").startswith("superseded")
    settings = _json(source["config_json"])["settings"]
    name = source["table_name"]
    parts = name.split(".", 1) if "." in (settings.get("table") or "") else [name]
    table = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
    if not conn.has_table(table):
        return
    rows = conn.ask(f'SELECT * FROM {table} WHERE "_task_id" = ?', (task["id"],)).rows
    if superseded:
        _demand(not rows or bool(settings.get("key")), f"task {task['id']} is superseded and has rows")
        return
    if settings.get("key"):
        return
    retried = {
        row[0]
        for row in conn.ask(
            "SELECT start_offset FROM quarantined_item WHERE task_id = ? AND state = 'retried'", (task["id"],)
        ).rows
    }
    ledger = conn.ask("SELECT coalesce(sum(row_count), 0) FROM committed_batch WHERE task_id = ?", (task["id"],)).rows[
        0
    ][0]
    _demand(
        len(rows) == ledger + len(retried),
        f"task {task['id']}: {len(rows)} rows, the ledger says {ledger} and {len(retried)} retried",
    )
    content = _content(task)
    if content is None:
        return
    passed_over = []
    for span in conn.ask("SELECT * FROM committed_batch WHERE task_id = ?", (task["id"],)).rows:
        if span["kind"] == "skipped":
            # Nobody read these bytes, so they have no digest.
            _demand(span["row_count"] == span["quarantined_count"] == 0, f"task {task['id']}: rows of a skipped span")
            passed_over.append((span["start_offset"], span["end_offset"] - span["start_offset"]))
            continue
        digest = xxhash.xxh3_128_hexdigest(content[span["start_offset"] : span["end_offset"]])
        _demand(digest == span["digest"], f"task {task['id']}: digest of span {span['start_offset']} differs")
    parser = _json(task["checkpoint_json"])["parser"]
    spec = _json(source["config_json"])["spec"]
    good: set[int] = set()
    position = task["start_offset"]
    bad = conn.ask(
        "SELECT start_offset, length FROM quarantined_item WHERE task_id = ? AND state != 'retried' ORDER BY 1",
        (task["id"],),
    ).rows
    for start, length in [*sorted([*map(tuple, bad), *passed_over]), (len(content), 0)]:
        part = content[position:start]
        good.update(offset for offset, _ in records(part, source["format"], parser, position, spec))
        position = start + length
    expected = sorted(good)
    _demand(
        sorted(row["_offset"] for row in rows) == expected,
        f"task {task['id']}: rows at {sorted(row['_offset'] for row in rows)[:5]}.., expected {expected[:5]}..",
    )


def _moved(conn: Database, before: dict[int, int]) -> None:
    """I4: no offset fell without an event that says so."""
    returned = "SELECT task_id FROM file_event WHERE kind IN ('replayed', 'record_completed')"
    back = {row[0] for row in conn.ask(returned).rows}
    now = {row[0]: row[1] for row in conn.ask("SELECT id, content_offset FROM collection_task").rows}
    for task_id, offset in before.items():
        _demand(now.get(task_id, offset) >= offset or task_id in back, f"task {task_id}: offset fell from {offset}")
