"""Tell on which kind of file system a path lies, and whether SQLite is safe there.

SQLite's WAL needs locks and shared memory that all processes see alike; network file systems give
neither between hosts. Only Linux's mount table is read; elsewhere nothing is known and nothing is
refused. A path under a mount that appears later is not noticed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

MOUNTS = Path("/proc/self/mounts")
NETWORK = frozenset(
    {
        "9p-drvfs",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "davfs",
        "fuse.ceph",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    }
)
_OCTAL = re.compile(r"\\([0-7]{3})")


def file_system(path: str, mounts: str) -> str | None:
    """Return the kind of file system that `path` (absolute, symlinks resolved) lies on.

    `mounts` is the text of /proc/self/mounts. A Windows drive inside WSL is told as `9p-drvfs`;
    other uses of 9p (root file systems of sandboxes) lock well.
    """
    best, kind = -1, None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 4:
            continue
        point = _OCTAL.sub(lambda octal: chr(int(octal[1], 8)), fields[1]).rstrip("/")
        # Later mounts cover earlier ones at the same point.
        if (path == point or path.startswith(point + "/")) and len(point) >= best:
            best, kind = len(point), fields[2]
            if kind == "9p" and "drvfs" in fields[3]:
                kind = "9p-drvfs"
    return kind


def network_file_system(path: str | Path, mounts: Path = MOUNTS) -> str | None:
    """Return the kind of network file system that `path` lies on, or None for a local one."""
    try:
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    kind = file_system(os.path.realpath(path), text)
    return kind if kind in NETWORK else None
