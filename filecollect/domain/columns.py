"""Columns of a destination table and the closed list of their types.

A type is written as users write it: `text`, `integer`, `real`, `decimal` or `decimal(12,2)`,
`boolean`, `date`, `timestamp`, `json`. Aliases of SQL are accepted in settings and normalised here.
Naive and zoned timestamps never share a column: `zoned` says which of the two a column holds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

TYPES = frozenset({"text", "integer", "real", "decimal", "boolean", "date", "timestamp", "json"})
ALIASES = {
    "str": "text",
    "string": "text",
    "varchar": "text",
    "char": "text",
    "int": "integer",
    "bigint": "integer",
    "smallint": "integer",
    "int8": "integer",
    "int4": "integer",
    "float": "real",
    "double": "real",
    "double precision": "real",
    "float8": "real",
    "numeric": "decimal",
    "bool": "boolean",
    "datetime": "timestamp",
    "timestamptz": "timestamp",
    "timestamp with time zone": "timestamp",
    "jsonb": "json",
}
_SPELLING = re.compile(r"\s*([a-z0-9 ]+?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*")


def normal_type(text: str) -> str:
    """Return the normal spelling of a column type; raise ValueError naming the known ones."""
    match = _SPELLING.fullmatch(text.lower())
    base = ALIASES.get(match[1], match[1]) if match else ""
    if match is None or base not in TYPES:
        raise ValueError(f"expected one of {', '.join(sorted(TYPES))}, got {text!r}")
    if base != "decimal" or match[2] is None:
        return base
    return f"decimal({match[2]},{match[3] or 0})"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its `name` in the table, the header cell or key it comes `from`, its type.

    `verbatim` is a JSON column with values that only their own text can keep.
    """

    name: str
    source_name: str
    type: str
    declared: bool = False
    zoned: bool = False
    verbatim: bool = False

    @property
    def base(self) -> str:
        """Return the type without precision: `decimal(12,2)` is `decimal`."""
        return self.type.partition("(")[0]

    def to_json(self) -> dict[str, Any]:
        """Return the column as stored in `collection_source.columns_json`."""
        origin = "declared" if self.declared else "inferred"
        value = {"name": self.name, "from": self.source_name, "type": self.type, "origin": origin}
        return value | {name: True for name in ("zoned", "verbatim") if getattr(self, name)}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Column:
        """Read a column back from `collection_source.columns_json`."""
        return cls(
            value["name"],
            value["from"],
            value["type"],
            value["origin"] == "declared",
            value.get("zoned", False),
            value.get("verbatim", False),
        )


@dataclass(frozen=True, slots=True)
class Layout:
    """What records must become: rows of a typed table, or items of `collected_item`.

    `kind` is "table" or "items". For "items" the records have two virtual columns, the payload (JSON
    text) and the business key text (None without a `key`). `key` holds table column names for
    "table" and source names for "items"; a record whose key part is NULL is bad (`key_missing`).
    """

    columns: tuple[Column, ...]
    key: tuple[str, ...] = ()
    kind: str = "table"
