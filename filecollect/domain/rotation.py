"""The age order of rotated files: for equal times, `app.log.10` is older than `app.log.2`, than `app.log`.

Dated names count upwards (`app.log-20261101` before `app.log-20261102`), and the undated live file is
the newest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_NUMBERED = re.compile(r"(.*)\.(\d{1,4})(\.(?:gz|zst|bz2|xz|lz4|Z))?")
_DATED = re.compile(r"(.*?)[-_.](\d{8,14}|\d{4}-\d{2}-\d{2}(?:[-_T]\d{2}.*)?)(\.[A-Za-z0-9.]+)?")
_DIGITS = re.compile(r"(\d+)")


def natural(text: str) -> tuple[Any, ...]:
    """Return a key that sorts numbers in a name by value."""
    return tuple((1, int(part), part) if part.isdecimal() else (0, 0, part) for part in _DIGITS.split(text) if part)


def rotation_key(path: str) -> tuple[Any, ...]:
    """Return a key that sorts one log's rotations oldest first."""
    directory, _, name = path.rpartition("/")
    if numbered := _NUMBERED.fullmatch(name):
        return (directory, natural(numbered[1]), 0, -int(numbered[2]), natural(name))
    if dated := _DATED.fullmatch(name):
        return (directory, natural(dated[1] + (dated[3] or "")), 1, 0, natural(dated[2]))
    return (directory, natural(name), 2, 0, natural(name))


def age_order(items: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return (path, mtime_ns) pairs oldest first: by time, then by rotation."""
    return sorted(items, key=lambda item: (item[1], rotation_key(item[0])))
