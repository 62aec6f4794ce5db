"""Which host a task belongs to: on a database that hosts share, this one; on SQLite there is only one."""

from __future__ import annotations

from sqlalchemy import Engine

from filecollect.errors import UsageError
from filecollect.host import Host
from filecollect.pipeline.plan import Plan
from filecollect.store.database import database_of


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
