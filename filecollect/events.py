"""What can happen to a file, as a closed list of kinds; stored in `file_event`.

An event answers "why was this file skipped, re-read or replaced?" for a person. It is written in the
transaction that makes it true, never before.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

EventKind = Literal[
    "discovered",
    "continued",
    "renamed",
    "truncated",
    "replaced",
    "superseded",
    "compressed",
    "duplicate",
    "edited_before_checkpoint",
    "lost_bytes",
    "skipped",
    "skipped_start_at_end",
    "record_completed",
    "gone",
    "reappeared",
    "archived",
    "deleted",
    "failed",
    "permission_denied",
    "host_adopted",
    "replayed",
    "rolled_back",
    "already_covered",
    "takeover",
    "fenced",
    "retried",
    "paused",
    "resumed",
    "cancelled",
    "poison",
    "misfit",
]
KINDS: tuple[str, ...] = get_args(EventKind)


@dataclass(frozen=True, slots=True)
class FileEvent:
    """One thing that happened to a file; `path` in stored form (see `files.paths`)."""

    kind: EventKind
    path: str
    source_key: str | None = None
    task_id: int | None = None
    detail: dict[str, Any] = field(default_factory=dict)
