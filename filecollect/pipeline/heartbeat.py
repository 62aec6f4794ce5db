"""The heartbeat: a thread with its own connection that renews the leases of a worker.

It renews in id order and waits for nobody: rows of a commit in progress are locked and passed over,
and the commit renews them itself. A lease that turns out to be lost is dropped and counted; the fence of
the next commit refuses it and stops that task. A worker without a finished step for `stall_s` is not
renewed: better that somebody else goes on.
"""

from __future__ import annotations

import threading
from contextlib import suppress

from sqlalchemy import Engine

from filecollect import failpoints
from filecollect.clock import Clock
from filecollect.domain.lease import Lease
from filecollect.errors import DatabaseUnavailable
from filecollect.store.engine import transaction
from filecollect.store.tasks import note_heartbeat, renew


class Heartbeat:
    """Renew the leases in `held` every `every_s` seconds until stopped."""

    def __init__(
        self, engine: Engine, clock: Clock, *, owner: str, lease_s: float, every_s: float, stall_s: float
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.owner = owner
        self.lease_s = lease_s
        self.every_s = every_s
        self.stall_s = stall_s
        self.counters: dict[str, int] = {}
        self._held: dict[int, Lease] = {}
        self._lost: list[Lease] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._progress = clock.monotonic()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for it."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def hold(self, lease: Lease) -> None:
        """Begin to renew a lease."""
        with self._lock:
            self._held[lease.task_id] = lease

    def drop(self, lease: Lease) -> None:
        """Stop renewing a lease."""
        with self._lock:
            self._held.pop(lease.task_id, None)

    def held(self) -> set[int]:
        """Return the tasks whose leases are renewed."""
        with self._lock:
            return set(self._held)

    def take_lost(self) -> list[Lease]:
        """Return leases that turned out to be lost since the last call."""
        with self._lock:
            lost, self._lost = self._lost, []
        return lost

    def count(self, what: str) -> None:
        """Add one to a counter of this worker."""
        self.counters[what] = self.counters.get(what, 0) + 1

    def progress(self) -> None:
        """Note that a step was finished."""
        self._progress = self.clock.monotonic()

    def beat(self) -> None:
        """Renew once."""
        with self._lock:
            leases = list(self._held.values())
        if self.clock.monotonic() - self._progress > self.stall_s:
            return
        with transaction(self.engine) as conn:
            kept = renew(conn, owner=self.owner, leases=leases, lease_s=self.lease_s)
            note_heartbeat(conn, self.owner, dict(self.counters))
        for lease in leases:
            if lease.task_id not in kept:
                self.count("leases_lost")
                self.drop(lease)
                with self._lock:
                    self._lost.append(lease)

    def _run(self) -> None:
        while not self._stop.wait(self.every_s):
            failpoints.heartbeat_may_run.wait()
            with suppress(DatabaseUnavailable):
                self.beat()
