"""Replay with other settings: what was decided about a source is decided again, from its own files.

The new table, the source and every task's way back are one transaction. A table whose shape changes
is made anew, so it must hold nothing but this source's rows; with `--path` the shape must stay.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

from sqlalchemy import Connection, Engine

from filecollect import failpoints
from filecollect.clock import utc_text
from filecollect.domain.columns import Column
from filecollect.domain.position import Checkpoint
from filecollect.errors import FilecollectError, UsageError
from filecollect.files.filesystem import FileSystem
from filecollect.parse.infer import Inference
from filecollect.parse.sniff import sniff
from filecollect.parse.spec import Spec, Wanted
from filecollect.pipeline.assign import SAMPLED_FILES, ends_of
from filecollect.pipeline.plan import Plan, new_plan, settings_of, stored_plan, to_stored
from filecollect.store.engine import transaction
from filecollect.store.rewind import replay_task
from filecollect.store.sources import StoredSource, change_source
from filecollect.store.tasks import Task, snapshot


def replay_with(
    engine: Engine,
    files: FileSystem,
    stored: StoredSource,
    tasks: Sequence[Task],
    changes: Mapping[str, Any],
    wanted: Wanted,
    *,
    whole: bool,
    dead: Collection[str] = (),
    now: float,
) -> int:
    """Take tasks back to their start under changed settings; return how many.

    `whole` means that `tasks` are all of the source. Raises UsageError when a worker holds one, when
    no file can be read to decide anew, or when the table holds rows of others.
    """
    old = stored_plan(stored)
    live = [task for task in tasks if task.status != "skipped"]
    new = _decide(files, stored, live, changes, wanted)
    reshaped = new.destination != old.destination
    if reshaped and not whole:
        raise UsageError("these settings change the table; replay the whole source", hint="leave out --path")
    with transaction(engine) as conn:
        for task in live:
            if task.start_offset:
                raise UsageError("a generation that began inside a file cannot be read in another way", path=task.path)
            replay_task(conn, old.destination, task, Checkpoint(), snapshot(task.size, utc_text(now)), dead=dead)
        if reshaped:
            _make_anew(conn, old, new)
        change_source(conn, replace(to_stored(new, stored.table_name), source_key=stored.source_key))
        failpoints.hit("before_rescue")
    failpoints.hit("after_rescue")
    return len(live)


def _decide(
    files: FileSystem, stored: StoredSource, tasks: Sequence[Task], changes: Mapping[str, Any], wanted: Wanted
) -> Plan:
    settings = settings_of(stored.config["settings"] | dict(changes))
    spec: Spec | None = None
    inference: Inference | None = None
    for task in tasks[-SAMPLED_FILES:]:
        try:
            ends = ends_of(files, task.path)
        except FilecollectError:
            continue
        if inference is None:
            name = PurePath(task.path).name
            spec = sniff(ends.head, complete=ends.complete, name=name, wanted=wanted).spec
            inference = Inference(spec)
        inference.add(ends.head, ends.tail)
    if spec is None or inference is None:
        raise UsageError(f"no file of source {stored.source_key} can be read any more")
    columns: tuple[Column, ...] = ()
    if stored.table_name != "collected_item":
        columns = inference.columns(settings.columns)
    settings = settings.model_copy(update={"format": spec.format})
    return new_plan(stored.source_key, stored.table_name, settings, spec, columns, inferred=stored.inferred)


def _make_anew(conn: Connection, old: Plan, new: Plan) -> None:
    if old.destination.is_items or not old.destination.exists(conn):
        new.destination.create(conn)
        return
    if conn.exec_driver_sql(f"SELECT 1 FROM {old.destination.sql_name} LIMIT 1").first() is not None:
        raise UsageError(f"table {old.destination.table} holds rows that are not of this source; it is not made anew")
    conn.exec_driver_sql(f"DROP TABLE {old.destination.sql_name}")
    new.destination.create(conn)
