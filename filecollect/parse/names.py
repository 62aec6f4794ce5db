"""Column names: kept as they are, made unique, short enough for every database."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import xxhash

RESERVED = ("_task_id", "_offset", "_extra", "_file", "_line", "_ingested_at", "_host")
LONGEST_BYTES = 63


def column_names(source_names: Sequence[str], *, reserved: Iterable[str] = RESERVED, snake: bool = False) -> list[str]:
    """Return a unique table column name for every source name, by position.

    Duplicates, compared casefolded, get the first free `_2`, `_3`; empty names become `c<N>`; names
    over 63 bytes are cut to 54 bytes, `_` and 8 hex digits of their hash.
    """
    wanted = [shortened(_snake(name) if snake else name) or f"c{at}" for at, name in enumerate(source_names, 1)]
    taken = {name.casefold() for name in reserved}
    spoken_for = {name.casefold() for name in wanted}
    names = []
    for name in wanted:
        unique, number = name, 2
        while unique.casefold() in taken or (unique != name and unique.casefold() in spoken_for):
            unique = shortened(f"{name}_{number}")
            number += 1
        taken.add(unique.casefold())
        names.append(unique)
    return names


def shortened(name: str) -> str:
    """Return a name of at most 63 bytes."""
    raw = name.encode("utf-8", "surrogatepass")
    if len(raw) <= LONGEST_BYTES:
        return name
    return raw[:54].decode("utf-8", "ignore") + "_" + xxhash.xxh3_64_hexdigest(raw)[:8]


def _snake(name: str) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"\W+", "_", words).strip("_").lower()
