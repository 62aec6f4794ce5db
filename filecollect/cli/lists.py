"""Commands that list and show: sources, tasks, events, quarantine."""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
from sqlalchemy import select

from filecollect.cli.context import Context, common_options
from filecollect.cli.render import document, plain, table
from filecollect.errors import UsageError
from filecollect.files.paths import absolute, stored_path
from filecollect.store import queries
from filecollect.store.engine import reading
from filecollect.store.schema import collection_source, collection_task, file_event, quarantined_item

_SINCE = re.compile(r"(\d+)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a listing its filters."""
    for option in (
        click.option("--limit", type=click.IntRange(1), default=100, help="At most so many, the newest."),
        click.option("--since", help="Only newer than this: 30s, 10m, 1h, 7d."),
        click.option("--path", help="Only paths that match this glob."),
        click.option("--source", help="Only this source."),
    ):
        command = option(command)
    return command


def period(text: str | None) -> timedelta | None:
    """Return how long ago `--since` means; raise UsageError."""
    if text is None:
        return None
    match = _SINCE.fullmatch(text)
    if match is None:
        raise UsageError(f"--since: expected a number and s, m, h or d, got {text!r}")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


def _show(ctx: Context, command: str, name: str, rows: list[dict[str, Any]], nothing: str) -> None:
    if ctx.json:
        document(command, **{name: rows})
    else:
        table(rows, nothing)


@click.command()
@common_options
def sources(ctx: Context) -> None:
    """List sources: table, format, status."""
    names = ("source_key", "table_name", "format", "status", "last_scan_at")
    with ctx.open() as engine, reading(engine) as conn:
        rows = queries.listed(conn, collection_source, names, limit=10_000)
    _show(ctx, "sources list", "sources", rows, "no sources yet")


@click.command()
@click.argument("source_key")
@common_options
def source(ctx: Context, source_key: str) -> None:
    """Show one source: what was decided about it."""
    with ctx.open() as engine, reading(engine) as conn:
        rows = queries.rows_of(conn, select(collection_source).where(collection_source.c.source_key == source_key))
    if not rows:
        raise UsageError(f"no source {source_key!r}", hint="filecollect sources list")
    _one(ctx, "sources show", rows[0])


@click.command()
@filters
@click.option("--status", help="Only this status.")
@common_options
def tasks(
    ctx: Context, status: str | None, source: str | None, path: str | None, since: str | None, limit: int
) -> None:
    """List tasks: one generation of one file each."""
    names = ("id", "source_key", "status", "content_offset", "size", "path", "last_error")
    with ctx.open() as engine, reading(engine) as conn:
        rows = queries.listed(
            conn,
            collection_task,
            names,
            source=source,
            path=path,
            since=period(since),
            limit=limit,
            status=status,
        )
    _show(ctx, "tasks list", "tasks", rows, "no tasks yet")


@click.command()
@click.argument("which", metavar="ID|PATH")
@common_options
def task(ctx: Context, which: str) -> None:
    """Show one task with its ledger and events."""
    place = which if which.isdecimal() else stored_path(absolute(which, str(Path.cwd())))
    with ctx.open() as engine, reading(engine) as conn:
        found = queries.one_task(conn, place)
    if found is None:
        raise UsageError("no such task", path=which, hint="filecollect tasks list")
    _one(ctx, "tasks show", found)


def _one(ctx: Context, command: str, row: dict[str, Any]) -> None:
    if ctx.json:
        document(command, **{command.split()[0].rstrip("s"): row})
        return
    for name, value in row.items():
        text = json.dumps(value, default=plain, ensure_ascii=False) if isinstance(value, dict | list) else plain(value)
        click.echo(f"{name}: {'-' if value is None else text}")


@click.command()
@filters
@click.option("--kind", help="Only this kind.")
@common_options
def events(ctx: Context, kind: str | None, source: str | None, path: str | None, since: str | None, limit: int) -> None:
    """List what happened to files: why one was skipped, re-read or replaced."""
    with ctx.open() as engine, reading(engine) as conn:
        rows = queries.listed(
            conn,
            file_event,
            ("id", "at", "kind", "task_id", "source_key", "path", "detail"),
            source=source,
            path=path,
            since=period(since),
            limit=limit,
            kind=kind,
        )
    _show(ctx, "events", "events", rows, "no events yet")


def _items(ctx: Context, state: str | None, source: str | None, since: str | None, limit: int) -> list[dict[str, Any]]:
    names = ("id", "state", "source_key", "task_id", "line", "start_offset", "length", "reason", "message", "raw")
    with ctx.open() as engine, reading(engine) as conn:
        rows = queries.listed(
            conn, quarantined_item, names, source=source, since=period(since), limit=limit, state=state
        )
        ids = {row["task_id"] for row in rows}
        found = conn.execute(select(collection_task.c.id, collection_task.c.path).where(collection_task.c.id.in_(ids)))
        paths = {one.id: one.path for one in found}
    return [{**row, "path": paths.get(row["task_id"])} for row in rows]


@click.command()
@click.option("--source", help="Only this source.")
@click.option("--since", help="Only newer than this: 30s, 10m, 1h, 7d.")
@click.option("--limit", type=click.IntRange(1), default=100, help="At most so many, the newest.")
@click.option("--state", default=None, help="open, retried or discarded.")
@common_options
def quarantine(ctx: Context, source: str | None, since: str | None, limit: int, state: str | None) -> None:
    """List records that could not become rows, with the reason."""
    rows = _items(ctx, state, source, since, limit)
    if not ctx.json:
        rows = [
            {
                "id": row["id"],
                "state": row["state"],
                "place": f"{row['path']}:{row['line']}",
                "reason": row["reason"],
                "message": row["message"],
            }
            for row in rows
        ]
    _show(ctx, "quarantine list", "items", rows, "nothing in quarantine")


@click.command()
@click.argument("item_id", type=int)
@common_options
def quarantined(ctx: Context, item_id: int) -> None:
    """Show one quarantined record, raw."""
    with ctx.open() as engine, reading(engine) as conn:
        rows = queries.rows_of(conn, select(quarantined_item).where(quarantined_item.c.id == item_id))
    if not rows:
        raise UsageError(f"no quarantined record {item_id}", hint="filecollect quarantine list")
    _one(ctx, "quarantine show", rows[0])


@click.command()
@click.option("--source", help="Only this source.")
@click.option("-o", "output", help="Write to this file; never overwritten.")
@common_options
def export(ctx: Context, source: str | None, output: str | None) -> None:
    """Write open quarantined records as JSON lines."""
    lines = []
    for row in _items(ctx, "open", source, None, 10_000_000):
        raw = bytes(row.pop("raw"))
        try:
            row["raw"] = raw.decode()
        except UnicodeDecodeError:
            row["raw_base64"] = base64.b64encode(raw).decode()
        lines.append(json.dumps(row, ensure_ascii=False, default=plain))
    text = "".join(line + "\n" for line in lines)
    if output is None:
        sys.stdout.write(text)
        return
    try:
        with Path(output).open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError("the file exists already and is not overwritten", path=output) from None
