"""The one commit: rows, quarantine, ledger, events and the new checkpoint, fenced by the lease.

    BEGIN
      fence every task, in id order          owner + version + lease + old offset, exactly one row
      superseded generations' rows go        only in the commit that finishes their successor
      rows -> destinations                   sorted by key across the group where there is a key
      quarantine, ledger, events
      leases again                           when writing took a good part of one
    COMMIT                                   unknown outcome? the task's row is locked and the ledger read

The fence locks the task's row, so no takeover can come between it and the COMMIT. A task whose fence
hits no row is left out before any of its rows are written; the others of the group go on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Engine, func, insert, null, select, update

from filecollect import failpoints
from filecollect.domain.batch import BadRecord, Extension, Piece, Records, Step
from filecollect.domain.lease import Lease
from filecollect.domain.position import Proof
from filecollect.domain.states import Status
from filecollect.errors import DatabaseUnavailable, InvariantError
from filecollect.events import FileEvent
from filecollect.store.database import database_of
from filecollect.store.destination import Destination, Origin, Written
from filecollect.store.engine import transaction
from filecollect.store.events import add_events, add_first_event
from filecollect.store.schema import collection_task, committed_batch, quarantined_item
from filecollect.store.tasks import holds
from filecollect.store.types import DatabaseNow


@dataclass(frozen=True, slots=True)
class Contribution:
    """A task's part in one commit; `finish` ends the lease with that status in the same commit.

    Of `first_events` only those are stored whose kind the task has no event of yet.
    """

    lease: Lease
    destination: Destination
    origin: Origin
    step: Step
    raw_offset: int
    facts: dict[str, Any]
    parser: dict[str, Any]
    quarantine_raw_bytes: int
    head: Proof
    finish: Status | None = None
    content_digest: str | None = None
    supersedes: tuple[int, ...] = ()
    events: tuple[FileEvent, ...] = ()
    first_events: tuple[FileEvent, ...] = ()


@dataclass(slots=True)
class Committed:
    """What a commit made of one contribution; `lost` means that the fence refused it.

    `displaced` is the row whose key the step's open record has taken; the checkpoint holds it, too.
    """

    lost: bool = False
    inserted: int = 0
    updated: int = 0
    ignored: int = 0
    quarantined: int = 0
    displaced: str | None = None


@dataclass(slots=True)
class _Portion:
    """One piece on its way: what the destination made of its records."""

    number: int
    piece: Piece
    written: Written = field(default_factory=Written)
    bad: list[BadRecord] = field(default_factory=list)


class Attempt:
    """One commit, to be called again while the database is away.

    A COMMIT whose outcome is unknown is never sent twice: the next call first finds out what became of it.
    """

    def __init__(self, engine: Engine, group: Sequence[Contribution], *, lease_s: float) -> None:
        self.engine = engine
        self.group = group
        self.lease_s = lease_s
        self._asked: list[Committed] | None = None

    def __call__(self) -> list[Committed]:
        """Commit all contributions in one transaction; return one result for each, in order.

        Raises DatabaseUnavailable (call again), BatchTooBad, InvariantError.
        """
        if self._asked is None or not _stands(self.engine, self.group, self._asked):
            self._asked = None
            self._write()
        results = self._asked
        assert results is not None
        failpoints.hit("after_commit")
        return results

    def _write(self) -> None:
        results = [Committed() for _ in self.group]
        try:
            with transaction(self.engine) as conn:
                _write_all(conn, self.group, results, self.lease_s)
                failpoints.hit("before_commit")
                self._asked = results
        except DatabaseUnavailable:
            if self._asked is None or not _stands(self.engine, self.group, results):
                self._asked = None
                raise


def commit(engine: Engine, group: Sequence[Contribution], *, lease_s: float) -> list[Committed]:
    """Commit a group of contributions once; see `Attempt`."""
    return Attempt(engine, group, lease_s=lease_s)()


def _write_all(conn: Connection, group: Sequence[Contribution], results: list[Committed], lease_s: float) -> None:
    began = time.monotonic()
    database_of(conn).free_after(conn, lease_s)
    for number in sorted(range(len(group)), key=lambda number: group[number].lease.task_id):
        results[number].lost = not _fence(conn, group[number], lease_s)
    failpoints.hit("after_fence")
    portions = [
        _Portion(number, piece)
        for number, part in enumerate(group)
        if not results[number].lost
        for piece in part.step.pieces
    ]
    for number, part in enumerate(group):
        if not results[number].lost:
            _supersede(conn, part)
    by_destination: dict[Destination, list[_Portion]] = {}
    for portion in portions:
        by_destination.setdefault(group[portion.number].destination, []).append(portion)
    # In one order for everybody, and sorted by key inside: then commits of several workers never wait in a circle.
    for destination in sorted(by_destination, key=lambda one: one.sql_name):
        some = by_destination[destination]
        last = {id(portion): portion for portion in some if destination.displaces and _is_open(portion, group)}
        _write_rows(conn, destination, [portion for portion in some if id(portion) not in last], group)
        for portion in last.values():
            results[portion.number].displaced = _keep_displaced(conn, group[portion.number], portion)
            _write_rows(conn, destination, [portion], group)
    failpoints.hit("after_rows")
    for portion in portions:
        part, result = group[portion.number], results[portion.number]
        portion.bad = [*portion.piece.bad, *_refused(portion, part.quarantine_raw_bytes)]
        _quarantine(conn, part, portion.bad)
        _ledger(conn, part, portion)
        result.inserted += portion.written.inserted
        result.updated += portion.written.updated
        result.ignored += portion.written.ignored
        result.quarantined += len(portion.bad)
    standing = [part for number, part in enumerate(group) if not results[number].lost]
    add_events(conn, [event for part in standing for event in part.events])
    for event in [event for part in standing for event in part.first_events]:
        add_first_event(conn, event)
    if time.monotonic() - began > lease_s / 3:
        _renew(conn, standing, lease_s)


def _write_rows(
    conn: Connection, destination: Destination, portions: Sequence[_Portion], group: Sequence[Contribution]
) -> None:
    written = destination.write(conn, [(portion.piece.records, group[portion.number].origin) for portion in portions])
    for portion, one in zip(portions, written, strict=True):
        portion.written = one


def _is_open(portion: _Portion, group: Sequence[Contribution]) -> bool:
    """Return whether a portion is the one record that was taken without its end."""
    open_record = group[portion.number].step.new.open_record
    return open_record is not None and list(portion.piece.records.offsets) == [open_record]


def _keep_displaced(conn: Connection, part: Contribution, portion: _Portion) -> str | None:
    """Keep the row that an open record is about to displace in the task's checkpoint."""
    row = part.destination.displaced(conn, portion.piece.records, part.origin)
    if row is not None:
        conn.execute(
            update(collection_task)
            .where(collection_task.c.id == part.lease.task_id)
            .values(checkpoint_json=replace(part.step.new, displaced=row).to_json())
        )
    return row


