"""`filecollect backfill`: one bounded round over files."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from filecollect.app import Round, sqlite_files
from filecollect.cli.call import source_settings
from filecollect.cli.context import Context, common_options
from filecollect.cli.render import document, human_size
from filecollect.errors import UsageError
from filecollect.parse.spec import UNDECODABLE
from filecollect.pipeline.backfill import Summary
from filecollect.pipeline.scan import Call

OUTCOMES = ("loaded", "continued", "replaced", "unchanged", "duplicate", "skipped", "failed")


class Stopper:
    """Remember the first signal that asks to stop; a second one ends the process at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: Any) -> None:
        if self.signal is not None:
            os._exit(128 + number)
        self.signal = number

    def __call__(self) -> bool:
        """Return whether the round should stop at the next batch boundary."""
        return self.signal is not None


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--source", help="Load into this source; without PATH, only this one of the config.")
@click.option("--table", help="Load into this table (and source of that name).")
@click.option("--format", "format_name", help="csv, json, jsonl, lines or auto.")
@click.option("--key", help="Columns of the business key, comma-separated.")
@click.option("--set", "pairs", multiple=True, metavar="KEY=TOML", help="Any setting of [source.*].")
@click.option("--delimiter", help="The CSV delimiter.")
@click.option("--no-header", is_flag=True, help="The files have no header row.")
@click.option("--encoding", help="The files' encoding.")
@click.option("--null", "nulls", multiple=True, metavar="WORD", help="A word that means NULL; may be repeated.")
@click.option("--workers", type=click.IntRange(1, 256), help="Worker processes.")
@click.option("--batch-rows", type=click.IntRange(1, 1_000_000), help="Records in one commit.")
@click.option("--dry-run", is_flag=True, help="Say what would be loaded; write nothing.")
@click.option("--no-config", is_flag=True, help="Ignore any config file.")
@click.option("--strict", is_flag=True, help="Exit 1 when a file was skipped, too.")
@click.option("--alter", is_flag=True, help="Allow ALTER TABLE on a table that is not ours.")
@common_options
def backfill(ctx: Context, paths: tuple[str, ...], **options: Any) -> None:
    """Load files into the database, once: a bounded round over PATHs or all configured sources."""
    started = time.monotonic()
    call, url = make_call(ctx, paths, options)
    stop = Stopper()
    round_ = Round(url, call, stop)
    with _progress(ctx) as show:
        summary = round_.run(show)
    code = summary.exit_code(strict=options["strict"])
    if summary.stopped and stop.signal is not None:
        code = 128 + stop.signal
    elapsed = time.monotonic() - started
    if ctx.json:
        document("backfill", **as_json(summary, code, elapsed))
    elif not ctx.quiet:
        print_summary(summary, elapsed, dry_run=options["dry_run"])
    sys.exit(code)


def make_call(
    ctx: Context, paths: tuple[str, ...], options: dict[str, Any], *, follow: bool = False
) -> tuple[Call, str]:
    """Return the call and the database URL; raise UsageError for what cannot be meant.

    With `follow`, files named in the call are followed unless the call says otherwise.
    """
    for path in paths:
        if path == "-" or path.startswith(("/dev/stdin", "/dev/fd/")):
            raise UsageError(
                "standard input cannot be read again after a crash", hint="write it to a file first: ... > x.jsonl"
            )
        if path.lower().endswith((".db", ".sqlite", ".sqlite3")):
            raise UsageError("a database is not a file to load", path=path, hint=f"--db {path} names it")
        if "://" in path:
            raise UsageError("URLs are not read", path=path, hint="download it first: curl -O URL")
    config = None if options["no_config"] else ctx.config
    url = ctx.url if not options["no_config"] else ctx.url_without_config
    base, changes, said = source_settings(options, config)
    assumed = {"follow": True} if follow and "follow" not in base.model_fields_set and base.ready is None else {}
    base = base.model_copy(update=assumed)
    never = [*sqlite_files(url), *([str(config.origin)] if config and config.origin else [])]
    call = Call(
        paths=paths,
        base=base,
        changes=changes,
        assumed=assumed,
        said=said,
        source=options["source"],
        table=options["table"],
        workers=options["workers"],
        dry_run=options["dry_run"],
        alter=options["alter"],
        config=config,
        never=tuple(never),
        cwd=Path.cwd(),
    )
    return call, url


