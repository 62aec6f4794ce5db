"""The claim: what is due, to whom, in which order; on both databases, and races on both."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, update

from filecollect.domain.lease import Lease
from filecollect.store.claim import any_claimable, claim, disown, in_turns
from filecollect.store.engine import reading, transaction
from filecollect.store.schema import collection_task
from filecollect.store.tasks import add_task, give_back, renew
from filecollect.store.types import DatabaseNow


def add(engine: Engine, source: str = "s", **values: Any) -> int:
    """Record a task, due unless said otherwise."""
    values = {"status": "pending", "next_run_at": DatabaseNow(), "path": "/f"} | values
    with transaction(engine) as conn:
        return add_task(conn, source_key=source, **values)


def take(engine: Engine, owner: str = "me", **more: Any) -> list[int]:
    """Claim and return the ids."""
    wanted = {"among": None, "limit": 10, "lease_s": 60, "dead": ()} | more
    with transaction(engine) as conn:
        return [task.id for task, _ in claim(conn, owner=owner, **wanted)]


def change(engine: Engine, task_id: int, **values: Any) -> None:
    """Change a task's row."""
    with transaction(engine) as conn:
        conn.execute(update(collection_task).where(collection_task.c.id == task_id).values(**values))


def events(engine: Engine) -> list[tuple[Any, ...]]:
    """Return task and kind of all events."""
    with reading(engine) as conn:
        return [tuple(row) for row in conn.exec_driver_sql("SELECT task_id, kind FROM file_event ORDER BY id")]


def test_due_tasks_are_claimed_oldest_first_and_written_to(database: Engine) -> None:
    """Owner, lease and version + 1 stand when the claim has committed; nobody else gets them."""
    ids = [add(database) for _ in range(5)]

    with transaction(database) as conn:
        claimed = claim(conn, owner="me", among=None, limit=3, lease_s=60, dead=())

    assert [task.id for task, _ in claimed] == ids[:3]
    assert {(task.owner_id, task.status, task.version) for task, _ in claimed} == {("me", "running", 1)}
    assert [stuck for _, stuck in claimed] == [False] * 3
    assert take(database, "other") == ids[3:]
    assert take(database, "third") == []


def test_what_is_not_due_is_left(database: Engine) -> None:
    """Dormant, waiting for its retry, finished, or held: none of these is claimed, nor announced."""
    ids = [
        add(database, next_run_at=None),
        add(database, next_run_at=DatabaseNow(3600)),
        add(database, status="succeeded"),
        add(database, status="paused"),
        add(database, status="running", owner_id="other", lease_until=DatabaseNow(60)),
    ]

    assert take(database) == []
    assert take(database, among=ids) == []
    with reading(database) as conn:
        assert not any_claimable(conn, ["s"], ())
        assert any_claimable(conn, ["s"], ("other",))


def test_sources_take_turns(database: Engine) -> None:
    """A source with a thousand files does not keep another one waiting, in a round or without an end."""
    many = [add(database, "many") for _ in range(30)]
    few = [add(database, "few") for _ in range(2)]

    assert take(database, among=[*many, *few], limit=4) == [many[0], many[1], few[0], few[1]]
    for _ in range(4):
        few = [add(database, "few") for _ in range(2)]
        got = take(database, limit=4)
        assert set(few) <= set(got)
        assert len(got) == 4


def test_more_sources_than_places_all_get_their_turn(database: Engine) -> None:
    """Nobody waits for ever."""
    sources = [f"s{number}" for number in range(12)]
    for source in sources:
        for _ in range(20):
            add(database, source)
    seen: set[int] = set()
    for _ in range(60):
        seen.update(take(database, limit=3))
    with reading(database) as conn:
        held = conn.exec_driver_sql("SELECT DISTINCT source_key FROM collection_task WHERE status = 'running'")
        assert len(held.all()) == 12


def test_only_this_hosts_and_shared_tasks_are_claimed(database: Engine) -> None:
    """Another host's files cannot be opened here."""
    mine, shared = add(database, host="here"), add(database, host=None)
    other = add(database, host="there")
    held = add(database, host="there", status="running", owner_id="x", lease_until=DatabaseNow(-1))

    assert take(database, host="here") == [mine, shared]
    assert take(database, host="here", among=[other, held], dead=("x",)) == []
    assert take(database, host="there") == [other, held]


