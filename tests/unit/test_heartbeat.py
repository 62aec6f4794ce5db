"""The heartbeat renews what is held, drops what is lost, and gives up a worker that stands still."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine

from filecollect.domain.lease import Lease, WorkerRecord, provably_dead
from filecollect.host import Host
from filecollect.pipeline.heartbeat import Heartbeat
from filecollect.store.engine import close, open_engine, reading, transaction
from filecollect.store.migrate import upgrade
from filecollect.store.tasks import add_task, claim
from filecollect.store.types import DatabaseNow


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def time(self) -> float:
        """Return the time."""
        return self.now

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


def leases(engine: Engine) -> list[str]:
    """Return how long each task is leased, in whole minutes from now."""
    query = "SELECT round((julianday(lease_until) - julianday('now')) * 1440) FROM collection_task ORDER BY id"
    with reading(engine) as conn:
        return [str(row[0]) for row in conn.exec_driver_sql(query)]


def test_held_leases_are_renewed_and_lost_ones_dropped(tmp_path: Path) -> None:
    """What somebody else took over is not renewed again; a stalled worker renews nothing."""
    engine = open_engine(str(tmp_path / "o.db"), create=True, checkpointer=True)
    upgrade(engine)
    with transaction(engine) as conn:
        ids = [
            add_task(conn, source_key="s", status="pending", next_run_at=DatabaseNow(), path=f"/{name}")
            for name in "ab"
        ]
        claimed = [task for task, _ in claim(conn, owner="me", among=ids, limit=9, lease_s=120, dead=())]
    clock = Hand()
    heartbeat = Heartbeat(engine, clock, owner="me", lease_s=600, every_s=30, stall_s=100)
    for task in claimed:
        heartbeat.hold(Lease(task.id, "me", task.version))
    with transaction(engine) as conn:
        claim(conn, owner="other", among=ids[1:], limit=1, lease_s=300, dead=("me",))

    heartbeat.beat()
    assert leases(engine) == ["10.0", "5.0"]
    with transaction(engine) as conn:
        conn.exec_driver_sql(
            "UPDATE collection_task SET lease_until = strftime('%Y-%m-%d %H:%M:%f', 'now', '+1 minutes')"
        )
    clock.sleep(101)
    heartbeat.beat()
    assert leases(engine) == ["1.0", "1.0"]
    heartbeat.progress()
    heartbeat.beat()
    assert leases(engine) == ["10.0", "1.0"]
    close(engine, truncate=True)


HERE = Host("h", "boot-1", "pid:[1]")
OTHER = WorkerRecord("o", "h", "boot-1", "pid:[1]", 42, "777")


@pytest.mark.parametrize(
    ("worker", "here", "start_of_pid", "visible", "dead"),
    [
        (OTHER, HERE, "777", True, False),  # it runs
        (OTHER, HERE, None, True, True),  # no such process
        (OTHER, HERE, "778", True, True),  # its pid was given to another process
        (OTHER, HERE, None, False, False),  # /proc shows nothing: no proof
        (OTHER, Host("h", "boot-2", "pid:[1]"), "777", True, True),  # another boot
        (OTHER, Host("other", "boot-1", "pid:[1]"), None, True, False),  # another host
        (OTHER, Host("h", "boot-1", "pid:[2]"), None, True, False),  # another PID namespace
        (OTHER, Host(None, "boot-1", "pid:[1]"), None, True, False),  # unreadable is no proof
        (OTHER, Host("h", None, "pid:[1]"), None, True, False),
        (OTHER, Host("h", "boot-1", None), None, True, False),
        (WorkerRecord("o", "h", "boot-1", "pid:[1]", 42, None), HERE, None, True, False),
    ],
)
def test_an_owner_is_dead_only_when_it_can_be_proven(
    worker: WorkerRecord, here: Host, start_of_pid: str | None, visible: bool, dead: bool
) -> None:
    """Same host and another boot, or same boot and namespace and no such process."""
    assert provably_dead(worker, here, start_of_pid, visible) is dead
