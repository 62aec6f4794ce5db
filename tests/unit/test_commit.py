"""The one commit: fenced, all or nothing, order-free winners, refused rows found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Engine

from filecollect.domain.batch import Piece, Records, Span, Step
from filecollect.domain.columns import Column, Layout
from filecollect.domain.lease import Lease, WorkerRecord
from filecollect.domain.position import Checkpoint, Proof
from filecollect.errors import BatchTooBad, InvariantError
from filecollect.store.claim import claim
from filecollect.store.commit import Contribution, commit
from filecollect.store.destination import Destination, Origin
from filecollect.store.engine import reading, transaction
from filecollect.store.tasks import add_task, give_back, register_worker, renew
from filecollect.store.types import DatabaseNow
from tests.refusal import assert_only_the_holder_commits, assert_refused

COLUMNS = (Column("id", "id", "integer"), Column("value", "value", "text"))
PLAIN = Destination("s", "t", Layout(COLUMNS))
KEYED = Destination("s", "k", Layout(COLUMNS, ("id",)))


@pytest.fixture
def engine(database: Engine) -> Engine:
    """A new database of each kind, with both destination tables."""
    with transaction(database) as conn:
        PLAIN.create(conn)
        KEYED.create(conn)
    return database


def refuse(engine: Engine, condition: str, message: str) -> None:
    """Let the database itself refuse rows of `t`."""
    with transaction(engine) as conn:
        if engine.dialect.name == "sqlite":
            conn.exec_driver_sql(
                f"CREATE TRIGGER no BEFORE INSERT ON t WHEN {condition} BEGIN SELECT raise(ABORT, '{message}'); END"
            )
            return
        conn.exec_driver_sql(
            f"CREATE FUNCTION no() RETURNS trigger AS $$ BEGIN RAISE EXCEPTION '{message}'; END $$ LANGUAGE plpgsql"
        )
        conn.exec_driver_sql(
            f"CREATE TRIGGER no BEFORE INSERT ON t FOR EACH ROW WHEN ({condition}) EXECUTE FUNCTION no()"
        )


def task(engine: Engine, path: str = "/a") -> int:
    """Record a task that is due."""
    with transaction(engine) as conn:
        return add_task(
            conn, source_key="s", status="pending", next_run_at=DatabaseNow(), path=path, size=1000, mtime_ns=1
        )


def leased(engine: Engine, task_id: int, owner: str = "me", lease_s: float = 60, dead: Sequence[str] = ()) -> Lease:
    """Claim a task."""
    with transaction(engine) as conn:
        ((found, _),) = claim(conn, owner=owner, among=[task_id], limit=1, lease_s=lease_s, dead=dead)
    return Lease(found.id, owner, found.version)


def step(rows: Sequence[tuple[Any, Any]], start: int = 0, size: int = 10) -> Step:
    """Return a step with `rows`, each `size` bytes long."""
    offsets = [start + size * index for index in range(len(rows))]
    end = start + size * len(rows)
    records = Records(
        [[row[0] for row in rows], [row[1] for row in rows]], offsets, [size] * len(rows), range(1, len(rows) + 1)
    )
    span = Span(start, end, 1, len(rows), 0, 0, "0" * 32)
    return Step(Checkpoint(offset=start), Checkpoint(offset=end), (Piece(span, records, (), {}, b"x" * (end - start)),))


def part(lease: Lease, one: Step, destination: Destination = PLAIN, **more: Any) -> Contribution:
    """Return a contribution of a task."""
    return Contribution(
        lease=lease,
        destination=destination,
        origin=Origin(lease.task_id, "g" * 32, "/a", "2026-11-01 00:00:00.000"),
        step=one,
        raw_offset=one.new.offset,
        facts={},
        parser={},
        quarantine_raw_bytes=100,
        head=Proof(0, ""),
        **more,
    )


def ask(engine: Engine, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with reading(engine) as conn:
        return [tuple(row) for row in conn.exec_driver_sql(query)]


def test_rows_ledger_and_position_stand_together(engine: Engine) -> None:
    """One commit writes all three."""
    lease = leased(engine, task(engine))

    (result,) = commit(engine, [part(lease, step([(1, "a"), (2, "b")]))], lease_s=60)

    assert (result.lost, result.inserted) == (False, 2)
    assert ask(engine, "SELECT id, value, _task_id, _offset, _extra FROM t") == [
        (1, "a", 1, 0, None),
        (2, "b", 1, 10, None),
    ]
    assert ask(engine, "SELECT start_offset, end_offset, row_count FROM committed_batch") == [(0, 20, 2)]
    assert ask(engine, "SELECT content_offset FROM collection_task") == [(20,)]


@pytest.mark.parametrize("destination", [PLAIN, KEYED])
@pytest.mark.parametrize("finish", [None, "succeeded"])
def test_only_the_holder_of_the_lease_commits(engine: Engine, destination: Destination, finish: Any) -> None:
    """Neither another owner, nor another version, nor another task; and the holder only once."""
    lease = leased(engine, task(engine))
    assert_only_the_holder_commits(engine, part(lease, step([(1, "a")]), destination, finish=finish))


def test_a_commit_after_a_takeover_is_refused(engine: Engine) -> None:
    """The old owner's version does not fit any more: no row, no ledger, no position."""
    task_id = task(engine)
    stale = leased(engine, task_id, "old", lease_s=-1)
    leased(engine, task_id, "new")

    assert_refused(engine, part(stale, step([(1, "a")])))
    assert ask(engine, "SELECT content_offset, owner_id FROM collection_task") == [(0, "new")]


