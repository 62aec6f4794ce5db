"""Who this process is on this machine: boot, PID namespace, process start.

Used to prove that another process is dead. Whatever cannot be read is None, and None proves nothing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Host:
    """The machine and namespace this process runs in; None = cannot be told."""

    name: str | None
    boot_id: str | None
    pid_namespace: str | None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def this_host(name: str | None = None) -> Host:
    """Return this host: `name`, else FILECOLLECT_HOST, else the machine id."""
    try:
        namespace: str | None = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = None
    known = name or os.environ.get("FILECOLLECT_HOST") or _read("/etc/machine-id")
    return Host(known, _read("/proc/sys/kernel/random/boot_id"), namespace)


def process_start(pid: int) -> str | None:
    """Return when process `pid` started, in clock ticks since boot, None when there is none.

    Source: field 22 of /proc/PID/stat (proc(5)); the command name before it may hold spaces. A zombie
    has stopped for good and counts as gone.
    """
    text = _read(f"/proc/{pid}/stat")
    if text is None:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in {"Z", "X"} else fields[19]


def processes_are_visible() -> bool:
    """Return whether /proc shows processes, so that an absent entry is a proof."""
    return process_start(os.getpid()) is not None