def _fence(conn: Connection, part: Contribution, lease_s: float) -> bool:
    new = part.step.new
    values: dict[str, Any] = {
        "content_offset": new.offset,
        "raw_offset": part.raw_offset,
        "checkpoint_json": new.to_json(),
        "lease_until": DatabaseNow(lease_s),
        "attempt_count": 0,
        "last_error": None,
        "updated_at": DatabaseNow(),
        "head_length": part.head.length,
        "head_digest": part.head.digest,
        **part.facts,
    }
    if part.finish is not None:
        values |= {
            "status": part.finish,
            "owner_id": null(),
            "lease_until": null(),
            "next_run_at": null(),
            "content_digest": part.content_digest,
        }
    done = conn.execute(
        update(collection_task)
        .where(*holds(part.lease), collection_task.c.content_offset == part.step.old.offset)
        .values(**values)
    )
    return done.rowcount == 1


def _renew(conn: Connection, parts: Sequence[Contribution], lease_s: float) -> None:
    """Renew leases whose rows this transaction has locked: after a long one they would be over at once."""
    for part in sorted(parts, key=lambda part: part.lease.task_id):
        conn.execute(
            update(collection_task)
            .where(collection_task.c.id == part.lease.task_id, collection_task.c.owner_id == part.lease.owner)
            .values(lease_until=DatabaseNow(lease_s))
        )


def _supersede(conn: Connection, part: Contribution) -> None:
    for task_id in part.supersedes:
        if task_id >= part.lease.task_id:
            raise InvariantError(f"task {part.lease.task_id} cannot supersede the later task {task_id}")
        rows = part.destination.delete_task(conn, task_id)
        row = conn.execute(
            update(collection_task)
            .where(collection_task.c.id == task_id)
            .values(
                status="skipped",
                owner_id=null(),
                lease_until=null(),
                next_run_at=null(),
                version=collection_task.c.version + 1,
                last_error=f"superseded by task {part.lease.task_id}",
                updated_at=DatabaseNow(),
            )
            .returning(collection_task.c.path)
        ).one()
        conn.execute(
            update(quarantined_item)
            .where(quarantined_item.c.task_id == task_id, quarantined_item.c.state == "open")
            .values(state="discarded")
        )
        detail = {"by": part.lease.task_id, "rows": rows}
        add_events(conn, [FileEvent("superseded", row.path, part.destination.source_key, task_id, detail)])