def test_a_commit_after_the_same_owner_claimed_anew_is_refused(engine: Engine) -> None:
    """A batch from before a lease was lost never lands under the next one."""
    task_id = task(engine)
    stale = leased(engine, task_id, "me", lease_s=-1)
    leased(engine, task_id, "me")
    assert_refused(engine, part(stale, step([(1, "a")])))


def test_a_commit_under_an_expired_lease_is_refused(engine: Engine) -> None:
    """Nobody has taken over, but the lease is over: it is not renewed by the way either."""
    assert_refused(engine, part(leased(engine, task(engine), lease_s=-1), step([(1, "a")])))


@pytest.mark.parametrize("status", ["paused", "cancelled"])
def test_a_commit_to_a_task_that_was_paused_or_cancelled_is_refused(engine: Engine, status: str) -> None:
    """Writing the status stops the worker at its next commit."""
    lease = leased(engine, task(engine))
    with transaction(engine) as conn:
        conn.exec_driver_sql(f"UPDATE collection_task SET status = '{status}'")
    assert_refused(engine, part(lease, step([(1, "a")])))


def test_a_commit_from_another_offset_is_refused(engine: Engine) -> None:
    """A batch that does not start at the committed position never lands."""
    lease = leased(engine, task(engine))
    commit(engine, [part(lease, step([(1, "a")]))], lease_s=60)

    assert_refused(engine, part(lease, step([(1, "a")])))
    assert_refused(engine, part(lease, step([(3, "c")], start=20)))


def test_one_lost_task_does_not_spoil_the_group(engine: Engine) -> None:
    """The others of the group commit."""
    good, bad = leased(engine, task(engine, "/a")), leased(engine, task(engine, "/b"), lease_s=-1)

    results = commit(engine, [part(bad, step([(1, "bad")])), part(good, step([(2, "good")]))], lease_s=60)

    assert [result.lost for result in results] == [True, False]
    assert ask(engine, "SELECT value FROM t") == [("good",)]


def test_a_row_that_is_there_already_is_a_broken_promise(engine: Engine) -> None:
    """Nothing is ignored silently: the transaction is rolled back whole."""
    lease = leased(engine, task(engine))
    with transaction(engine) as conn:
        conn.exec_driver_sql('INSERT INTO t ("id", "_task_id", "_offset") VALUES (9, 1, 0)')

    with pytest.raises(InvariantError):
        commit(engine, [part(lease, step([(1, "a")]))], lease_s=60)
    assert ask(engine, "SELECT content_offset FROM collection_task") == [(0,)]


@pytest.mark.parametrize("first", [0, 1])
def test_the_later_task_wins_a_key_whatever_the_order_of_commits(engine: Engine, first: int) -> None:
    """Later is (task id, offset), not time."""
    tasks = [task(engine, "/a"), task(engine, "/b")]
    parts = [
        part(leased(engine, tasks[0]), step([(1, "old"), (2, "old")]), KEYED),
        part(leased(engine, tasks[1]), step([(2, "new"), (3, "new")]), KEYED),
    ]
    counts = [commit(engine, [parts[number]], lease_s=60)[0] for number in (first, 1 - first)]

    assert ask(engine, "SELECT id, value FROM k ORDER BY id") == [(1, "old"), (2, "new"), (3, "new")]
    assert [one.inserted for one in counts] == [2, 1]
    assert (counts[1].updated, counts[1].ignored) == ((1, 0) if first == 0 else (0, 1))


def test_equal_keys_in_one_batch_are_reduced_first(engine: Engine) -> None:
    """The last one of a batch wins, once."""
    lease = leased(engine, task(engine))
    (result,) = commit(engine, [part(lease, step([(1, "a"), (1, "b"), (1, "c")]), KEYED)], lease_s=60)
    assert ask(engine, "SELECT value, _offset FROM k") == [("c", 20)]
    assert (result.inserted, result.updated) == (1, 2)


