"""Render our tables as SQL text: for `sql/`, for `filecollect db ddl`, for a DBA to read and run.

Invariant: the text is the same on every machine, and a database made by running it is one that
`migrate.upgrade` recognises, because it also writes the version row.
"""

from __future__ import annotations

from sqlalchemy import Dialect
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

from filecollect.errors import UsageError
from filecollect.store.migrate import HEAD
from filecollect.store.schema import OUR_TABLES, VERSION_TABLE, metadata

_TITLES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def render(dialect: str) -> str:
    """Return the DDL of all our tables for `sqlite` or `postgresql`; raise UsageError for another."""
    if dialect not in _TITLES:
        raise UsageError(f"expected a database of {', '.join(sorted(_TITLES))}, got {dialect!r}")
    make = sqlite.dialect if dialect == "sqlite" else postgresql.dialect
    spoken: Dialect = make()
    parts = [
        f"-- filecollect's own tables for {_TITLES[dialect]}, version {HEAD}.\n"
        f"-- Rendered by `filecollect db ddl`: change filecollect/store/schema.py and its migrations, not this file."
    ]
    for name in (VERSION_TABLE, *OUR_TABLES):
        table = metadata.tables[name]
        # The compiler leaves a blank after each comma at a line's end.
        lines = str(CreateTable(table).compile(dialect=spoken)).strip().splitlines()
        parts.append("\n".join(line.rstrip() for line in lines) + ";")
        parts += [
            str(CreateIndex(index).compile(dialect=spoken)).strip() + ";"
            for index in sorted(table.indexes, key=lambda index: str(index.name))
        ]
    parts.append(f"INSERT INTO {VERSION_TABLE} (version_num) VALUES ('{HEAD}');")
    return "\n\n".join(parts) + "\n"
