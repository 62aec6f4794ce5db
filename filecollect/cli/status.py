"""`filecollect status`: sources, what is not done, workers."""

from __future__ import annotations

import time
from typing import Any

import click

from filecollect.cli.context import Context, common_options
from filecollect.cli.render import document, human_size, table
from filecollect.store import queries
from filecollect.store.engine import reading


@click.command()
@click.option("--all", "everything", is_flag=True, help="Show settled tasks, too.")
@click.option("--watch", is_flag=True, help="Again every second, until Ctrl-C.")
@common_options
def status(ctx: Context, everything: bool, watch: bool) -> None:
    """Show how far every source is, what is not done, and who works on it."""
    while True:
        with ctx.open() as engine, reading(engine) as conn:
            found: dict[str, Any] = {
                "workers": queries.workers(conn),
                "sources": queries.source_status(conn),
                "tasks": queries.unsettled(conn, everything=everything),
            }
        if ctx.json:
            document("status", **found)
        else:
            if watch:
                click.clear()
            _print(found)
        if not watch:
            return
        time.sleep(1)


def _print(found: dict[str, Any]) -> None:
    rows = [
        {
            "source": one["source"],
            "table": one["table"],
            "files": ", ".join(f"{count} {state}" for state, count in sorted(one["tasks"].items())),
            "read": f"{human_size(one['bytes']['done'])} of {human_size(one['bytes']['total'])}",
            "rows": one["rows"],
            "quarantined": one["quarantined"],
            "last commit": one["last_commit_at"],
        }
        for one in found["sources"]
    ]
    table(rows, "nothing collected yet")
    for task in found["tasks"]:
        said = f": {task['last_error']}" if task["last_error"] else ""
        click.echo(f"{task['status']}: {task['path']} at {task['raw_offset']:,} of {task['size'] or 0:,} bytes{said}")
    if found["workers"]:
        click.echo(f"{len(found['workers'])} workers")
