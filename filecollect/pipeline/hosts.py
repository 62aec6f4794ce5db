"""Which host a task belongs to, and which of its workers are dead.

On a database that hosts share a task belongs to one of them; on SQLite there is only one.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine

from filecollect.domain.lease import provably_dead
from filecollect.errors import UsageError
from filecollect.host import Host, process_start, processes_are_visible
from filecollect.pipeline.plan import Plan
from filecollect.store.database import database_of
from filecollect.store.tasks import owners_of_running


def task_host(engine: Engine, host: Host, plan: Plan | None = None) -> str | None:
    """Return what `collection_task.host` is for files of this host, and of a plan: NULL on shared storage.

    Raises UsageError when several hosts may share the database and this one has no name.
    """
    if not database_of(engine).has_hosts or (plan is not None and plan.settings.shared):
        return None
    if host.name is None:
        raise UsageError(
            "this host has no name that lasts (there is no /etc/machine-id), so its files could be taken for another's",
            hint='set FILECOLLECT_HOST, or host = "..." in [worker]',
        )
    return host.name


def dead_owners(conn: Connection, host: Host) -> list[str]:
    """Return the workers that hold tasks although they certainly run no more."""
    visible = processes_are_visible()
    return [one.owner for one in owners_of_running(conn) if provably_dead(one, host, process_start(one.pid), visible)]
