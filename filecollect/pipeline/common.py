"""Up to which record does a file hold what a task has read? Exact inside a ledger span.

Spans have one digest each, so a file that ends or differs inside a span says nothing by digests about
the part before. There the records themselves are compared: what the file's bytes parse to with what
stands in the destination (and in quarantine) at the same offsets. Used for logs cut back by a power
failure and for copies that end before our position; both are rare, so reading rows back is cheap enough.

In a keyed table rows are replaced by later ones, so there the offsets that are left must agree.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine, select

from filecollect.domain.batch import Records
from filecollect.files.content import Content
from filecollect.parse.api import Tail
from filecollect.parse.build import make_parser
from filecollect.pipeline.plan import Plan
from filecollect.store.destination import Destination
from filecollect.store.engine import reading
from filecollect.store.schema import quarantined_item
from filecollect.store.stored import same_values, stored_rows
from filecollect.store.tasks import Task

READ = 4 * 1024 * 1024
RECORDS = 5000


def common_record(engine: Engine, plan: Plan, content: Content, task: Task, start: int, size: int) -> int:
    """Return the end of the last record from `start` (a common span boundary) that is as it was read.

    `size` is the content's size; nothing past the task's position is looked at.
    """
    position = start
    end = min(size, task.content_offset)
    parser = make_parser(plan.spec, plan.layout, task.position.parser if start else None)
    with reading(engine) as conn:
        while position < end:
            data = content.read_at(position, min(READ, end - position))
            parsed = parser.parse(data, offset=position, line=1, limit=RECORDS, tail=Tail.WAIT)
            if not parsed.consumed:
                break
            until = position + parsed.consumed
            wanted = _wanted(conn, plan.destination, parsed.records)
            wanted |= {bad.offset: bad.raw for bad in parsed.bad}
            stored: dict[int, object] = {**stored_rows(conn, plan.destination, task.id, position, until)}
            stored |= _quarantined(conn, task.id, position, until)
            ends = dict(zip(parsed.records.offsets, parsed.records.lengths, strict=True))
            ends |= {bad.offset: bad.length for bad in parsed.bad}
            for offset in sorted(wanted):
                kept = plan.destination.key and offset not in stored
                if not kept and stored.get(offset) != wanted[offset]:
                    return _end_before(ends, offset, position)
            if stored.keys() - wanted.keys():
                return position
            position = until
    return position


def _end_before(ends: dict[int, int], offset: int, position: int) -> int:
    before = [one + length for one, length in ends.items() if one < offset]
    return max(before, default=position)


def _wanted(conn: Connection, destination: Destination, records: Records) -> dict[int, object]:
    if not records.offsets:
        return {}
    columns = records.columns[:1] if destination.is_items else records.columns
    rows = zip(*columns, strict=True)
    return {offset: same_values(conn, destination, row) for offset, row in zip(records.offsets, rows, strict=True)}


def _quarantined(conn: Connection, task_id: int, start: int, end: int) -> dict[int, object]:
    item = quarantined_item.c
    rows = conn.execute(
        select(item.start_offset, item.raw).where(
            item.task_id == task_id, item.start_offset >= start, item.start_offset < end, item.state != "retried"
        )
    )
    return {row.start_offset: row.raw for row in rows}
