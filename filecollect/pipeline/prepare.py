"""Making a source ready to take files: its table, and the row that remembers what was decided."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import Engine

from filecollect import failpoints
from filecollect.errors import UsageError
from filecollect.pipeline.plan import Plan, remember_tuning, stored_plan, to_stored
from filecollect.store.adopt import adopt
from filecollect.store.engine import reading, transaction
from filecollect.store.sources import add_source, count_tasks, stored_source


def check_table(engine: Engine, plan: Plan) -> None:
    """Raise UsageError when a table is gone though files are recorded as loaded into it."""
    if plan.created:
        return
    with reading(engine) as conn:
        there = plan.destination.is_items or plan.destination.exists(conn)
        if not there and count_tasks(conn, plan.source_key):
            key = plan.source_key
            raise UsageError(
                f"table {plan.destination.table} is gone, but files of source {key} are recorded as loaded",
                hint=f"`filecollect replay {key}` loads them again, "
                f"`filecollect sources forget {key}` forgets that they were loaded",
            )


def create_source(engine: Engine, plan: Plan, *, alter: bool) -> Plan:
    """Create a new source with its table; return the stored plan when somebody else was faster."""
    with transaction(engine) as conn:
        stored = stored_source(conn, plan.source_key)
        if stored is not None and plan.created:
            plan = stored_plan(stored)
        elif stored is None:
            if not plan.destination.is_items and plan.destination.exists(conn):
                mine = adopt(conn, plan.destination, alter=alter)
                plan = replace(plan, destination=mine, columns=mine.layout.columns)
            if plan.settings.create:
                plan.destination.create(conn)
            table = plan.destination.table
            name = table if plan.destination.schema is None else f"{plan.destination.schema}.{table}"
            add_source(conn, to_stored(plan, name))
        else:
            remember_tuning(conn, stored, plan)
    failpoints.hit("after_create_table")
    return plan
