"""A COMMIT whose answer never comes is read back: it stands whole or not at all, and is never done twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection, Engine, event

from filecollect.errors import DatabaseUnavailable, FilecollectError, UsageError
from filecollect.pipeline.patience import patiently
from filecollect.store import commit as module
from filecollect.store.commit import Attempt, Committed, _stands, _write_all
from filecollect.store.engine import close, open_engine, reading, transaction
from filecollect.store.tasks import add_task
from filecollect.store.types import DatabaseNow
from tests.unit.test_commit import PLAIN, leased, part, step, task


class NoWait:
    """A clock on which waiting costs nothing."""

    now = 0.0

    def time(self) -> float:
        """Return the time."""
        return self.now

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


@contextmanager
def once(engine: Engine, act: Callable[[Connection], None]) -> Iterator[None]:
    """Do something to the connection right before the next COMMIT of a write transaction is sent."""
    acted = threading.Event()

    def before(conn: Connection) -> None:
        if not acted.is_set() and conn.exec_driver_sql("SHOW transaction_read_only").scalar() == "off":
            acted.set()
            act(conn)

    event.listen(engine, "commit", before)
    try:
        yield
    finally:
        event.remove(engine, "commit", before)
    assert acted.is_set()


def commit_and_cut(conn: Connection) -> None:
    """The server commits, then the connection is lost: the answer never comes."""
    raw = conn.connection.driver_connection
    assert raw is not None
    raw.commit()
    raw.close()


def cut(conn: Connection) -> None:
    """The connection is lost before the server has heard of the COMMIT."""
    raw = conn.connection.driver_connection
    assert raw is not None
    raw.close()


@pytest.fixture
def engine(postgresql: Engine) -> Engine:
    """A database with a destination table."""
    with transaction(postgresql) as conn:
        PLAIN.create(conn)
    return postgresql


@pytest.mark.parametrize("trouble", [commit_and_cut, cut])
@pytest.mark.parametrize("finish", [None, "succeeded"])
def test_an_unknown_commit_is_read_back(
    engine: Engine, trouble: Callable[[Connection], None], finish: str | None
) -> None:
    """Done: the result is returned as if the answer had come. Not done: it is done, once."""
    lease = leased(engine, task(engine))
    attempt = Attempt(engine, [part(lease, step([(1, "a"), (2, "b")]), PLAIN, finish=finish)], lease_s=60)

    with once(engine, trouble):
        (result,) = patiently(attempt, clock=NoWait(), should_stop=lambda: False, within_s=60)

    assert (result.lost, result.inserted) == (False, 2)
    with reading(engine) as conn:
        assert conn.exec_driver_sql("SELECT id FROM t ORDER BY id").scalars().all() == [1, 2]
        assert conn.exec_driver_sql("SELECT count(*) FROM committed_batch").scalar() == 1


def test_an_outcome_that_cannot_be_read_yet_is_read_later(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the server is away nothing is sent again; afterwards the commit is found to stand."""
    lease = leased(engine, task(engine))
    attempt = Attempt(engine, [part(lease, step([(1, "a")]))], lease_s=60)
    really, asked = module._stands, []

    def away_at_first(*words: object) -> bool:
        asked.append(words)
        if len(asked) < 3:
            raise DatabaseUnavailable("away")
        return really(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_stands", away_at_first)
    with once(engine, commit_and_cut):
        (result,) = patiently(attempt, clock=NoWait(), should_stop=lambda: False, within_s=60)

    assert len(asked) == 3
    assert (result.lost, result.inserted) == (False, 1)
    with reading(engine) as conn:
        assert conn.exec_driver_sql("SELECT id FROM t").scalars().all() == [1]


def test_reading_back_waits_for_a_commit_that_is_still_under_way(engine: Engine) -> None:
    """Its rows are invisible until it ends; the task's lock is what tells that it has not."""
    lease = leased(engine, task(engine))
    group = [part(lease, step([(1, "a")]))]
    results = [Committed()]
    answers: list[bool] = []
    with transaction(engine) as slow:
        _write_all(slow, group, results, 60)
        asking = threading.Thread(target=lambda: answers.append(_stands(engine, group, results)))
        asking.start()
        asking.join(0.5)
        assert answers == []
    asking.join(20)
    assert answers == [True]


def test_patience_ends(engine: Engine) -> None:
    """After its time, or when asked to stop, the last error is raised."""

    def away() -> None:
        raise DatabaseUnavailable("away")

    clock = NoWait()
    with pytest.raises(DatabaseUnavailable):
        patiently(away, clock=clock, should_stop=lambda: False, within_s=60)
    assert 60 <= clock.now <= 70
    with pytest.raises(DatabaseUnavailable):
        patiently(away, clock=NoWait(), should_stop=lambda: True, within_s=60)


@pytest.mark.parametrize(
    ("state", "error"),
    [
        ("40001", DatabaseUnavailable),  # serialization failure
        ("40P01", DatabaseUnavailable),  # deadlock
        ("40003", DatabaseUnavailable),  # outcome of a statement unknown
        ("53100", DatabaseUnavailable),  # disk full
        ("53200", DatabaseUnavailable),  # out of memory
        ("53300", DatabaseUnavailable),  # too many connections
        ("55P03", DatabaseUnavailable),  # lock_timeout
        ("57014", DatabaseUnavailable),  # statement_timeout
        ("57P01", DatabaseUnavailable),  # shutdown by the administrator
        ("57P03", DatabaseUnavailable),  # starting up
        ("58030", DatabaseUnavailable),  # I/O error
        ("08006", DatabaseUnavailable),  # connection failure
        ("25006", DatabaseUnavailable),  # the server became a standby
        ("25P04", DatabaseUnavailable),  # transaction_timeout
        ("42501", UsageError),  # no permission
    ],
)
def test_what_the_server_says_decides_whether_to_try_again(
    postgresql: Engine, state: str, error: type[FilecollectError]
) -> None:
    """Every state that passes by itself is retryable; a missing permission is not."""
    with pytest.raises(error, match="because"), transaction(postgresql) as conn:
        conn.exec_driver_sql(f"DO $$ BEGIN RAISE EXCEPTION 'because' USING ERRCODE = '{state}'; END $$")


def test_too_many_connections_are_unavailable(postgresql: Engine) -> None:
    """A server without a free place is asked again later."""
    with transaction(postgresql) as conn:
        conn.exec_driver_sql("CREATE ROLE crowd LOGIN CONNECTION LIMIT 0")
    try:
        with pytest.raises(DatabaseUnavailable, match="too many connections"):
            close(open_engine(postgresql.url.set(username="crowd")), truncate=False)
    finally:
        with transaction(postgresql) as conn:
            conn.exec_driver_sql("DROP ROLE crowd")


def test_a_real_deadlock_hits_one_of_two_and_its_retry_succeeds(postgresql: Engine) -> None:
    """Two transactions wait in a circle: one is told to try again."""
    with transaction(postgresql) as conn:
        ids = [add_task(conn, source_key="s", status="pending", next_run_at=DatabaseNow(), path="/f") for _ in "ab"]
    gate = threading.Barrier(2)
    retried: list[str] = []

    def work(order: list[int]) -> None:
        first = True

        def once_more() -> None:
            nonlocal first
            with transaction(postgresql) as conn:
                conn.exec_driver_sql(f"UPDATE collection_task SET size = 1 WHERE id = {order[0]}")
                if first:
                    first = False
                    gate.wait(30)
                conn.exec_driver_sql(f"UPDATE collection_task SET size = 1 WHERE id = {order[1]}")

        def noted() -> None:
            try:
                once_more()
            except DatabaseUnavailable as problem:
                retried.append(problem.message)
                raise

        patiently(noted, clock=NoWait(), should_stop=lambda: False, within_s=60)

    threads = [threading.Thread(target=work, args=(order,)) for order in (ids, ids[::-1])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert retried
    assert all("deadlock" in one for one in retried)
    with reading(postgresql) as conn:
        assert conn.exec_driver_sql("SELECT sum(size) FROM collection_task").scalar() == 2
