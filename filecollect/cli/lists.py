"""Commands that list and show sources, tasks and events, and what all listings share.

A listing shows the newest rows, oldest of them first, so that the last line is the latest news.
`--path` is a glob: without a slash it is a file's base name in any directory, else it is meant from
the working directory. What is shown is one thing, by its id or its path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

import click

from filecollect.cli.context import Context, common_options
from filecollect.cli.render import cell, document, table
from filecollect.errors import UsageError
from filecollect.events import KINDS
from filecollect.files.paths import absolute, stored_path
from filecollect.store import queries
from filecollect.store.engine import reading
from filecollect.store.schema import collection_task, file_event

STATUSES = ("pending", "running", "delivering", "succeeded", "failed", "paused", "cancelled", "skipped", "gone")
_SINCE = re.compile(r"([0-9]{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a listing its filters."""
    for option in (
        click.option("--limit", type=click.IntRange(1, 10**9), default=100, help="At most so many, the newest."),
        click.option("--since", metavar="AGO", help="Only newer than this: 30s, 10m, 1h, 7d, 2w."),
        click.option("--path", metavar="GLOB", help="Only paths that match; without a slash the file's name."),
        click.option("--source", metavar="S", help="Only this source."),
    ):
        command = option(command)
    return command


def period(text: str | None) -> timedelta | None:
    """Return how long ago `--since` means; raise UsageError."""
    if text is None:
        return None
    match = _SINCE.fullmatch(text)
    if match is None:
        raise UsageError(f"--since: expected a number and s, m, h, d or w such as 1h, got {text!r}")
    return min(timedelta(**{_UNITS[match[2]]: int(match[1])}), timedelta(days=36_500))


def matcher(glob: str | None) -> Callable[[str], bool] | None:
    """Return whether a stored path matches `--path`, None when all do."""
    if glob is None:
        return None
    if "/" not in glob:
        name = stored_path(glob)
        return lambda path: fnmatchcase(path.rpartition("/")[2], name)
    pattern = stored_path(absolute(glob, os.getcwd()))
    return lambda path: fnmatchcase(path, pattern)


def place(which: str) -> str:
    """Return an id as it is, a path in stored form."""
    return which if which.isascii() and which.isdecimal() else stored_path(absolute(which, os.getcwd()))


def output(ctx: Context, command: str, name: str, rows: list[dict[str, Any]], nothing: str) -> None:
    """Print a listing as a document or a table."""
    if ctx.json:
        document(command, **{name: rows})
    else:
        table(rows, nothing)


def print_one(row: dict[str, Any]) -> None:
    """Print one thing, a line for each fact; lists of things as tables below."""
    for name, value in row.items():
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            click.echo(f"{name}:")
            table(value, "")
        else:
            click.echo(f"{name}: {cell(value)}")


@click.command()
@filters
@common_options
def sources(ctx: Context, source: str | None, path: str | None, since: str | None, limit: int) -> None:
    """List sources: table, format, status."""
    with ctx.open() as engine, reading(engine) as conn:
        rows = queries.sources(conn, source=source, path=matcher(path), since=period(since), limit=limit)
    output(ctx, "sources list", "sources", rows, "no sources yet")


@click.command()
@click.argument("source_key", metavar="SOURCE")
@common_options
def source(ctx: Context, source_key: str) -> None:
    """Show one source: what was decided about it."""
    with ctx.open() as engine, reading(engine) as conn:
        found = queries.one_source(conn, source_key)
    if found is None:
        raise UsageError(f"no source {source_key!r}", hint="filecollect sources list")
    _one(ctx, "sources show", "source", found)


@click.command()
@filters
@click.option("--status", type=click.Choice(STATUSES), help="Only this status.")
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
            path=matcher(path),
            since=period(since),
            limit=limit,
            status=status,
        )
    output(ctx, "tasks list", "tasks", rows, "no tasks yet")


@click.command()
@click.argument("which", metavar="ID|PATH")
@common_options
def task(ctx: Context, which: str) -> None:
    """Show one task with its ledger and events."""
    with ctx.open() as engine, reading(engine) as conn:
        found = queries.one_task(conn, place(which))
    if found is None:
        raise UsageError(f"no task {which}", hint="filecollect tasks list")
    _one(ctx, "tasks show", "task", found)


def _one(ctx: Context, command: str, name: str, row: dict[str, Any]) -> None:
    if ctx.json:
        document(command, **{name: row})
    else:
        print_one(row)


@click.command()
@filters
@click.option("--kind", type=click.Choice(KINDS), metavar="KIND", help="Only this kind, such as truncated.")
@common_options
def events(ctx: Context, kind: str | None, source: str | None, path: str | None, since: str | None, limit: int) -> None:
    """List what happened to files: why one was skipped, re-read or replaced."""
    names = ("id", "at", "kind", "task_id", "source_key", "path", "detail")
    with ctx.open() as engine, reading(engine) as conn:
        rows = queries.listed(
            conn,
            file_event,
            names,
            source=source,
            path=matcher(path),
            since=period(since),
            limit=limit,
            kind=kind,
        )
    output(ctx, "events", "events", rows, "no events yet")
