"""The claim: who may work on which task, decided by the database in one short transaction.

    find   tasks to take over first, then due ones, source by source in turns (no locks)
    lock   SELECT ... FOR UPDATE SKIP LOCKED of those, in id order: what another worker is just
           claiming, committing or renewing is passed over, so nobody waits for anybody
    write  owner, lease_until, version + 1

The pair (owner, version) is the fencing token; every later write names it and must hit exactly one
row. Files are opened only after the claim has committed. A worker takes tasks of its own host and of
shared storage (host NULL), never another host's.

The cost does not grow with the number of tasks: the longest-waiting due task of a source is the first
entry of a partial index over pending tasks (source, host, next_run_at, id), and the lease that was over
first is that of another over running ones. Conditions on the status are written as text, not bound,
because a planner cannot match a parameter with a partial index.

Nothing of a paused source is claimed. A claim shares the rows of the sources it takes from, and a pause
locks its source's row alone: so when the pause has committed, whoever claimed before can be seen.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, literal_column, null, or_, select, update

from filecollect.errors import InvariantError
from filecollect.events import FileEvent
from filecollect.store.events import add_events
from filecollect.store.schema import collection_task, committed_batch
from filecollect.store.sources import hold_active, paused_sources
from filecollect.store.tasks import Task, from_row
from filecollect.store.types import DatabaseNow

_T = TypeVar("_T")
task = collection_task.c


def _is(status: str) -> ColumnElement[bool]:
    return task.status == literal_column(f"'{status}'")


def claim(
    conn: Connection,
    *,
    owner: str,
    among: Sequence[int] | None,
    limit: int,
    lease_s: float,
    dead: Collection[str],
    host: str | None = None,
    sources: Collection[str] | None = None,
    counters: dict[str, int] | None = None,
) -> list[tuple[Task, bool]]:
    """Lease up to `limit` claimable tasks of `host` or shared storage to `owner`: of `among`, or any that are due.

    `sources` narrows both. Returns each task with whether it was taken over without any progress of
    its owner; that counts as an attempt. Every takeover is an event and counted in `counters`.
    """
    found: Iterator[int]
    wanted = _Wanted(sources, paused_sources(conn))
    if among is None:
        found = itertools.chain(
            _to_take_over(conn, dead, host, wanted, limit), _in_turns(conn, "pending", host, wanted, limit)
        )
    else:
        found = _among(conn, among, dead, host, wanted)
    old = _lock(conn, found, dead, limit)
    active = hold_active(conn, {one.source_key for one in old})
    old = [one for one in old if one.source_key in active]
    if not old:
        return []
    stuck = {one.id for one in old if one.status == "running" and not _made_progress(conn, one)}
    _lease(conn, [one.id for one in old], owner, lease_s, stuck)
    for one in old:
        if one.status == "running":
            detail = {"from": one.owner_id, "offset": one.content_offset, "progress": one.id not in stuck}
            add_events(conn, [FileEvent("takeover", one.path, one.source_key, one.id, detail)])
            if counters is not None:
                counters["takeovers"] = counters.get("takeovers", 0) + 1
    rows = conn.execute(select(collection_task).where(task.id.in_([one.id for one in old])).order_by(task.id))
    return [(from_row(row), row.id in stuck) for row in rows]


def any_claimable(conn: Connection, sources: Collection[str], dead: Collection[str], host: str | None = None) -> bool:
    """Return whether a `claim` of these sources would find something; takes no lock."""
    wanted = _Wanted(sources, paused_sources(conn))
    taken = next(_to_take_over(conn, dead, host, wanted, 1), None)
    return taken is not None or bool(_lanes(conn, "pending", host, wanted))


def abandoned(conn: Connection, limit: int = 1000) -> set[int]:
    """Return running tasks whose lease is over."""
    query = select(task.id).where(_is("running"), task.lease_until <= _now())
    return set(conn.scalars(query.limit(limit)))


def _claimable(dead: Collection[str]) -> ColumnElement[bool]:
    due = and_(_is("pending"), task.next_run_at <= DatabaseNow())
    return or_(due, _abandoned(dead))


def _abandoned(dead: Collection[str]) -> ColumnElement[bool]:
    expired = task.lease_until <= DatabaseNow()
    return and_(_is("running"), or_(expired, task.owner_id.in_(list(dead))) if dead else expired)


def _on(host: str | None) -> ColumnElement[bool]:
    return task.host.is_(None) if host is None else task.host == host


def _reachable(host: str | None) -> ColumnElement[bool]:
    return _on(None) if host is None else or_(_on(None), _on(host))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The sources of a claim: `only` these, or all, but no paused one."""

    only: Collection[str] | None
    paused: frozenset[str]

    def __contains__(self, source: str) -> bool:
        return source not in self.paused and (self.only is None or source in self.only)

    @property
    def conditions(self) -> list[ColumnElement[bool]]:
        if self.only is not None:
            return [task.source_key.in_(sorted(set(self.only) - self.paused))]
        return [task.source_key.not_in(sorted(self.paused))] if self.paused else []


