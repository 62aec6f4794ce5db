"""`filecollect status`: sources, what is not done, workers.

One snapshot of the database is one picture; `--watch` takes a new one every second. With `--json`
each is one document on one line.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import click

from filecollect.cli.context import Context, common_options
from filecollect.cli.render import (
    aligned,
    cell,
    document,
    fits,
    harmless,
    human_size,
    human_time,
    rich_table,
    terminal,
)
from filecollect.store import queries
from filecollect.store.engine import reading

if TYPE_CHECKING:
    from rich.console import Group
    from sqlalchemy import Engine

REFRESH_S = 1.0


@click.command()
@click.option("--all", "everything", is_flag=True, help="Show settled tasks, too.")
@click.option("--watch", is_flag=True, help="Again every second, until Ctrl-C.")
@common_options
def status(ctx: Context, everything: bool, watch: bool) -> None:
    """Show how far every source is, what is not done, and who works on it."""
    with ctx.open() as engine:
        if watch and not ctx.json and sys.stdout.isatty():
            _live(engine, everything)
        while True:
            found = picture(engine, everything)
            if ctx.json:
                document("status", **found)
            else:
                _print(found)
            if not watch:
                return
            sys.stdout.flush()
            time.sleep(REFRESH_S)


def _print(found: dict[str, Any]) -> None:
    console = terminal()
    if console is not None and all(fits(rows, console) for rows in (source_rows(found), task_rows(found))):
        console.print(drawn(found))
    else:
        click.echo("\n".join(text(found)))


def _live(engine: Engine, everything: bool) -> None:
    from rich.live import Live

    with Live(drawn(picture(engine, everything)), auto_refresh=False) as live:
        while True:
            time.sleep(REFRESH_S)
            live.update(drawn(picture(engine, everything)), refresh=True)


def picture(engine: Engine, everything: bool) -> dict[str, Any]:
    """Return workers, sources and tasks of one moment, in the shape of the contract."""
    with reading(engine) as conn:
        return {
            "workers": queries.workers(conn),
            "sources": queries.source_status(conn),
            "tasks": queries.tasks_of_status(conn, everything=everything),
        }


def source_rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row for each source."""
    return [
        {
            "source": one["source"],
            "table": one["table"],
            "files": ", ".join(f"{count} {state}" for state, count in sorted(one["tasks"].items())) or "none",
            "read": f"{human_size(one['bytes']['done'])} of {human_size(one['bytes']['total'])}",
            "behind": human_time(one["lag_s"]) if one["bytes"]["lag"] else None,
            "rows": one["rows"],
            "quarantined": one["quarantined"],
            "lost": human_size(one["lost_bytes"]) if one["lost_bytes"] else None,
            "last commit": one["last_commit_at"],
        }
        for one in found["sources"]
    ]


def task_rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one row for each task."""
    return [
        {
            "task": one["id"],
            "status": one["status"],
            "source": one["source_key"],
            "read": f"{human_size(one['raw_offset'])} of {human_size(max(one['size'] or 0, one['raw_offset']))}",
            "tries": one["attempt_count"],
            "path": one["path"],
        }
        for one in found["tasks"]
    ]


def remarks(found: dict[str, Any]) -> list[str]:
    """Return sentences about what went wrong last and who is at work."""
    said = [f"task {one['id']}: {harmless(one['last_error'])}" for one in found["tasks"] if one["last_error"]]
    told = {one["last_error"] for one in found["tasks"]}
    said += [
        f"source {cell(one['source'])}: {harmless(one['last_error'])}"
        for one in found["sources"]
        if one["last_error"] and one["last_error"] not in told
    ]
    count = len(found["workers"])
    if count:
        said.append(f"{count} worker{'s' if count > 1 else ''} at work")
    return said


def text(found: dict[str, Any]) -> list[str]:
    """Return the picture as plain lines."""
    rows, tasks = source_rows(found), task_rows(found)
    lines = aligned(rows) if rows else ["nothing collected yet"]
    lines += ["", *aligned(tasks)] if tasks else []
    return lines + remarks(found)


def drawn(found: dict[str, Any]) -> Group:
    """Return the picture for a terminal."""
    from rich.console import Group
    from rich.text import Text

    rows, tasks = source_rows(found), task_rows(found)
    parts: list[Any] = [rich_table(rows) if rows else "nothing collected yet"]
    parts += ["", rich_table(tasks)] if tasks else []
    return Group(*parts, *map(Text, remarks(found)))
