"""`filecollect quarantine list`, `show` and `export`: records that could not become rows."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

import click

from filecollect.cli.context import Context, common_options
from filecollect.cli.lists import filters, matcher, output, period, place, print_one
from filecollect.cli.render import document
from filecollect.errors import UsageError
from filecollect.store import queries
from filecollect.store.engine import reading


@click.command()
@filters
@click.option("--state", type=click.Choice(["open", "retried", "discarded"]), help="Only this state.")
@common_options
def items(ctx: Context, state: str | None, source: str | None, path: str | None, since: str | None, limit: int) -> None:
    """List records that could not become rows, with the reason."""
    with ctx.open() as engine, reading(engine) as conn:
        rows = queries.quarantined(
            conn, source=source, path=matcher(path), since=period(since), state=state, limit=limit
        )
    if not ctx.json:
        rows = [
            {
                "id": row["id"],
                "state": row["state"],
                "source": row["source_key"],
                "place": f"{row['path']}:{row['line']}",
                "reason": row["reason"],
                "message": row["message"],
            }
            for row in rows
        ]
    output(ctx, "quarantine list", "items", rows, "nothing in quarantine")


@click.command()
@click.argument("which", metavar="ID|PATH")
@common_options
def item(ctx: Context, which: str) -> None:
    """Show one quarantined record, or all of a file, raw."""
    with ctx.open() as engine, reading(engine) as conn:
        rows = queries.quarantined_at(conn, place(which))
    if not rows:
        raise UsageError(f"no quarantined record {which}", hint="filecollect quarantine list")
    if ctx.json:
        document("quarantine show", items=rows)
        return
    for number, row in enumerate(rows):
        if number:
            click.echo()
        print_one(row)


@click.command()
@filters
@click.option("-o", "target", metavar="FILE", help="Write to this file; never overwritten.")
@common_options
def export(
    ctx: Context, target: str | None, source: str | None, path: str | None, since: str | None, limit: int | None
) -> None:
    """Write open quarantined records as JSON lines."""
    given = click.get_current_context().get_parameter_source("limit")
    everything = given is click.core.ParameterSource.DEFAULT
    with ctx.open() as engine, reading(engine) as conn:
        rows = queries.each_quarantined(
            conn, source=source, path=matcher(path), since=period(since), limit=None if everything else limit
        )
        if target in {None, "-"}:
            _write(sys.stdout, rows)
            return
        assert target is not None
        count = _write_new(Path(target), lambda file: _write(file, rows))
    if not ctx.quiet:
        click.echo(f"{count} records written to {target}", err=True)


def _write(file: TextIO, rows: Iterable[dict[str, Any]]) -> int:
    count = 0
    for row in rows:
        file.write(json.dumps(exported(row), ensure_ascii=False) + "\n")
        count += 1
    return count


def exported(row: dict[str, Any]) -> dict[str, Any]:
    """Return a quarantined record as it is exported; bytes that are no text as `raw_base64`."""
    raw = bytes(row["raw"])
    line = {
        "id": row["id"],
        "source": row["source_key"],
        "task_id": row["task_id"],
        "path": row["path"],
        "offset": row["start_offset"],
        "length": row["length"],
        "line": row["line"],
        "reason": row["reason"],
        "message": row["message"],
    }
    try:
        return line | {"raw": raw.decode()}
    except UnicodeDecodeError:
        return line | {"raw_base64": base64.b64encode(raw).decode()}


def _write_new(path: Path, write: Callable[[TextIO], int]) -> int:
    """Write a file that must not be there yet; half a file is taken away again."""
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError:
        raise UsageError("the file exists already and is not overwritten", path=str(path), hint="-o OTHER") from None
    except OSError as problem:
        raise UsageError(f"the file cannot be made: {problem.strerror}", path=str(path)) from problem
    try:
        with file:
            return write(file)
    except BaseException:
        os.unlink(path)
        raise
