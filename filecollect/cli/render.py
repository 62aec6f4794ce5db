"""Output: one JSON document, or plain text; results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click

from filecollect import __version__
from filecollect.clock import utc_text


def document(command: str, **payload: Any) -> None:
    """Print the JSON document of a command."""
    whole = {"schema": 1, "command": command, "version": __version__, "at": utc_text(time.time()), **payload}
    click.echo(json.dumps(whole, ensure_ascii=False, default=plain))


def plain(value: Any) -> Any:
    """Return a value as JSON knows it: instants as text, bytes as text where they are text."""
    if isinstance(value, datetime):
        return utc_text(value.timestamp())
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def table(rows: Sequence[dict[str, Any]], nothing: str) -> None:
    """Print rows in aligned columns, or the sentence `nothing`."""
    if not rows:
        click.echo(nothing)
        return
    names = list(rows[0])
    cells = [names, *([_cell(row[name]) for name in names] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(names))]
    for line in cells:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, default=plain)
    text = value if isinstance(value, str) else f"{value:,}" if isinstance(value, int) else str(plain(value))
    return " ".join(text.split())


def human_size(size: float) -> str:
    """Return bytes as people read them."""
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
