"""The heartbeat renews what is held, drops what is lost, and gives up a worker that stands still."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine

from filecollect.clock import SystemClock
from filecollect.domain.lease import Lease, WorkerRecord, provably_dead
from filecollect.host import Host
from filecollect.pipeline.heartbeat import Heartbeat
from filecollect.store.claim import claim
from filecollect.store.commit import Committed, commit
from filecollect.store.engine import close, open_engine, reading, transaction
from filecollect.store.migrate import upgrade
from filecollect.store.tasks import add_task
from filecollect.store.types import DatabaseNow
from tests.unit.test_commit import PLAIN, part, step


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
    assert heartbeat.held() == {ids[0]}
    assert heartbeat.counters == {"leases_lost": 1}
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


def held(engine: Engine, paths: str, lease_s: float = 120) -> list[Lease]:
    """Record due tasks and claim them."""
    with transaction(engine) as conn:
        for path in paths:
            add_task(conn, source_key="s", status="pending", next_run_at=DatabaseNow(), path=f"/{path}")
        claimed = claim(conn, owner="me", among=None, limit=100, lease_s=lease_s, dead=())
    return [Lease(task.id, "me", task.version) for task, _ in claimed]


def beats(engine: Engine, leases: list[Lease], lease_s: float = 600) -> Heartbeat:
    """Return a heartbeat that holds leases."""
    heartbeat = Heartbeat(engine, SystemClock(), owner="me", lease_s=lease_s, every_s=30, stall_s=100)
    for lease in leases:
        heartbeat.hold(lease)
    return heartbeat


def test_a_heartbeat_passes_over_a_commit_in_progress_and_loses_nothing(postgresql: Engine) -> None:
    """No wait for the locked row, the others are renewed, and the locked one stays held."""
    leases = held(postgresql, "abc")
    heartbeat = beats(postgresql, leases)
    with transaction(postgresql) as commit_in_progress:
        commit_in_progress.exec_driver_sql(f"SELECT 1 FROM collection_task WHERE id = {leases[1].task_id} FOR UPDATE")
        beat = threading.Thread(target=heartbeat.beat, daemon=True)
        beat.start()
        beat.join(20)
        assert not beat.is_alive(), "the heartbeat waits for the commit"
    assert heartbeat.held() == {lease.task_id for lease in leases}
    with reading(postgresql) as conn:
        query = "SELECT lease_until > clock_timestamp() + interval '5 minutes' FROM collection_task ORDER BY id"
        assert [row[0] for row in conn.exec_driver_sql(query)] == [True, False, True]


def test_a_commit_longer_than_its_lease_keeps_its_task(postgresql: Engine) -> None:
    """While it writes nobody can take the task over, and its lease is new when it stands."""
    with transaction(postgresql) as conn:
        PLAIN.create(conn)
        conn.exec_driver_sql(
            "CREATE FUNCTION slow() RETURNS trigger AS $$ BEGIN PERFORM pg_sleep(1.5); RETURN new; END $$ "
            "LANGUAGE plpgsql"
        )
        conn.exec_driver_sql("CREATE TRIGGER slow BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION slow()")
    (lease,) = held(postgresql, "a", lease_s=1)
    heartbeat = beats(postgresql, [lease], lease_s=1)
    results: list[Committed] = []
    committing = threading.Thread(
        target=lambda: results.extend(commit(postgresql, [part(lease, step([(1, "a")]))], lease_s=1))
    )
    committing.start()
    thefts = 0
    while committing.is_alive():
        heartbeat.beat()
        with transaction(postgresql) as conn:
            thefts += len(claim(conn, owner="thief", among=None, limit=5, lease_s=60, dead=()))
        committing.join(0.05)
    committing.join()

    assert [(one.lost, one.inserted) for one in results] == [(False, 1)]
    assert thefts == 0
    assert heartbeat.held() == {lease.task_id}
    with reading(postgresql) as conn:
        left = conn.exec_driver_sql("SELECT lease_until > clock_timestamp() FROM collection_task").scalar()
    assert left, "the lease was over as soon as the commit stood"


def test_heartbeats_beside_group_commits_neither_deadlock_nor_lose_a_task(postgresql: Engine) -> None:
    """Two workers commit groups of many tasks, heartbeats run without a pause, nothing is refused."""
    with transaction(postgresql) as conn:
        PLAIN.create(conn)
    leases = held(postgresql, "abcdefghijklmnopqrst")
    heartbeat = beats(postgresql, leases)
    problems: list[BaseException] = []
    done = threading.Event()

    def watched(action: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                action()
            except BaseException as problem:
                problems.append(problem)

        return run

    def commits(mine: list[Lease]) -> Callable[[], None]:
        def run() -> None:
            for number in range(40):
                # The caller's order is not the order of ids.
                group = [part(lease, step([(number, "x")], start=10 * number)) for lease in reversed(mine)]
                assert not any(one.lost for one in commit(postgresql, group, lease_s=60))

        return run

    def beating() -> None:
        while not done.is_set():
            heartbeat.beat()

    workers = [threading.Thread(target=watched(commits(mine))) for mine in (leases[::2], leases[1::2])]
    pulse = threading.Thread(target=watched(beating))
    for thread in (*workers, pulse):
        thread.start()
    for thread in workers:
        thread.join()
    done.set()
    pulse.join()

    assert problems == []
    assert heartbeat.held() == {lease.task_id for lease in leases}
    assert heartbeat.counters == {}
    with reading(postgresql) as conn:
        assert conn.exec_driver_sql("SELECT count(*) FROM t").scalar() == 20 * 40


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
