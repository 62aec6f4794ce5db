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


Verb = Literal["pause", "resume", "cancel", "retry"]

VERBS: dict[Verb, tuple[Status, frozenset[str]]] = {
    "pause": ("paused", frozenset({"pending", "running", "delivering"})),
    "resume": ("pending", frozenset({"paused"})),
    "cancel": ("cancelled", frozenset({"pending", "running", "delivering", "failed", "paused"})),
    "retry": ("pending", frozenset({"pending", "failed", "cancelled", "skipped"})),
}
"""What an operator may ask for: the state it leads to, and from which ones.

A task that has gone goes on by itself when its file is there again; a succeeded one is replayed.
"""


def may_change(old: str, new: str) -> bool:
    """Return whether a task in state `old` may become `new`, or stay what it is."""
    return old == new or new in CHANGES[old]
