"""Ways back and second tries: completed records, replay, quarantined records.

Positions are computed from the file here; `store.rewind` moves them in one fenced transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from sqlalchemy import Connection, Engine

from filecollect import failpoints
from filecollect.clock import utc_text
from filecollect.domain.batch import Records
from filecollect.domain.lease import Lease
from filecollect.domain.position import GUARD_LENGTH, Chain, Checkpoint
from filecollect.errors import DatabaseUnavailable, FilecollectError, InvariantError, UsageError
from filecollect.files.content import open_content
from filecollect.files.filesystem import FileHandle, FileMissing, FileSystem
from filecollect.files.fingerprint import ChainDigest
from filecollect.files.paths import os_path
from filecollect.parse.api import Tail
from filecollect.parse.build import make_parser
from filecollect.pipeline.plan import Plan
from filecollect.pipeline.proof import proofs, raw_head
from filecollect.store.destination import Destination, Origin
from filecollect.store.engine import reading, transaction
from filecollect.store.quarantine import Item, settle
from filecollect.store.rewind import line_at, refuse_held, replay_task, rewind
from filecollect.store.tasks import Task, lock_tasks, snapshot


def record_completed(
    conn: Connection,
    lease: Lease,
    destination: Destination,
    checkpoint: Checkpoint,
    handle: FileHandle,
    task: Task,
) -> None:
    """Go back to a last record that was taken without its end and has been continued since.

    Its row (or quarantined record) goes, the row whose key it had taken comes back; it is read again,
    whole. Raises LeaseLost.
    """
    start = checkpoint.open_record
    if start is None:
        raise InvariantError("there is no open record to complete", path=task.path)
    to = replace(checkpoint_at(handle, checkpoint, start), lines=line_at(conn, task, start) - 1)
    rewind(conn, lease, destination, task, to, "record_completed", displaced=checkpoint.displaced)
    failpoints.hit("before_rescue")


def checkpoint_at(handle: FileHandle, checkpoint: Checkpoint, offset: int) -> Checkpoint:
    """Return the checkpoint of the same generation at an earlier record boundary, proven from the file."""
    if offset == 0:
        return Checkpoint()
    bound = handle.stat().size
    content = open_content(handle, bound)
    chain = ChainDigest.resume(content, Chain(), offset)
    length = min(GUARD_LENGTH, offset)
    return Checkpoint(
        offset=offset,
        records=max(0, checkpoint.records - 1),
        lines=checkpoint.lines,
        raw_head=raw_head(handle, content, bound),
        parser=checkpoint.parser,
        chain=chain.chain(),
        **proofs(handle, content, offset, content.read_at(offset - length, length)),
    )


def replay(
    engine: Engine, files: FileSystem, plan: Plan, tasks: Sequence[Task], *, dead: Collection[str] = (), now: float
) -> int:
    """Take tasks back to their start, each in one fenced transaction; return how many.

    Skipped tasks (duplicates, superseded ones) stay as they are. Raises UsageError, before anything is
    touched, when a worker that is not `dead` holds one, or a file is gone: its rows could not be read again.
    """
    live = [task for task in tasks if task.status != "skipped"]
    for task in live:
        if task.content_offset > task.start_offset:
            _must_be_there(files, task)
    with reading(engine) as conn:
        refuse_held(conn, [task.id for task in live], dead)
    for task in live:
        with transaction(engine) as conn:
            to = _start_of(conn, files, task)
            plan.destination.create(conn)
            replay_task(conn, plan.destination, task, to, snapshot(task.size, utc_text(now)), dead=dead)
            failpoints.hit("before_rescue")
        failpoints.hit("after_rescue")
    return len(live)


def _must_be_there(files: FileSystem, task: Task) -> None:
    try:
        files.stat(os_path(task.path))
    except FileMissing as problem:
        raise UsageError(
            "the file is gone, so its rows could not be read again",
            path=task.path,
            hint="--path PATH replays single files, `filecollect sources forget` starts a source over",
        ) from problem


def _start_of(conn: Connection, files: FileSystem, task: Task) -> Checkpoint:
    if task.start_offset == 0:
        return Checkpoint()
    with files.open(os_path(task.path)) as handle:
        start = checkpoint_at(handle, task.position, task.start_offset)
    return replace(start, records=0, lines=line_at(conn, task, task.start_offset) - 1, parser=task.position.parser)


def retry(engine: Engine, plan: Plan, item: Item, *, now: float) -> str | None:
    """Parse a quarantined record again; put its row in, or return why it still cannot become one.

    One transaction: state open -> retried, the row at (_task_id, _offset); the ledger stays. A record that
    is still bad changes nothing. Raises DatabaseUnavailable.
    """
    origin = Origin(item.task_id, item.generation, item.path, utc_text(now))
    try:
        records = _parsed_again(plan, item)
        with transaction(engine) as conn:
            # A worker that takes the task back does the same first.
            lock_tasks(conn, [item.task_id])
            settle(conn, item, "retried")
            (written,) = plan.destination.write(conn, [(records, origin)])
            if written.refused:
                raise UsageError(written.refused[0][1])
            if written.conflicts:
                raise UsageError("a record with this key is there already")
            failpoints.hit("before_rescue")
    except DatabaseUnavailable:
        raise
    except FilecollectError as problem:
        return problem.message
    failpoints.hit("after_rescue")
    return None


def _parsed_again(plan: Plan, item: Item) -> Records:
    """Return the one record of a quarantined item; raise UsageError when there is still none."""
    if len(item.raw) < item.length:
        raise UsageError(
            f"only {len(item.raw)} of its {item.length} bytes were kept; `filecollect replay` reads the file again"
        )
    parser = make_parser(plan.spec, plan.layout, item.parser or None)
    parsed = parser.parse(item.raw, offset=item.offset, line=item.line, limit=1, tail=Tail.TAKE)
    if parsed.bad:
        raise UsageError(f"{parsed.bad[0].reason}: {parsed.bad[0].message}")
    if len(parsed.records) != 1:
        raise UsageError("it holds no record")
    return parsed.records
