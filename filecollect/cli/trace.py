"""`filecollect trace`: where a row came from."""

from __future__ import annotations

import click

from filecollect.cli.context import Context, common_options
from filecollect.cli.render import document, harmless, plain
from filecollect.files.filesystem import LocalFileSystem
from filecollect.pipeline.trace import trace as find_origins
from filecollect.store.engine import reading


@click.command()
@click.argument("table")
@click.option("--where", metavar="SQL", default="1 = 1", help="An SQL condition on the table's rows.")
@click.option("--limit", type=click.IntRange(1), default=20, help="At most so many rows.")
@common_options
def trace(ctx: Context, table: str, where: str, limit: int) -> None:
    """Show where rows came from: path:line, raw bytes, batch."""
    with ctx.open() as engine, reading(engine) as conn:
        origins = find_origins(conn, LocalFileSystem(follow_symlinks=True), table, where, limit)
    if ctx.json:
        document("trace", rows=origins)
        return
    for one in origins:
        path = one["path"] or "a file that is forgotten"
        place = path if one["line"] is None else f"{path}:{one['line']}"
        batch = "" if one["batch"] is None else f", batch {one['batch']}"
        click.echo(f"{harmless(place)} (byte {one['offset']}, task {one['task_id']}{batch})")
        if one["raw"] is None:
            click.echo("  (its bytes are not there any more)")
        else:
            for line in plain(one["raw"]).split("\n"):
                click.echo(f"  {harmless(line)}")
    if not origins:
        click.echo("no such rows")
