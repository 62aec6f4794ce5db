"""The states of a task, and which change may follow which."""

from __future__ import annotations

from typing import Literal

Status = Literal["pending", "running", "delivering", "succeeded", "failed", "paused", "cancelled", "skipped", "gone"]

CHANGES: dict[str, frozenset[str]] = {
    "pending": frozenset({"running", "succeeded", "paused", "cancelled", "gone", "skipped", "failed"}),
    "running": frozenset({"pending", "delivering", "succeeded", "failed", "paused", "cancelled", "gone", "skipped"}),
    "delivering": frozenset({"pending", "succeeded", "failed", "paused", "cancelled", "skipped"}),
    "succeeded": frozenset({"pending", "skipped"}),
    "failed": frozenset({"pending", "cancelled", "skipped"}),
    "paused": frozenset({"pending", "cancelled", "skipped"}),
    "cancelled": frozenset({"pending", "skipped"}),
    "skipped": frozenset({"pending"}),
    "gone": frozenset({"pending", "skipped"}),
}
"""Pending becomes succeeded when its bytes went after all of them were read; all become skipped when superseded."""


def may_change(old: str, new: str) -> bool:
    """Return whether a task in state `old` may become `new`, or stay what it is."""
    return old == new or new in CHANGES[old]