# -- finding --------------------------------------------------------------------------------------

_LANES: dict[str, Any] = {"pending": task.next_run_at, "running": task.lease_until}
"""The statuses in which a task may be claimed, each with the instant from which on."""
Lane = tuple[str, str | None]
"""A source, and a host or NULL: what one end of an index holds."""


def _now() -> Any:
    # A clock that runs on cannot be looked up in an index; asked once for the statement it can.
    return select(DatabaseNow()).scalar_subquery()


def _to_take_over(
    conn: Connection, dead: Collection[str], host: str | None, wanted: _Wanted, limit: int
) -> Iterator[int]:
    if dead:
        # Not in any order: a planner would walk all tasks by id to find a few.
        owned = select(task.id).where(_is("running"), task.owner_id.in_(list(dead)), _reachable(host))
        yield from sorted(conn.scalars(owned.where(*wanted.conditions).limit(limit)))
    yield from _in_turns(conn, "running", host, wanted, limit)


def _in_turns(conn: Connection, status: str, host: str | None, wanted: _Wanted, limit: int) -> Iterator[int]:
    """Yield claimable tasks: one of each source in turn, the longest-waiting of a source first."""
    lanes = _lanes(conn, status, host, wanted)
    # More sources than places: whoever comes first must not always be the same.
    random.shuffle(lanes)
    share = max(1, -(-limit // max(1, len(lanes))))
    yield from in_turns([_lane(conn, status, lane, first, share) for lane, first in lanes])


def _lanes(conn: Connection, status: str, host: str | None, wanted: _Wanted) -> list[tuple[Lane, int]]:
    """Return the lanes in which something is claimable, each with its first task.

    One statement for a host jumps from source to source in the index.
    """
    first = select(func.min(task.source_key).label("source")).where(_is(status))
    walk = first.cte("sources", recursive=True)
    later = select(func.min(task.source_key)).where(_is(status), task.source_key > walk.c.source).scalar_subquery()
    walk = walk.union_all(select(later).where(walk.c.source.is_not(None)))
    lanes: list[tuple[Lane, int]] = []
    for where in dict.fromkeys((None, host)):
        head = _waiting(status, walk.c.source, where).limit(1).correlate(walk).scalar_subquery()
        for source, task_id in conn.execute(select(walk.c.source, head).where(walk.c.source.is_not(None))):
            if task_id is not None and source in wanted:
                lanes.append(((source, where), task_id))
    return lanes


def _waiting(status: str, source: Any, where: str | None) -> Select[Any]:
    """Return the query for the claimable tasks of one lane, the longest-waiting first.

    The order names all columns of the index, because `host IS NULL` alone does not make a planner see it.
    """
    since = _LANES[status]
    query = select(task.id).where(task.source_key == source, _on(where), _is(status), since <= _now())
    return query.order_by(task.source_key, task.host, since, task.id)


def _lane(conn: Connection, status: str, lane: Lane, first: int, share: int) -> Iterator[int]:
    """Yield the claimable tasks of one lane, the others fetched in portions that grow."""
    yield first
    query = _waiting(status, *lane)
    skipped = 1
    while rows := list(conn.scalars(query.offset(skipped).limit(share))):
        yield from rows
        skipped += len(rows)
        if len(rows) < share:
            return
        share *= 2


def _among(
    conn: Connection, among: Sequence[int], dead: Collection[str], host: str | None, wanted: _Wanted
) -> Iterator[int]:
    """Yield the claimable ones of given tasks, one of each source in turn, oldest first."""
    if not among:
        return
    query = select(task.id, task.source_key).where(task.id.in_(list(among)), _claimable(dead), _reachable(host))
    query = query.where(*wanted.conditions)
    by_source: dict[str, list[int]] = {}
    for row in conn.execute(query.order_by(task.id)):
        by_source.setdefault(row.source_key, []).append(row.id)
    yield from in_turns([iter(ids) for ids in by_source.values()])


def in_turns(waiting: Iterable[Iterator[_T]]) -> Iterator[_T]:
    """Yield one of each in turn until all are empty."""
    queue = list(waiting)
    while queue:
        left = []
        for one in queue:
            for value in one:
                yield value
                left.append(one)
                break
        queue = left


# -- taking ---------------------------------------------------------------------------------------


def _lock(conn: Connection, found: Iterator[int], dead: Collection[str], limit: int) -> list[Task]:
    """Lock up to `limit` of the found tasks that nobody else has locked or claimed meanwhile."""
    locked: list[Task] = []
    asked: set[int] = set()
    while len(locked) < limit:
        wanted = [one for one in itertools.islice(found, limit - len(locked)) if one not in asked]
        if not wanted:
            break
        asked.update(wanted)
        query = select(collection_task).where(task.id.in_(wanted), _claimable(dead)).order_by(task.id)
        locked += map(from_row, conn.execute(query.with_for_update(skip_locked=True)))
    return sorted(locked, key=lambda one: one.id)


def _lease(conn: Connection, ids: Sequence[int], owner: str, lease_s: float, stuck: Collection[int]) -> None:
    values: dict[str, Any] = {
        "status": "running",
        "owner_id": owner,
        "lease_until": DatabaseNow(lease_s),
        "version": task.version + 1,
        "updated_at": DatabaseNow(),
    }
    done = conn.execute(update(collection_task).where(task.id.in_(ids)).values(values))
    if done.rowcount != len(ids):
        raise InvariantError(f"{len(ids)} locked tasks were claimed, {done.rowcount} changed")
    if stuck:
        counted = {"attempt_count": task.attempt_count + 1}
        conn.execute(update(collection_task).where(task.id.in_(sorted(stuck))).values(counted))


def disown(conn: Connection, owner: str, held: Collection[int]) -> None:
    """Let go of tasks that a claim with an unknown outcome leased to `owner`; it knows of `held` only."""
    mine = conn.execute(select(task.id).where(task.owner_id == owner, _is("running")).order_by(task.id)).scalars()
    unknown = [one for one in mine if one not in held]
    if unknown:
        values = {"status": "pending", "owner_id": null(), "lease_until": null(), "next_run_at": DatabaseNow()}
        conn.execute(update(collection_task).where(task.id.in_(unknown), task.owner_id == owner).values(values))


def _made_progress(conn: Connection, old: Task) -> bool:
    mine = committed_batch.c
    same = and_(mine.task_id == old.id, mine.owner_id == old.owner_id, mine.version == old.version)
    return bool(conn.execute(select(exists().where(same))).scalar())