def test_a_newer_column_decides_before_the_position(engine: Engine) -> None:
    """`newer` takes precedence over (task id, offset)."""
    newer = Destination("s", "k", Layout(COLUMNS, ("id",)), newer="value")
    lease = leased(engine, task(engine))
    commit(engine, [part(lease, step([(1, "2026-11-03"), (1, "2026-11-01")]), newer)], lease_s=60)
    commit(engine, [part(lease, step([(1, "2026-11-02")], start=20), newer)], lease_s=60)
    assert ask(engine, "SELECT value FROM k") == [("2026-11-03",)]


def test_ignore_keeps_the_first_and_quarantine_keeps_both(engine: Engine) -> None:
    """The other two policies for a key that is there already."""
    ignore = Destination("s", "k", Layout(COLUMNS, ("id",)), on_conflict="ignore")
    lease = leased(engine, task(engine))
    (first,) = commit(engine, [part(lease, step([(1, "a"), (1, "b")]), ignore)], lease_s=60)
    assert (first.inserted, first.ignored) == (1, 1)
    refuse = Destination("s", "k", Layout(COLUMNS, ("id",)), on_conflict="quarantine")
    (second,) = commit(engine, [part(lease, step([(1, "c"), (2, "d")], start=20), refuse)], lease_s=60)
    assert (second.inserted, second.quarantined) == (1, 1)
    assert ask(engine, "SELECT id, value FROM k ORDER BY id") == [(1, "a"), (2, "d")]
    assert ask(engine, "SELECT start_offset, reason FROM quarantined_item") == [(20, "key_conflict")]


def test_rows_the_database_refuses_are_found_and_quarantined(engine: Engine) -> None:
    """A table's own rule refuses one row: that record only."""
    refuse(engine, "new.id = 7", "seven")
    lease = leased(engine, task(engine))

    (result,) = commit(engine, [part(lease, step([(n, "x") for n in range(20)]))], lease_s=60)

    assert (result.inserted, result.quarantined) == (19, 1)
    assert ask(engine, "SELECT start_offset, reason, message FROM quarantined_item") == [(70, "database", "seven")]
    assert ask(engine, "SELECT row_count, quarantined_count FROM committed_batch") == [(19, 1)]


def test_too_many_refused_rows_ask_for_smaller_batches(engine: Engine) -> None:
    """The search is bounded."""
    refuse(engine, "new.id >= 0", "no")
    lease = leased(engine, task(engine))
    with pytest.raises(BatchTooBad):
        commit(engine, [part(lease, step([(n, "x") for n in range(300)]))], lease_s=60)
    assert ask(engine, "SELECT content_offset FROM collection_task") == [(0,)]


def test_finishing_takes_the_superseded_rows_away(engine: Engine) -> None:
    """In the same transaction, with an event."""
    old, new = task(engine, "/a"), task(engine, "/a")
    commit(engine, [part(leased(engine, old), step([(1, "old")]), finish="succeeded")], lease_s=60)
    lease = leased(engine, new)

    commit(engine, [part(lease, step([(2, "new")]), finish="succeeded", supersedes=(old,))], lease_s=60)

    assert ask(engine, "SELECT value FROM t") == [("new",)]
    assert ask(engine, "SELECT status, owner_id FROM collection_task ORDER BY id") == [
        ("skipped", None),
        ("succeeded", None),
    ]
    assert ask(engine, "SELECT task_id, kind FROM file_event") == [(old, "superseded")]


def test_only_one_of_two_claims_gets_a_task(engine: Engine) -> None:
    """A held task cannot be claimed; a dead owner's can, and counts when nothing was done."""
    task_id = task(engine)
    with transaction(engine) as conn:
        register_worker(conn, WorkerRecord("one", "h", "b", "ns", 1, "2"), "0")
        assert len(claim(conn, owner="one", among=[task_id], limit=5, lease_s=60, dead=())) == 1
    with transaction(engine) as conn:
        assert claim(conn, owner="two", among=[task_id], limit=5, lease_s=60, dead=()) == []
    with transaction(engine) as conn:
        ((taken, stuck),) = claim(conn, owner="two", among=[task_id], limit=5, lease_s=60, dead=("one",))
    assert (taken.owner_id, taken.version, taken.attempt_count, stuck) == ("two", 2, 1, True)


def test_renewing_and_giving_back_need_the_lease(engine: Engine) -> None:
    """A stale owner can do neither."""
    task_id = task(engine)
    stale = leased(engine, task_id, "old", lease_s=-1)
    fresh = leased(engine, task_id, "new")
    with transaction(engine) as conn:
        assert renew(conn, owner="old", leases=[stale], lease_s=60) == set()
        assert renew(conn, owner="new", leases=[fresh], lease_s=60) == {task_id}
        assert not give_back(conn, stale, status="succeeded")
        assert give_back(conn, fresh, status="pending", retry_in_s=0)
