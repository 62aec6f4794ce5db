"""The entry point: lazily loaded commands, and every error as one sentence with an exit code.

`--help` and completion import no command: names and their one-line helps stand in a table here, and
a test proves that they are those of the commands.

Exit codes: what the command says; 2 for a wrong call; the error's own for every FilecollectError;
130 for Ctrl-C; 1 for a fault of our own, whose traceback needs `-v`. A reader that went away (`| head`)
is no error. With `--json` every error is one document on standard output.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from click.shell_completion import CompletionItem

from filecollect import __version__
from filecollect.errors import ConfigError, FilecollectError, UsageError

COMMANDS: dict[str, tuple[str, str]] = {
    "init": ("preview:init", "Write a commented config that fits the files; never overwrites."),
    "check": ("preview:check", "Check the config: what each source matches, what overlaps."),
    "preview": ("preview:preview", "Show what files would become; no database."),
    "backfill": ("backfill:backfill", "Load files into the database, once: one bounded round."),
    "run": ("run:run", "Follow files and load drops as they come, until stopped."),
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
        "pause": ("verbs:pause_source", "Stop all work on a source; its files are still found."),
        "resume": ("verbs:resume_source", "Let a paused source go on."),
        "forget": ("rescue:forget", "Forget a source; its table stays."),
    },
    "tasks": {
        "list": ("lists:tasks", "List tasks."),
        "show": ("lists:task", "Show one task with its ledger."),
        "pause": ("verbs:pause", "Stop work on tasks; checkpoints stay."),
        "resume": ("verbs:resume", "Let paused tasks go on."),
        "cancel": ("verbs:cancel", "Give tasks up: rows stay, the rest is not read."),
        "retry": ("verbs:retry", "Try failed, cancelled or skipped tasks again now."),
    },
    "quarantine": {
        "list": ("quarantine:items", "List quarantined records."),
        "show": ("quarantine:item", "Show quarantined records, raw."),
        "export": ("quarantine:export", "Write quarantined records as JSON lines."),
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


class ReaderGone(Exception):
    """Nobody reads standard output any more."""


@contextmanager
def _told_apart() -> Iterator[None]:
    """Tell apart that the reader went away, as click would exit 1 for it."""
    try:
        yield
    except BrokenPipeError as problem:
        raise ReaderGone from problem


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

    def make_context(self, *words: Any, **more: Any) -> click.Context:
        """Parse a call; `--help` and `--version` print here already."""
        with _told_apart():
            return super().make_context(*words, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        with _told_apart():
            result = super().invoke(ctx)
            sys.stdout.flush()
        return result

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names from the table, importing none; options as every command does."""
        names = [
            CompletionItem(name, help=text) for name, (_, text) in self.table.items() if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

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
    try:
        _run()
    except (ReaderGone, BrokenPipeError):
        # The rest goes nowhere, so that the interpreter's last flush does not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _run() -> None:
    words = sys.argv[1:]
    as_json = "--json" in words
    verbose = "--verbose" in words or any(word[:1] == "-" and word[1:2] != "-" and "v" in word for word in words)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A file name or record that the terminal's encoding lacks must not end the command.
            stream.reconfigure(errors="backslashreplace")
    try:
        code = program.main(prog_name="filecollect", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.ClickException as problem:
        _say_click(problem, as_json)
        sys.exit(2)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except (ReaderGone, BrokenPipeError):
        raise
    except FilecollectError as problem:
        _say(problem, as_json)
        sys.exit(problem.exit_code)
    except Exception as fault:
        if verbose:
            traceback.print_exc()
        said = " ".join(f"{type(fault).__name__}: {fault}".split())
        sentence = f"this is a fault in filecollect: {said}"
        _say(FilecollectError(sentence, hint=None if verbose else "-v shows where; please report it"), as_json, "fault")
        sys.exit(1)


def _say_click(problem: click.ClickException, as_json: bool) -> None:
    """Say what is wrong with a call; a group without its command shows its help instead."""
    context = getattr(problem, "ctx", None)
    if isinstance(problem, click.exceptions.NoArgsIsHelpError) and not as_json:
        click.echo(problem.format_message(), err=True)
        return
    message = problem.format_message()
    if isinstance(problem, click.exceptions.NoArgsIsHelpError):
        message = "a command is missing"
    hint = None if context is None else f"{context.command_path} -h"
    _say(UsageError(" ".join(message.split()), hint=hint), as_json)


def _say(problem: FilecollectError, as_json: bool, code: str | None = None) -> None:
    if as_json:
        error = {
            "code": code or problem.code,
            "message": problem.message,
            "path": problem.path,
            "hint": problem.hint,
        }
        click.echo(json.dumps({"error": error}, ensure_ascii=False))
        return
    for line in problem.mistakes if isinstance(problem, ConfigError) else [str(problem)]:
        click.echo(f"filecollect: {line}", err=True)
    if problem.hint:
        click.echo(f"hint: {problem.hint}", err=True)
