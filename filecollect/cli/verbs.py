"""Commands that stop work and let it go on: `tasks` and `sources` with pause, resume, cancel and retry."""

from __future__ import annotations

from collections.abc import Sequence

import click

from filecollect.cli.context import Context, common_options
from filecollect.cli.lists import place
from filecollect.cli.render import document, harmless
from filecollect.domain.states import Verb
from filecollect.errors import UsageError
from filecollect.store import verbs
from filecollect.store.engine import reading

DONE: dict[Verb, str] = {"pause": "paused", "resume": "resumed", "cancel": "cancelled", "retry": "to be tried again"}


def _task_verb(verb: Verb, help_text: str) -> click.Command:
    @click.command(name=verb, help=help_text)
    @click.argument("which", nargs=-1, metavar="[ID|PATH]...")
    @click.option("--source", metavar="S", help="Only tasks of this source; without ID or PATH all of them.")
    @click.option("--all", "everything", is_flag=True, help="All tasks of all sources.")
    @common_options
    def command(ctx: Context, which: tuple[str, ...], source: str | None, everything: bool) -> None:
        if not which and source is None and not everything:
            raise UsageError("say which tasks", hint="ID..., PATH..., --source S or --all")
        if which and everything:
            raise UsageError("--all means every task, so ID or PATH cannot be given too")
        with ctx.open() as engine:
            if source is not None:
                with reading(engine) as conn:
                    verbs.must_be_known(conn, source)
            if which:
                changes = verbs.change_named(engine, verb, [place(one) for one in which], source)
            else:
                changes = list(verbs.change_all(engine, verb, source))
        _tell(ctx, verb, changes)

    return command


def _tell(ctx: Context, verb: Verb, changes: Sequence[verbs.Change]) -> None:
    if ctx.json:
        rows = [
            {"id": one.id, "source": one.source, "path": one.path, "from": one.old, "to": one.new} for one in changes
        ]
        document(f"tasks {verb}", tasks=rows)
    elif not ctx.quiet:
        for one in changes:
            click.echo(f"{one.id} {harmless(one.path)}: {one.old} -> {one.new}")
        click.echo(f"{len(changes)} task{'' if len(changes) == 1 else 's'} {DONE[verb]}")


pause = _task_verb("pause", "Stop work on tasks at a batch boundary; checkpoints stay.")
resume = _task_verb("resume", "Let paused tasks go on from their checkpoints.")
cancel = _task_verb("cancel", "Give tasks up at a batch boundary: rows stay, the rest is not read.")
retry = _task_verb("retry", "Try failed, cancelled or skipped tasks again now.")


@click.command()
@click.argument("source")
@click.option("--reason", metavar="TEXT", help="Why, for those who look at it later.")
@common_options
def pause_source(ctx: Context, source: str, reason: str | None) -> None:
    """Stop all work on a source at batch boundaries; its files are still found."""
    with ctx.open() as engine:
        changed, stopped = verbs.pause_source(engine, source, reason)
    if ctx.json:
        document("sources pause", source=source, changed=changed, stopped=stopped)
    elif not ctx.quiet:
        word = "paused" if changed else "is paused already"
        click.echo(f"source {source} {word}; {stopped} running task{'' if stopped == 1 else 's'} stopped")


@click.command()
@click.argument("source")
@common_options
def resume_source(ctx: Context, source: str) -> None:
    """Let workers take the files of a paused source again."""
    with ctx.open() as engine:
        changed = verbs.resume_source(engine, source)
    if ctx.json:
        document("sources resume", source=source, changed=changed)
    elif not ctx.quiet:
        click.echo(f"source {source} {'resumed' if changed else 'is not paused'}")
