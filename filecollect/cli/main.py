"""The entry point: lazily loaded commands, and every error as one sentence with an exit code.

`--help` imports no command: names and their one-line helps stand in a table here, and a test proves
that they are those of the commands.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

import click

from filecollect import __version__
from filecollect.errors import ConfigError, FilecollectError

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("preview:init", "Write a commented config that fits the files; never overwrites."),
    "check": ("preview:check", "Check the config: what each source matches, what overlaps."),
    "preview": ("preview:preview", "Show what files would become; no database."),
    "backfill": ("backfill:backfill", "Load files into the database, once: one bounded round."),
    "status": ("status:status", "Show sources, open tasks and workers."),
    "sources": ("", "What was decided about each source."),
    "tasks": ("", "The files, their positions and states."),
    "events": ("lists:events", "Why a file was skipped, re-read or replaced."),
    "trace": ("trace:trace", "Where rows came from: path:line, raw bytes, batch."),
    "replay": ("rescue:replay", "Take a source's files back to their start."),
    "quarantine": ("", "Records that could not become rows."),
    "db": ("", "The database's schema."),
    "config": ("", "The effective config."),
    "completion": ("admin:completion", "Print the completion script of a shell."),
}
GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "sources": {
        "list": ("lists:sources", "List sources."),
        "show": ("lists:source", "Show one source."),
        "forget": ("rescue:forget", "Forget a source; its table stays."),
    },
    "tasks": {
        "list": ("lists:tasks", "List tasks."),
        "show": ("lists:task", "Show one task with its ledger."),
    },
    "quarantine": {
        "list": ("lists:quarantine", "List quarantined records."),
        "show": ("lists:quarantined", "Show one quarantined record."),
        "export": ("lists:export", "Write quarantined records as JSON lines."),
        "retry": ("rescue:retry", "Parse records again and put the good ones in."),
        "discard": ("rescue:discard", "Mark records as not wanted."),
    },
    "db": {
        "upgrade": ("admin:upgrade", "Create or upgrade our tables."),
        "ddl": ("admin:ddl", "Print our tables' DDL."),
        "current": ("admin:current", "Print the schema's version."),
    },
    "config": {"show": ("admin:show", "Print the effective config, secrets masked.")},
}


class Lazy(click.Group):
    """A group whose commands are imported when they are called."""

    def __init__(self, name: str, table: dict[str, tuple[str, str]], **more: Any) -> None:
        super().__init__(name, **more)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the table's order."""
        return list(self.table)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import a command, or make the lazy group of that name."""
        if name not in self.table:
            return None
        place, text = self.table[name]
        if not place:
            return Lazy(name, GROUPS[name], help=text, context_settings={"help_option_names": ["-h", "--help"]})
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(importlib.import_module(f"filecollect.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands from the table, importing none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.table.items()])


@click.group(
    cls=Lazy,
    name="filecollect",
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="filecollect")
def program() -> None:
    """Collect files and logs into SQL tables, exactly once."""


def main() -> None:
    """Run the program; every error is one sentence and a documented exit code."""
    as_json = "--json" in sys.argv
    verbose = "-v" in sys.argv or "--verbose" in sys.argv
    try:
        code = program.main(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.ClickException as problem:
        if as_json:
            _say_json("usage", problem.format_message(), None, None)
        else:
            problem.show()
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except FilecollectError as problem:
        if as_json:
            _say_json(problem.code, problem.message, problem.path, problem.hint)
        else:
            lines = problem.mistakes if isinstance(problem, ConfigError) else [str(problem)]
            for line in lines:
                click.echo(f"filecollect: {line}", err=True)
            if problem.hint:
                click.echo(f"hint: {problem.hint}", err=True)
        sys.exit(problem.exit_code)
    except Exception as fault:
        if verbose:
            raise
        click.echo(f"filecollect: a fault in filecollect: {type(fault).__name__}: {fault}; -v shows where", err=True)
        sys.exit(1)


def _say_json(code: str, message: str, path: str | None, hint: str | None) -> None:
    error = {"code": code, "message": message, "path": path, "hint": hint}
    click.echo(json.dumps({"error": error}, ensure_ascii=False))
