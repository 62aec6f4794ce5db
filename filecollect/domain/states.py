"""The states of a task, and which change may follow which."""

from __future__ import annotations

from typing import Literal

Status = Literal["pending", "running", "delivering", "succeeded", "failed", "paused", "cancelled", "skipped", "gone"]

CHANGES: dict[str, frozenset[str]] = {
    "pending": frozenset({"running", "paused", "cancelled", "gone", "skipped", "failed"}),
    "running": frozenset({"running", "pending", "delivering", "succeeded", "failed", "paused", "cancelled", "gone"}),
    "delivering": frozenset({"pending", "succeeded", "failed", "paused", "cancelled"}),
    "succeeded": frozenset({"pending"}),
    "failed": frozenset({"pending", "cancelled"}),
    "paused": frozenset({"pending", "cancelled"}),
    "cancelled": frozenset({"pending"}),
    "skipped": frozenset({"pending"}),
    "gone": frozenset({"pending"}),
}

SETTLED = frozenset({"succeeded", "failed", "paused", "cancelled", "skipped", "gone"})
"""A round waits for no task in one of these."""


def may_change(old: Status, new: Status) -> bool:
    """Return whether a task in state `old` may become `new`."""
    return new in CHANGES[old]
