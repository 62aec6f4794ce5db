"""`filecollect run`: the daemon."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import click

from filecollect.cli.backfill import Stopper, make_call
from filecollect.cli.context import Context, common_options
from filecollect.cli.render import document, harmless
from filecollect.daemon import run as run_daemon
from filecollect.errors import UsageError

SIGINT, SIGTERM = 2, 15


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--source", help="Load into this source; without PATH, only this one of the config.")
@click.option("--table", help="Load into this table (and source of that name).")
@click.option("--format", "format_name", help="csv, jsonl, lines or auto.")
@click.option("--key", help="Columns of the business key, comma-separated.")
@click.option("--set", "pairs", multiple=True, metavar="KEY=TOML", help="Any setting of [source.*].")
@click.option("--from-end", is_flag=True, help="Begin at the end of files that are new to the database now.")
@click.option("--workers", type=click.IntRange(1, 256), help="Worker processes; 1 works in this process.")
@click.option("--batch-rows", type=click.IntRange(1, 1_000_000), help="Records in one commit.")
@click.option("--no-config", is_flag=True, help="Ignore any config file.")
@common_options
def run(ctx: Context, paths: tuple[str, ...], from_end: bool, **options: Any) -> None:
    """Follow files and load drops as they come, until stopped."""
    options |= {"delimiter": None, "no_header": False, "encoding": None, "nulls": (), "dry_run": False, "alter": False}
    call, url = make_call(ctx, paths, options, follow=True)
    if not call.paths and not call.configured:
        raise UsageError(
            "no PATH given and no config file with sources found",
            hint="filecollect run PATH..., or `filecollect init PATH...` for a config",
        )
    stop = Stopper()

    def say(level: str, sentence: str) -> None:
        if not ctx.quiet or level != "info":
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
            click.echo(f"{now}Z {level.upper()} {harmless(sentence)}", err=True)

    totals = run_daemon(url, call, say, stop, from_end=from_end)
    if ctx.json:
        rows = {"inserted": totals.inserted, "updated": totals.updated, "ignored": totals.ignored}
        document("run", rows=rows, quarantined=totals.quarantined, skipped=totals.skipped, bytes=totals.bytes)
    sys.exit(0 if stop.signal == SIGTERM else 128 + (stop.signal or SIGINT))
