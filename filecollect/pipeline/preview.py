"""Preview: what a file would become, parsed by the same parsers, without a database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from filecollect.domain.batch import BadRecord
from filecollect.files.content import open_content
from filecollect.files.filesystem import FileSystem
from filecollect.files.finder import Found
from filecollect.files.paths import os_path, stored_path
from filecollect.parse.api import Tail
from filecollect.parse.build import make_parser
from filecollect.pipeline.plan import Plan

PREVIEW_BYTES = 1024 * 1024


@dataclass(slots=True)
class Preview:
    """The first records of a file as rows, and what is bad among them; `size` is the size on disk."""

    path: str
    plan: Plan
    size: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    bad: list[BadRecord] = field(default_factory=list)
    misfits: dict[str, int] = field(default_factory=dict)


def preview(files: FileSystem, found: Found, plan: Plan, limit: int) -> Preview:
    """Parse the first `limit` records of a file; raise FileUnavailable, Corrupt or Unsupported."""
    path = stored_path(found.path)
    with files.open(os_path(path)) as handle:
        size = handle.stat().size
        content = open_content(handle, size)
        data = content.read_at(0, PREVIEW_BYTES)
        end = content.end(len(data))
    parser = make_parser(plan.spec, plan.layout, None)
    tail = Tail.TAKE if end is not None and end.complete else Tail.WAIT
    parsed = parser.parse(data, offset=0, line=1, limit=limit, tail=tail)
    names = [column.name for column in plan.layout.columns]
    rows = []
    for index in range(len(parsed.records)):
        row = {name: column[index] for name, column in zip(names, parsed.records.columns, strict=True)}
        if index in parsed.records.extras:
            row["_extra"] = parsed.records.extras[index]
        rows.append(row)
    return Preview(path, plan, size, rows, parsed.bad, parsed.misfits)
