"""`filecollect replay`, `sources forget`, `quarantine retry` and `quarantine discard`."""

from __future__ import annotations

import sys
import time
from fnmatch import fnmatch

import click
from sqlalchemy import select

from filecollect import failpoints
from filecollect.cli.call import source_settings
from filecollect.cli.context import Context, common_options
from filecollect.cli.render import document
from filecollect.errors import UsageError
from filecollect.files.filesystem import LocalFileSystem
from filecollect.host import this_host
from filecollect.pipeline import rescue
from filecollect.pipeline.hosts import dead_owners
from filecollect.pipeline.plan import settings_of, stored_plan
from filecollect.pipeline.reshape import replay_with
from filecollect.pipeline.scan import wanted_of
from filecollect.store.engine import reading, transaction
from filecollect.store.quarantine import forget_source, open_items, settle
from filecollect.store.schema import collection_task
from filecollect.store.sources import stored_source, stored_sources
from filecollect.store.tasks import from_row


@click.command()
@click.argument("source")
@click.option("--path", help="Only files whose path matches this glob.")
@click.option("--set", "pairs", multiple=True, metavar="KEY=TOML", help="Read them with this setting of [source.*].")
@common_options
def replay(ctx: Context, source: str, path: str | None, pairs: tuple[str, ...]) -> None:
    """Take a source's files back to their start; the next backfill reads them again."""
    failpoints.arm()
    with ctx.open() as engine:
        with reading(engine) as conn:
            stored = stored_source(conn, source)
            rows = conn.execute(select(collection_task).where(collection_task.c.source_key == source))
            tasks = [from_row(row) for row in rows if path is None or fnmatch(row.path, path)]
            dead = dead_owners(conn, this_host(ctx.config.worker.host if ctx.config else None))
        if stored is None:
            raise UsageError(f"no source {source!r}", hint="filecollect sources list")
        if pairs:
            _, changes, _ = source_settings({"pairs": pairs}, None)
            count = replay_with(
                engine,
                LocalFileSystem(),
                stored,
                tasks,
                changes,
                wanted_of(settings_of(stored.config["settings"] | changes)),
                whole=path is None,
                dead=dead,
                now=time.time(),
            )
        else:
            count = rescue.replay(engine, LocalFileSystem(), stored_plan(stored), tasks, dead=dead, now=time.time())
    if ctx.json:
        document("replay", source=source, files=count)
    elif not ctx.quiet:
        click.echo(f"{count} files of {source} will be read again from their start by the next backfill")


@click.command()
@click.argument("source")
@common_options
def forget(ctx: Context, source: str) -> None:
    """Forget a source and its files' positions; its table stays as it is."""
    with ctx.open() as engine, transaction(engine) as conn:
        count = forget_source(conn, source)
    if ctx.json:
        document("sources forget", source=source, files=count)
    elif not ctx.quiet:
        click.echo(f"forgot source {source} and {count} files; its table stays")


@click.command()
@click.argument("ids", nargs=-1, type=int)
@click.option("--source", help="All open records of this source.")
@click.option("--all", "everything", is_flag=True, help="All open records.")
@common_options
def retry(ctx: Context, ids: tuple[int, ...], source: str | None, everything: bool) -> None:
    """Parse quarantined records again and put those in that are good now."""
    _chosen(ids, source, everything)
    failpoints.arm()
    good, still = 0, []
    with ctx.open() as engine:
        with reading(engine) as conn:
            items = open_items(conn, ids=ids, source=source)
            stored = stored_sources(conn)
        plans = {key: stored_plan(stored[key]) for key in {item.source_key for item in items}}
        for item in items:
            why = rescue.retry(engine, plans[item.source_key], item, now=time.time())
            if why is None:
                good += 1
            else:
                still.append({"id": item.id, "path": item.path, "line": item.line, "message": why})
    if ctx.json:
        document("quarantine retry", retried=good, still_bad=still)
    else:
        for one in still:
            click.echo(f"{one['id']} {one['path']}:{one['line']}: {one['message']}")
        click.echo(f"{good} retried, {len(still)} still bad")
    sys.exit(int(bool(still)))


@click.command()
@click.argument("ids", nargs=-1, type=int)
@click.option("--source", help="All open records of this source.")
@click.option("--all", "everything", is_flag=True, help="All open records.")
@common_options
def discard(ctx: Context, ids: tuple[int, ...], source: str | None, everything: bool) -> None:
    """Mark quarantined records as not wanted; they stay to be looked at."""
    _chosen(ids, source, everything)
    with ctx.open() as engine, transaction(engine) as conn:
        items = open_items(conn, ids=ids, source=source)
        for item in items:
            settle(conn, item, "discarded")
    if ctx.json:
        document("quarantine discard", discarded=len(items))
    elif not ctx.quiet:
        click.echo(f"{len(items)} discarded")


def _chosen(ids: tuple[int, ...], source: str | None, everything: bool) -> None:
    if not ids and source is None and not everything:
        raise UsageError("say which records", hint="ID..., --source S or --all")
