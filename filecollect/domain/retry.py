"""When to try again: exponential backoff with jitter."""

from __future__ import annotations

FIRST_S = 5.0
LONGEST_S = 30 * 60.0


def backoff_s(attempt: int, jitter: float) -> float:
    """Return seconds to wait after failed `attempt` (1, 2, ...); `jitter` in [0, 1) adds up to a quarter."""
    exponent = min(max(attempt, 1) - 1, 20)
    return min(FIRST_S * 2.0**exponent, LONGEST_S) * (1 + jitter / 4)