def _refused(portion: _Portion, raw_bytes: int) -> list[BadRecord]:
    records: Records = portion.piece.records
    refused = [(index, "database", why) for index, why in portion.written.refused]
    refused += [
        (index, "key_conflict", "a record with this key is there already") for index in portion.written.conflicts
    ]
    found = []
    for index, reason, why in refused:
        start = records.offsets[index] - portion.piece.span.start
        raw = portion.piece.data[start : start + min(records.lengths[index], raw_bytes)]
        found.append(BadRecord(records.offsets[index], records.lengths[index], records.lines[index], raw, reason, why))
    return found


def _quarantine(conn: Connection, part: Contribution, bad: Sequence[BadRecord]) -> None:
    if not bad:
        return
    conn.execute(
        insert(quarantined_item),
        [
            {
                "task_id": part.lease.task_id,
                "source_key": part.destination.source_key,
                "start_offset": record.offset,
                "length": record.length,
                "line": record.line,
                "raw": record.raw,
                "reason": record.reason,
                "message": record.message,
                "parser_json": part.parser,
                "state": "open",
            }
            for record in bad
        ],
    )


def _ledger(conn: Connection, part: Contribution, portion: _Portion) -> None:
    span = portion.piece.span
    if portion.piece.extends is not None:
        _extend(conn, part, portion, portion.piece.extends)
        return
    last = (
        select(func.coalesce(func.max(committed_batch.c.seq), 0) + 1)
        .where(committed_batch.c.task_id == part.lease.task_id)
        .scalar_subquery()
    )
    refused = len(portion.bad) - len(portion.piece.bad)
    conn.execute(
        insert(committed_batch).values(
            task_id=part.lease.task_id,
            seq=last,
            start_offset=span.start,
            end_offset=span.end,
            start_line=span.start_line,
            row_count=span.row_count - refused,
            quarantined_count=span.quarantined_count + refused,
            skipped_count=span.skipped_count,
            digest=span.digest,
            kind=span.kind,
            owner_id=part.lease.owner,
            version=part.lease.version,
            committed_at=DatabaseNow(),
        )
    )


def _extend(conn: Connection, part: Contribution, portion: _Portion, row: Extension) -> None:
    """Add a span to the task's newest ledger row, which this owner began under this very lease."""
    span, mine = portion.piece.span, committed_batch.c
    refused = len(portion.bad) - len(portion.piece.bad)
    done = conn.execute(
        update(committed_batch)
        .where(mine.task_id == part.lease.task_id, mine.start_offset == row.start, mine.end_offset == span.start)
        .where(mine.owner_id == part.lease.owner, mine.version == part.lease.version, mine.kind == "data")
        .values(
            end_offset=span.end,
            row_count=mine.row_count + span.row_count - refused,
            quarantined_count=mine.quarantined_count + span.quarantined_count + refused,
            skipped_count=mine.skipped_count + span.skipped_count,
            digest=row.digest,
            committed_at=DatabaseNow(),
        )
    )
    if done.rowcount != 1:
        raise InvariantError(f"task {part.lease.task_id} has no ledger row [{row.start}, {span.start}) to extend")


def _stands(engine: Engine, group: Sequence[Contribution], results: list[Committed]) -> bool:
    """Return whether a COMMIT with an unknown outcome happened after all; it did for all of a group or none.

    Locking a task's row waits for a COMMIT that is still under way; then the ledger tells: a span that
    ends at our new position was written under our owner and version only by ourselves.
    """
    for number, part in enumerate(group):
        if results[number].lost:
            continue
        lease, mine = part.lease, committed_batch.c
        with transaction(engine) as conn:
            conn.execute(
                select(collection_task.c.id).where(collection_task.c.id == lease.task_id).with_for_update()
            ).all()
            row = conn.execute(
                select(mine.end_offset)
                .where(mine.task_id == lease.task_id, mine.owner_id == lease.owner, mine.version == lease.version)
                .order_by(mine.seq.desc())
                .limit(1)
            ).first()
        return row is not None and row.end_offset == part.step.new.offset
    return False
