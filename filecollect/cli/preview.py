"""`filecollect preview`, `check` and `init`: look before anything is written."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from filecollect.app import assignment_only
from filecollect.cli.backfill import make_call
from filecollect.cli.context import Context, common_options
from filecollect.cli.render import document
from filecollect.config import TemplateSource, remarks, template, unsupported_in
from filecollect.errors import ConfigError, UsageError
from filecollect.files.filesystem import LocalFileSystem
from filecollect.pipeline.preview import Preview
from filecollect.pipeline.preview import preview as look
from filecollect.pipeline.scan import Call, Scanner

NO_OPTIONS: dict[str, Any] = {"source": None, "table": None, "workers": None, "dry_run": True, "alter": False}


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("--format", "format_name", help="csv, json, jsonl, lines or auto.")
@click.option("--set", "pairs", multiple=True, metavar="KEY=TOML", help="Any setting of [source.*].")
@click.option("-n", "limit", type=click.IntRange(1), default=5, help="Rows to show of each file.")
@common_options
def preview(ctx: Context, paths: tuple[str, ...], limit: int, **options: Any) -> None:
    """Show what files would become: source, table, format and why, columns, rows, bad rows."""
    call, _ = make_call(ctx, paths, NO_OPTIONS | {"no_config": True} | options)
    assignment, _ = assignment_only(call, None)
    files = LocalFileSystem(follow_symlinks=call.base.follow_symlinks)
    shown = [
        (look(files, found, plan, limit), assignment.why.get(key, ()))
        for key, (plan, members) in assignment.files.items()
        for found in members
    ]
    if ctx.json:
        document(
            "preview",
            files=[_as_json(one, why) for one, why in shown],
            refused=[{"path": one.path, "outcome": one.outcome, "message": one.message} for one in assignment.refused],
        )
    else:
        for one, why in shown:
            _print(one, why)
        for refused in assignment.refused:
            click.echo(f"{refused.path}: {refused.outcome}; {refused.message}")
    sys.exit(int(any(one.bad for one, _ in shown) or any(one.outcome == "failed" for one in assignment.refused)))


def _as_json(one: Preview, why: tuple[str, ...]) -> dict[str, Any]:
    plan = one.plan
    return {
        "path": one.path,
        "source": plan.source_key,
        "table": plan.destination.table,
        "spec": plan.spec.to_json(),
        "why": list(why),
        "columns": [column.to_json() for column in plan.columns],
        "rows": one.rows,
        "bad": [
            {"offset": bad.offset, "line": bad.line, "reason": bad.reason, "message": bad.message} for bad in one.bad
        ],
    }


def _print(one: Preview, why: tuple[str, ...]) -> None:
    plan = one.plan
    spec = plan.spec.to_json()
    click.echo(f"{one.path}")
    click.echo(
        f"  source {plan.source_key} -> table {plan.destination.table}, follow = {str(plan.settings.follow).lower()}"
    )
    said = ", ".join(
        f"{name} {spec[name]!r}" for name in ("encoding", "delimiter", "header") if spec.get(name) is not None
    )
    click.echo(f"  {plan.spec.format} ({said})")
    for sentence in why:
        click.echo(f"    {sentence}")
    click.echo("  columns: " + ", ".join(f"{column.name} {column.type}" for column in plan.columns))
    for row in one.rows:
        click.echo("  | " + " | ".join("NULL" if value is None else str(value) for value in row.values()))
    for bad in one.bad:
        click.echo(f"  line {bad.line}: {bad.reason}: {bad.message}")


@click.command()
@common_options
def check(ctx: Context) -> None:
    """Check the config: what each source matches, what overlaps; nothing is written."""
    config = ctx.config
    if config is None:
        raise UsageError("no config file found", hint="`filecollect init PATH...` makes one")
    problems = unsupported_in(config)
    if problems:
        raise ConfigError(problems)
    matched: dict[str, list[str]] = {}
    sources = []
    warnings = list(remarks(config))
    call, _ = make_call(ctx, (), NO_OPTIONS | {"no_config": False})
    groups = Scanner(call, LocalFileSystem()).scan() if config.source else []
    for group in groups:
        key, scan = str(group.source), group.scan
        for one in scan.files:
            matched.setdefault(one.path, []).append(key)
        warnings += [f"source {key}: {pattern}: no file matches" for pattern in (*scan.unmatched, *scan.missing)]
        warnings += [f"source {key}: {problem.path}: {problem.message}" for problem in scan.problems]
        sources.append({"source": key, "files": len(scan.files), "bytes": sum(one.stat.size for one in scan.files)})
    overlaps = {path: keys for path, keys in matched.items() if len(keys) > 1}
    warnings += [f"{path}: matched by sources {', '.join(keys)}" for path, keys in overlaps.items()]
    if ctx.json:
        document("check", database=ctx.shown_url, sources=sources, warnings=warnings)
    else:
        click.echo(f"database: {ctx.shown_url}")
        for source in sources:
            click.echo(f"source {source['source']}: {source['files']} files, {source['bytes']:,} bytes")
        for warning in warnings:
            click.echo(f"warning: {warning}", err=True)
    sys.exit(int(bool(overlaps)))


@click.command()
@click.argument("paths", nargs=-1)
@click.option("-o", "output", default="filecollect.toml", help="Where to write; never overwritten.")
@common_options
def init(ctx: Context, paths: tuple[str, ...], output: str) -> None:
    """Write a commented config that fits the files; never overwrites."""
    target = Path(output)
    if target.exists():
        raise UsageError("the file exists already and is not overwritten", path=output, hint="-o OTHER")
    sources: list[TemplateSource] = []
    if paths:
        call, _ = make_call(ctx, paths, NO_OPTIONS | {"no_config": True})
        assignment, _ = assignment_only(call, None)
        for key, (plan, members) in assignment.files.items():
            names = [_pattern(call, member.path) for member in members]
            sources.append(TemplateSource(key, tuple(dict.fromkeys(names)), plan.spec.format, plan.settings.follow))
    text = template(sources, "filecollect.db")
    with target.open("x", encoding="utf-8") as file:
        file.write(text)
    if ctx.json:
        document("init", path=str(target), sources=[source.name for source in sources])
    elif not ctx.quiet:
        click.echo(f"wrote {target} with {len(sources)} sources; `filecollect check` looks at it")


def _pattern(call: Call, path: str) -> str:
    """Return a path for the config: relative to the working directory where it lies below it."""
    try:
        return str(Path(path).relative_to(call.cwd))
    except ValueError:
        return path
