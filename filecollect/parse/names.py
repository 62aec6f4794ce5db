"""Names of columns from header cells and keys: kept as they are, made unique and short enough.

Invariant: the names of one call differ even when case is ignored, none is reserved, and each has at
most 63 UTF-8 bytes (PostgreSQL's limit). The same list of source names always gives the same names. A
name that an input column has by right is never given away as the `_2` of another column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import xxhash

RESERVED = frozenset({"_task_id", "_offset", "_extra", "_file", "_line", "_ingested_at", "_host"})
"""Columns that the product itself adds to a destination table."""
LONGEST_BYTES = 63
_KEPT_BYTES = 54
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATOR = re.compile(r"[\W_]+")


def column_names(
    source_names: Sequence[str | None], *, reserved: Iterable[str] = RESERVED, snake: bool = False
) -> list[str]:
    """Return a unique column name for each source name; an empty one becomes `c<N>`, counted from 1."""
    wanted = [_wanted(name, position, snake) for position, name in enumerate(source_names, 1)]
    taken = {name.casefold() for name in reserved}
    by_right: set[str] = {name.casefold() for name in wanted} - taken
    names = []
    for name in wanted:
        folded = name.casefold()
        if folded in by_right and folded not in taken:
            taken.add(folded)
            names.append(name)
            continue
        number = 2
        while (candidate := _fit(f"{name}_{number}")).casefold() in taken | by_right:
            number += 1
        taken.add(candidate.casefold())
        names.append(candidate)
    return names


def _wanted(name: str | None, position: int, snake: bool) -> str:
    if name and snake:
        name = _SEPARATOR.sub("_", _CAMEL.sub("_", name)).strip("_").casefold()
    # No database can hold a NUL in a name.
    return _fit(name.replace("\0", "_")) if name else f"c{position}"


def _fit(name: str) -> str:
    encoded = name.encode("utf-8", "replace")
    if len(encoded) <= LONGEST_BYTES:
        return name
    return encoded[:_KEPT_BYTES].decode("utf-8", "ignore") + "_" + xxhash.xxh3_64_hexdigest(encoded)[:8]