def test_sources_narrow_a_claim(database: Engine) -> None:
    """A daemon takes only what its own sources have."""
    wanted, other = add(database, "a"), add(database, "b")
    assert take(database, sources={"a", "c"}) == [wanted]
    assert take(database, sources={"a"}, among=[other]) == []


@pytest.mark.parametrize("bounded", [False, True])
def test_expired_and_dead_owners_are_taken_over_and_counted(database: Engine, bounded: bool) -> None:
    """Each takeover is an event and in the counters; without progress it counts as an attempt."""
    expired = add(database, status="running", owner_id="slow", lease_until=DatabaseNow(-1))
    change(database, expired, version=3)
    dead = add(database, status="running", owner_id="dead", lease_until=DatabaseNow(60))
    alive = add(database, status="running", owner_id="alive", lease_until=DatabaseNow(60))
    counters: dict[str, int] = {}

    with transaction(database) as conn:
        claimed = claim(
            conn,
            owner="me",
            among=[expired, dead, alive] if bounded else None,
            limit=9,
            lease_s=60,
            dead=("dead",),
            counters=counters,
        )

    assert [(task.id, task.version, task.attempt_count, stuck) for task, stuck in claimed] == [
        (expired, 4, 1, True),
        (dead, 1, 1, True),
    ]
    assert counters == {"takeovers": 2}
    assert events(database) == [(expired, "takeover"), (dead, "takeover")]


def test_an_old_owner_can_neither_renew_nor_give_back(database: Engine) -> None:
    """Its token is (owner, version): after a takeover both are refused, and the new owner's hold."""
    task_id = add(database)
    assert take(database, "old", lease_s=-1) == [task_id]
    assert take(database, "new") == [task_id]
    old, new = Lease(task_id, "old", 1), Lease(task_id, "new", 2)
    with transaction(database) as conn:
        assert renew(conn, owner="old", leases=[old], lease_s=60) == set()
        assert not give_back(conn, old, status="succeeded")
        assert not give_back(conn, Lease(task_id, "new", 1), status="succeeded")
        assert renew(conn, owner="new", leases=[new], lease_s=60) == {task_id}
        assert give_back(conn, new, status="pending", retry_in_s=0)
        # Said twice, because the first answer may have been lost.
        assert give_back(conn, new, status="pending", retry_in_s=0)


def test_a_claim_whose_outcome_was_lost_is_undone(database: Engine) -> None:
    """The worker does not know what it got, so all but what it holds is due again."""
    held, unknown = add(database), add(database)
    assert take(database) == [held, unknown]
    with transaction(database) as conn:
        disown(conn, "me", {held})
    assert take(database) == [unknown]


def test_two_workers_race_for_one_task_1000_times_and_one_wins(database: Engine) -> None:
    """Exactly one of them each time; the other gets nothing and does not wait."""
    rounds = 1000
    task_id = add(database)
    won: list[list[str]] = [[] for _ in range(rounds)]
    gate = threading.Barrier(2)
    problems: list[BaseException] = []

    def work(owner: str) -> None:
        try:
            for number in range(rounds):
                gate.wait(30)
                if take(database, owner, among=None if number % 2 else [task_id]):
                    won[number].append(owner)
                gate.wait(30)
                if owner == "a":
                    change(database, task_id, status="pending", owner_id=None, lease_until=None)
        except BaseException as problem:
            problems.append(problem)
            gate.abort()

    workers = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert problems == []
    assert [len(one) for one in won] == [1] * rounds


def waits_at_most(seconds: int, action: Callable[[], Any]) -> Any:
    """Do something in a thread and return its result; fail when it hangs."""
    result: list[Any] = []
    thread = threading.Thread(target=lambda: result.append(action()), daemon=True)
    thread.start()
    thread.join(seconds)
    assert result, "it waits for a lock"
    return result[0]


def test_a_locked_task_is_passed_over_without_waiting(postgresql: Engine) -> None:
    """A commit, a renewal or another claim in progress holds nobody up."""
    ids = [add(postgresql) for _ in range(3)]
    with transaction(postgresql) as other:
        other.exec_driver_sql(f"SELECT id FROM collection_task WHERE id = {ids[0]} FOR UPDATE")
        assert waits_at_most(20, lambda: take(postgresql, limit=2)) == ids[1:]
    assert take(postgresql) == ids[:1]


def test_turns_go_round_until_all_are_empty() -> None:
    """One of each in turn."""
    assert list(in_turns([iter("abc"), iter(""), iter("x"), iter("12")])) == ["a", "x", "1", "b", "2", "c"]
