"""`filecollect trace`: where a row came from."""

from __future__ import annotations

import click

from filecollect.cli.context import Context, common_options
from filecollect.cli.render import document, plain
from filecollect.files.filesystem import LocalFileSystem
from filecollect.pipeline.trace import trace as find_origins
from filecollect.store.engine import reading


@click.command()
@click.argument("table")
@click.option("--where", default="1 = 1", help="An SQL condition on the table's rows.")
@click.option("--limit", type=click.IntRange(1), default=20, help="At most so many rows.")
@common_options
def trace(ctx: Context, table: str, where: str, limit: int) -> None:
    """Show where rows came from: path:line, raw bytes, batch."""
    with ctx.open() as engine, reading(engine) as conn:
        origins = find_origins(conn, LocalFileSystem(), table, where, limit)
    if ctx.json:
        document("trace", rows=origins)
        return
    for one in origins:
        place = one["path"] if one["line"] is None else f"{one['path']}:{one['line']}"
        click.echo(f"{place} (byte {one['offset']}, task {one['task_id']}, batch {one['batch']})")
        if one["raw"] is not None:
            click.echo(f"  {plain(one['raw'])}")
    if not origins:
        click.echo("no such rows")
