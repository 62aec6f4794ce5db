"""Leases: who may commit for a task, and when an owner is provably dead.

Only the database decides who owns a task: `owner`, `version` and `lease_until > database clock` are
part of every commit's fence. What stands here only stops us sooner, or lets us take over at once
instead of waiting for the lease of a process that can be shown not to exist any more.
"""

from __future__ import annotations

from dataclasses import dataclass

from filecollect.host import Host


@dataclass(frozen=True, slots=True)
class Lease:
    """A claim on a task: the fencing token is (`owner`, `version`)."""

    task_id: int
    owner: str
    version: int


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A row of the `worker` table, as far as it proves life or death."""

    owner: str
    host: str | None
    boot_id: str | None
    pid_namespace: str | None
    pid: int
    process_start: str | None


def trusted_until(asked_at: float, lease_s: float, margin_s: float) -> float:
    """Return the local monotonic time until which a lease asked for at `asked_at` may be trusted."""
    return asked_at + lease_s - margin_s


def provably_dead(worker: WorkerRecord, here: Host, start_of_pid: str | None, proc_visible: bool) -> bool:
    """Return whether `worker` certainly runs no more, seen from `here`.

    Certain is: same host and another boot; or same host, boot and PID namespace, and no process with
    its pid, or one that started at another time. Anything that cannot be read is no proof.
    `start_of_pid` is the start of the process that has the worker's pid now, None if there is none.
    """
    if None in (worker.host, worker.boot_id, here.name, here.boot_id) or worker.host != here.name:
        return False
    if worker.boot_id != here.boot_id:
        return True
    if None in (worker.pid_namespace, here.pid_namespace, worker.process_start):
        return False
    if worker.pid_namespace != here.pid_namespace or not proc_visible:
        return False
    return start_of_pid != worker.process_start
