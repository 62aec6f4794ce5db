"""Waiting for a database that is away: nothing new is read meanwhile, so memory stays flat."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from filecollect.clock import Clock
from filecollect.errors import DatabaseUnavailable

T = TypeVar("T")

FIRST_WAIT_S = 0.2
LONGEST_WAIT_S = 5.0


def patiently(action: Callable[[], T], *, clock: Clock, should_stop: Callable[[], bool], within_s: float) -> T:
    """Return what `action` returns; while the database is away, call it again, for `within_s` at most.

    The action must be one that may be done twice. Raises DatabaseUnavailable when time is up or on a stop.
    """
    deadline = clock.monotonic() + within_s
    wait_s = FIRST_WAIT_S
    while True:
        try:
            return action()
        except DatabaseUnavailable:
            if clock.monotonic() > deadline or should_stop():
                raise
            clock.sleep(wait_s)
            wait_s = min(2 * wait_s, LONGEST_WAIT_S)
