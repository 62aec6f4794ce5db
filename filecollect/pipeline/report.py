"""What a worker tells the round about a task, in small values that travel between processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class TaskReport:
    """News of one task: counts since the last report, and its end when there is one.

    `bytes` are bytes on disk moved past; `ended` is None while the task goes on; `began` says that a
    worker holds it from now on. idle = a tailed file was let go, moved = its bytes are not at its path,
    truncated = compressed content ends inside a block.
    """

    task_id: int
    bytes: int = 0
    inserted: int = 0
    updated: int = 0
    ignored: int = 0
    quarantined: int = 0
    skipped: int = 0
    misfits: dict[str, int] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)
    ended: Literal["done", "left", "truncated", "failed", "later", "lost", "stopped", "idle", "moved"] | None = None
    message: str | None = None
    reason: str | None = None
    began: bool = False


Report = Callable[[TaskReport], None]