class _progress:
    """A progress bar on standard error, when it is a terminal."""

    def __init__(self, ctx: Context) -> None:
        self.shown = sys.stderr.isatty() and not ctx.quiet and not ctx.json
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self.started = time.monotonic()

    def __enter__(self) -> Callable[[Summary, str], None]:
        if not self.shown:
            return lambda summary, what: None
        self.bar.start()
        task = self.bar.add_task("looking at files", total=None, rate="")

        def show(summary: Summary, what: str) -> None:
            elapsed = max(time.monotonic() - self.started, 0.001)
            self.bar.update(
                task,
                description=what,
                total=summary.bytes_total or None,
                completed=summary.bytes_done,
                rate=f"{summary.rows / elapsed:,.0f} rows/s",
            )

        return show

    def __exit__(self, *_: object) -> None:
        if self.shown:
            self.bar.stop()


def as_json(summary: Summary, code: int, elapsed: float) -> dict[str, Any]:
    """Return the summary in the shape of the contract."""
    sources = []
    for one in summary.sources.values():
        files = [result.outcome for result in summary.files if result.source == one.source]
        columns = [
            {
                "name": column["name"],
                "from": column["from"],
                "type": column["type"],
                "nulls": one.nulls.get(column["name"], 0),
                "misfits": one.misfits.get(column["name"], 0),
            }
            for column in one.columns
        ]
        sources.append(
            {
                "source": one.source,
                "table": one.table,
                "created": one.created,
                "format": one.format,
                "columns": columns,
                "files": {outcome: files.count(outcome) for outcome in OUTCOMES if outcome in files},
            }
        )
    return {
        "exit_code": code,
        "elapsed_s": round(elapsed, 3),
        "bytes": summary.bytes_done,
        "rows": {"inserted": summary.inserted, "updated": summary.updated, "ignored": summary.ignored},
        "quarantined": summary.quarantined,
        "skipped": summary.skipped,
        "sources": sources,
        "files": [
            {
                "path": one.path,
                "task_id": one.task_id,
                "source": one.source,
                "outcome": one.outcome,
                "rows": one.rows,
                "quarantined": one.quarantined,
                "bytes": one.bytes,
                "reason": one.reason,
                "message": one.message,
            }
            for one in summary.files
        ],
    }


def print_summary(summary: Summary, elapsed: float, *, dry_run: bool) -> None:
    """Print what a person wants to know: per source, then everything that needs a look."""
    for warning in summary.warnings:
        click.echo(f"warning: {warning}", err=True)
    for one in summary.sources.values():
        results = [result for result in summary.files if result.source == one.source]
        counts = [(outcome, sum(result.outcome == outcome for result in results)) for outcome in OUTCOMES]
        files = ", ".join(f"{count} {outcome}" for outcome, count in counts if count)
        rows = sum(result.rows for result in results)
        new = " (new table)" if one.created and not dry_run else ""
        click.echo(
            f"{one.source} -> {one.table}{new}: {one.format}, {len(one.columns)} columns; {files}; {rows:,} rows"
        )
        for name, count in one.misfits.items():
            if name == UNDECODABLE:
                click.echo(f"  {count:,} records held bytes that are not in the file's encoding: replaced by U+FFFD")
                continue
            click.echo(
                f"  {count:,} values do not fit column {name}: NULL there, the raw value is in _extra; "
                f"`filecollect sources retype {one.source} {name} text` keeps them"
            )
    for result in summary.files:
        if result.outcome in {"failed", "skipped", "duplicate"} or result.message or result.quarantined:
            said = [result.outcome]
            if result.quarantined:
                said.append(f"{result.quarantined:,} records in quarantine")
            if result.message:
                said.append(result.message)
            click.echo(f"{result.path}: {'; '.join(said)}")
    if not summary.files:
        click.echo("nothing to load")
        return
    verb = "would be read" if dry_run else "read"
    size = sum(one.size for one in summary.files) if dry_run else summary.bytes_done
    click.echo(
        f"{summary.rows:,} rows, {summary.quarantined:,} quarantined, {human_size(size)} {verb} in {elapsed:.1f} s"
    )
    if summary.quarantined:
        click.echo("see `filecollect quarantine list`")
    if summary.stopped:
        click.echo("stopped at a batch boundary; run it again to go on")
