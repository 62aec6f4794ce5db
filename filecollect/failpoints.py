"""Named places where tests let the process die, fail or stall.

`FILECOLLECT_FAILPOINTS="before_commit@3=kill,after_fetch=error,after_claim=pause:2.5"` arms them:
`@n` means the n-th hit in this process (default 1). Actions: `kill` (SIGKILL to ourselves), `error`
(raise a Retryable), `pause:SECONDS` (stand still, the heartbeat too). Without the variable a hit
costs one dictionary look-up. Names are registered here, so a typing error in a test is an error.
"""

from __future__ import annotations

import os
import signal
import threading
import time

from filecollect.errors import Retryable, UsageError

ENVIRONMENT = "FILECOLLECT_FAILPOINTS"

NAMES = frozenset(
    {
        "after_scan",  # files are listed, nothing is recorded yet
        "after_create_table",  # destination table committed, tasks not recorded
        "before_record",  # inside discovery's transaction, before its COMMIT
        "after_record",  # tasks are recorded
        "after_claim",  # tasks are leased, files not opened
        "after_open",  # a file is open and proven
        "after_fetch",  # a batch is read and parsed
        "after_fence",  # inside the commit: checkpoint moved, rows not written
        "after_rows",  # inside the commit: rows written, ledger not
        "before_commit",  # inside the commit: everything written, COMMIT not sent
        "after_commit",  # the COMMIT stands, the worker has not noticed
        "before_release",  # before a task is given back
        "before_rescue",  # replay, record_completed, quarantine retry: before their COMMIT
        "after_rescue",  # ... and after it
    }
)

heartbeat_may_run = threading.Event()
heartbeat_may_run.set()


class _Armed:
    """One armed failpoint: which hit, what then."""

    def __init__(self, at: int, action: str, seconds: float) -> None:
        self.at = at
        self.action = action
        self.seconds = seconds
        self.hits = 0


def _read(text: str) -> dict[str, list[_Armed]]:
    armed: dict[str, list[_Armed]] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        place, equals, what = entry.partition("=")
        name, _, count = place.partition("@")
        action, _, seconds = what.partition(":")
        try:
            at, wait = int(count or 1), float(seconds or 0)
        except ValueError:
            at = 0
            wait = 0.0
        if name not in NAMES or not equals or action not in {"kill", "error", "pause"} or at < 1:
            raise UsageError(
                f"{ENVIRONMENT}: expected NAME[@N]=kill|error|pause:SECONDS, got {entry!r}",
                hint=f"names: {', '.join(sorted(NAMES))}",
            )
        armed.setdefault(name, []).append(_Armed(at, action, wait))
    return armed


_armed: dict[str, list[_Armed]] = {}


def arm(text: str | None = None) -> None:
    """Arm the failpoints of `text`, or of the environment variable; forget earlier hits.

    Raises UsageError for an unknown name or action.
    """
    _armed.clear()
    _armed.update(_read(os.environ.get(ENVIRONMENT, "") if text is None else text))


def hit(name: str) -> None:
    """Pass the failpoint `name`: usually nothing happens."""
    for armed in _armed.get(name, ()):
        armed.hits += 1
        if armed.hits != armed.at:
            continue
        if armed.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if armed.action == "error":
            raise Retryable(f"failpoint {name}")
        heartbeat_may_run.clear()
        try:
            time.sleep(armed.seconds)
        finally:
            heartbeat_may_run.set()
