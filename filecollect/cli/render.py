"""Output: one JSON document, or text; results on standard output, everything else on standard error.

On a terminal that is wide enough tables are drawn by rich, and numbers have their thousands marked;
else, and in a pipe, they are plain aligned columns, never cut, with digits that programs read. Control
characters of file names and records are written as escapes, so that no file can steer a terminal.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from filecollect import __version__
from filecollect.clock import utc_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

IDENTIFIERS = frozenset({"id", "task", "task_id", "line", "offset", "start_offset"})
"""Columns whose numbers are names of things: never written with thousands marks."""


def document(command: str, **payload: Any) -> None:
    """Print the JSON document of a command."""
    whole = {"schema": 1, "command": command, "version": __version__, "at": utc_text(time.time()), **payload}
    click.echo(json.dumps(whole, ensure_ascii=False, default=plain))


def plain(value: Any) -> Any:
    """Return a value as JSON knows it: instants as text, bytes as text where they are text."""
    if isinstance(value, datetime):
        return utc_text(value.timestamp())
    if isinstance(value, bytes | memoryview):
        return bytes(value).decode("utf-8", "backslashreplace")
    return str(value)


def harmless(text: str) -> str:
    """Return one line of text in which control characters are escapes."""
    return "".join(c if c.isprintable() or c == " " else repr(c)[1:-1] for c in text)


def table(rows: Sequence[Mapping[str, Any]], nothing: str) -> None:
    """Print rows in columns, or the sentence `nothing`."""
    if not rows:
        click.echo(nothing)
        return
    console = terminal()
    if console is not None and fits(rows, console):
        console.print(rich_table(rows))
    else:
        click.echo("\n".join(aligned(rows)))


def terminal() -> Console | None:
    """Return the terminal that standard output is, None when it is none."""
    if not sys.stdout.isatty():
        return None
    from rich.console import Console

    return Console()


def fits(rows: Sequence[Mapping[str, Any]], console: Console) -> bool:
    """Return whether rows need no folding; folded to a few characters a column nothing can be read."""
    from rich.cells import cell_len

    # Thousands marks make a line a little longer than it is in a pipe.
    return max(map(cell_len, aligned(rows)), default=0) * 9 // 8 <= console.width


def aligned(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a heading and rows as lines of aligned columns, nothing shortened."""
    names = list(rows[0])
    cells = [names, *([cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def rich_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows as a table for a terminal; long values fold, none is cut."""
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for name, value in rows[0].items():
        numeric = isinstance(value, int) and not isinstance(value, bool)
        drawn.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell(value, marked=name not in IDENTIFIERS)) for name, value in row.items()))
    return drawn


def cell(value: Any, *, marked: bool = False) -> str:
    """Return a value on one line; `marked` groups the digits of whole numbers."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if marked else str(value)
    if isinstance(value, dict | list):
        return harmless(json.dumps(value, ensure_ascii=False, default=plain))
    return harmless(str(plain(value)))


def human_size(size: float) -> str:
    """Return bytes as people read them."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def human_time(seconds: float) -> str:
    """Return a duration as people read it: `850 ms`, `12.0 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for size, unit, smaller, name in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {name}"
    return f"{whole} s"
