"""I5: a commit by anyone but the holder of a valid lease is refused, and the refusal itself is seen.

State alone does not show a missing fence: the unique key of the rows hides it. So the result must say
`lost`, and nothing at all may have been written: no row, no ledger, no position, no lease renewed.
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Engine, Table, select

from filecollect.store.commit import Contribution, commit
from filecollect.store.database import quoted
from filecollect.store.engine import reading
from filecollect.store.schema import collection_task, committed_batch, file_event, quarantined_item


def everything(engine: Engine, table: str) -> dict[str, list[tuple[object, ...]]]:
    """Return what is stored, without the tables that no commit writes."""
    with reading(engine) as conn:
        ours: list[Table] = [collection_task, committed_batch, quarantined_item, file_event]
        found = {one.name: [tuple(row) for row in conn.execute(select(one))] for one in ours}
        found[table] = [tuple(row) for row in conn.exec_driver_sql(f"SELECT * FROM {quoted(table)}")]
    return found


def assert_refused(engine: Engine, part: Contribution, *, lease_s: float = 60) -> None:
    """Commit `part` and fail unless it is refused without a trace."""
    before = everything(engine, part.destination.table)
    (result,) = commit(engine, [part], lease_s=lease_s)
    assert result.lost, "the fence let a commit through that does not hold the lease"
    assert (result.inserted, result.updated, result.ignored, result.quarantined) == (0, 0, 0, 0)
    assert everything(engine, part.destination.table) == before, "a refused commit left something behind"


def assert_only_the_holder_commits(engine: Engine, part: Contribution) -> None:
    """Refuse `part`, which its holder could commit, under every lease but its own; then let it through."""
    lease = part.lease
    for stale in (
        replace(lease, owner="somebody else"),
        replace(lease, version=lease.version - 1),
        replace(lease, version=lease.version + 1),
        replace(lease, task_id=lease.task_id + 1000),
    ):
        assert_refused(engine, replace(part, lease=stale))
    (result,) = commit(engine, [part], lease_s=60)
    assert not result.lost
    assert_refused(engine, part)  # its old offset is not the task's any more
