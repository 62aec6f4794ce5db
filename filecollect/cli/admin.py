"""`filecollect db`, `config show` and `completion`."""

from __future__ import annotations

import json

import click

from filecollect.cli.context import Context, common_options
from filecollect.cli.render import document, plain
from filecollect.errors import UsageError


@click.command()
@common_options
def upgrade(ctx: Context) -> None:
    """Create or upgrade our tables."""
    from filecollect.store.migrate import current as version

    with ctx.open(create=True) as engine:
        now = version(engine)
    if ctx.json:
        document("db upgrade", schema_version=now)
    elif not ctx.quiet:
        click.echo(f"schema version {now}")


@click.command()
@click.option("--dialect", type=click.Choice(["sqlite", "postgresql"]), help="For which database; else for --db's.")
@common_options
def ddl(ctx: Context, dialect: str | None) -> None:
    """Print our tables' DDL."""
    from filecollect.store.ddl import render

    made_for = dialect or ("sqlite" if ctx.url.startswith("sqlite") else "postgresql")
    text = render(made_for)
    if ctx.json:
        document("db ddl", dialect=made_for, ddl=text)
    else:
        click.echo(text, nl=False)


@click.command()
@common_options
def current(ctx: Context) -> None:
    """Print the schema's version."""
    from filecollect.store.migrate import current as version

    with ctx.open(check=False) as engine:
        now = version(engine)
    if ctx.json:
        document("db current", schema_version=now)
    else:
        click.echo(now or "no tables of filecollect")


@click.command()
@common_options
def show(ctx: Context) -> None:
    """Print the effective config, secrets masked."""
    from filecollect.config import public_config

    if ctx.config is None:
        raise UsageError("no config file found", hint="`filecollect init PATH...` makes one")
    shown = public_config(ctx.config)
    if ctx.json:
        document("config show", config=shown)
    else:
        click.echo(json.dumps(shown, indent=2, ensure_ascii=False, default=plain))


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@common_options
def completion(ctx: Context, shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    from filecollect.cli.main import program

    made = get_completion_class(shell)
    if made is None:
        raise UsageError(f"no completion for {shell}")
    click.echo(made(program, {}, "filecollect", "_FILECOLLECT_COMPLETE").source())
