"""Sources: what was decided about a set of files, stored so that it is never inferred again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from filecollect.domain.columns import Column
from filecollect.store.schema import collection_source, collection_task
from filecollect.store.types import DatabaseNow


@dataclass(frozen=True, slots=True)
class StoredSource:
    """A row of `collection_source`; `config` holds `settings`, `spec` and `inferred`."""

    source_key: str
    table_name: str
    format: str
    config: dict[str, Any]
    columns: tuple[Column, ...]
    status: str = "active"
    paused_reason: str | None = None

    @property
    def inferred(self) -> bool:
        """Return whether the source came from a call without a config file."""
        return bool(self.config.get("inferred", False))


def _from_row(row: Any) -> StoredSource:
    return StoredSource(
        row.source_key,
        row.table_name,
        row.format,
        row.config_json,
        tuple(Column.from_json(column) for column in row.columns_json),
        row.status,
        row.paused_reason,
    )


def stored_sources(conn: Connection) -> dict[str, StoredSource]:
    """Return all sources by key."""
    rows = conn.execute(select(collection_source).order_by(collection_source.c.source_key))
    return {row.source_key: _from_row(row) for row in rows}


def stored_source(conn: Connection, source_key: str) -> StoredSource | None:
    """Return one source, None when it is unknown."""
    row = conn.execute(select(collection_source).where(collection_source.c.source_key == source_key)).one_or_none()
    return None if row is None else _from_row(row)


def add_source(conn: Connection, source: StoredSource) -> None:
    """Insert a new source."""
    conn.execute(
        insert(collection_source).values(
            source_key=source.source_key,
            table_name=source.table_name,
            format=source.format,
            config_json=source.config,
            columns_json=[column.to_json() for column in source.columns],
            status=source.status,
            version=1,
            created_at=DatabaseNow(),
            updated_at=DatabaseNow(),
        )
    )


def change_source_config(conn: Connection, source_key: str, config: dict[str, Any]) -> None:
    """Store changed effective settings of a source."""
    conn.execute(
        update(collection_source)
        .where(collection_source.c.source_key == source_key)
        .values(config_json=config, version=collection_source.c.version + 1, updated_at=DatabaseNow())
    )


def change_source(conn: Connection, source: StoredSource) -> None:
    """Store what was decided anew about a source."""
    conn.execute(
        update(collection_source)
        .where(collection_source.c.source_key == source.source_key)
        .values(
            format=source.format,
            config_json=source.config,
            columns_json=[column.to_json() for column in source.columns],
            version=collection_source.c.version + 1,
            updated_at=DatabaseNow(),
        )
    )


def lock_source(conn: Connection, source_key: str) -> bool:
    """Lock a source's row until the transaction ends and note the scan; False when it is gone."""
    done = conn.execute(
        update(collection_source)
        .where(collection_source.c.source_key == source_key)
        .values(last_scan_at=DatabaseNow(), version=collection_source.c.version + 1)
    )
    return done.rowcount == 1


def sources_of_paths(conn: Connection, paths: list[str]) -> dict[str, str]:
    """Return path -> source key for paths that a task knows (the newest task wins)."""
    known: dict[str, str] = {}
    for start in range(0, len(paths), 500):
        rows = conn.execute(
            select(collection_task.c.path, collection_task.c.source_key)
            .where(collection_task.c.path.in_(paths[start : start + 500]))
            .order_by(collection_task.c.id)
        )
        known.update({row.path: row.source_key for row in rows})
    return known


def count_tasks(conn: Connection, source_key: str) -> int:
    """Return how many tasks a source has."""
    return int(
        conn.execute(
            select(func.count()).select_from(collection_task).where(collection_task.c.source_key == source_key)
        ).scalar_one()
    )
