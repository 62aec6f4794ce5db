"""The age order of rotated files: for equal times, `app.log.10` is older than `app.log.2`, than `app.log`.

Dated names count upwards (`app.log-20261101` before `app.log-20261102`), pieces of one day upwards too,
and the undated live file is the newest. A compression suffix says nothing of age. Of one log, numbered
files come before dated ones; where names say nothing, they are sorted naturally (2 before 10).
Times of copies and unpacked archives are often equal, so this order is more than a tie-breaker.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

_COMPRESSED = re.compile(r"(?<=.)\.(?:gz|zst|bz2|xz|lz4|z)$", re.IGNORECASE | re.DOTALL)
_NUMBERED = re.compile(r"(.+)\.(?!(?:19|20)\d\d$)(\d{1,4})", re.DOTALL)
_DATED = re.compile(
    r"(.+?)[-_.]((?:19|20)\d\d(?:\d{4}(?:[-_T]?\d{2,6})?|([-_.])\d\d\3\d\d(?:[-_T.]\d\d(?:[-_.:]?\d\d){0,2})?)Z?)"
    r"((?:[-_.]\d+)?)(\.[^/]*[A-Za-z][^/]*)?",
    re.DOTALL,
)
_DIGITS = re.compile(r"(\d+)")


def natural(text: str) -> tuple[Any, ...]:
    """Return a key that sorts numbers in a name by value."""
    return tuple(
        (1, int(part), part) if part.isascii() and part.isdigit() else (0, 0, part)
        for part in _DIGITS.split(text)
        if part
    )


def rotation_key(path: str) -> tuple[Any, ...]:
    """Return a key that sorts one log's rotations oldest first."""
    directory, _, full = path.rpartition("/")
    name = _COMPRESSED.sub("", full)
    place = natural(directory)
    if dated := _DATED.fullmatch(name):
        when = natural(dated[2] + dated[4])
        return (place, natural(dated[1] + (dated[5] or "")), 1, 0, when, natural(full))
    if numbered := _NUMBERED.fullmatch(name):
        return (place, natural(numbered[1]), 0, -int(numbered[2]), (), natural(full))
    return (place, natural(name), 2, 0, (), natural(full))


def is_rotated(path: str) -> bool:
    """Return whether a name is one that rotation gives: numbered, dated after its suffix, or kept as old."""
    name = _COMPRESSED.sub("", path.rpartition("/")[2])
    if name.endswith((".old", ".bak", "~")) or _NUMBERED.fullmatch(name):
        return True
    dated = _DATED.fullmatch(name)
    return dated is not None and dated[5] is None and "." in dated[1]


def same_chain(path: str, other: str) -> bool:
    """Return whether two names are rotations of one log."""
    return bool({path, *rotated_from(path)} & {other, *rotated_from(other)})


def rotated_from(path: str) -> list[str]:
    """Return the names that a rotated file may have had before."""
    directory, _, name = path.rpartition("/")
    plain = _COMPRESSED.sub("", name)
    found = [plain] if plain != name else []
    for match in (_NUMBERED.fullmatch(plain), _DATED.fullmatch(plain)):
        if match is not None:
            found.append(match[1])
    found += [plain.removesuffix(suffix) for suffix in (".old", ".bak", "~") if plain.endswith(suffix)]
    return [f"{directory}/{one}" for one in found]


def age_order(items: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return (path, mtime_ns) pairs oldest first: by time, then by rotation."""
    return sorted(items, key=lambda item: (item[1], rotation_key(item[0])))
