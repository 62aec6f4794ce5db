"""The clock seam: local time, replaced in tests.

The local clock never decides who owns a task (the database's does); it only measures how long
something took, how old a file is, and stops a worker sooner than its lease.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tell the time and wait."""

    def time(self) -> float:
        """Return seconds since the epoch."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never steps back."""

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""


class SystemClock:
    """The machine's clock."""

    def time(self) -> float:
        """Return seconds since the epoch."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds on a clock that never steps back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""
        time.sleep(seconds)


def utc_text(seconds: float) -> str:
    """Return an instant as `YYYY-MM-DD HH:MM:SS.mmm` in UTC, always three digits."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
