"""Sources: what was decided about a set of files, stored so that it is never inferred again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from filecollect.domain.columns import Column
from filecollect.errors import UsageError
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


def paused_sources(conn: Connection) -> frozenset[str]:
    """Return the keys of paused sources."""
    return frozenset(conn.scalars(select(collection_source.c.source_key).where(collection_source.c.status == "paused")))


def hold_active(conn: Connection, keys: Collection[str]) -> set[str]:
    """Return those of `keys` that are not paused, nor will be before this transaction ends.

    Waits for nobody: a source whose row somebody has locked to pause or forget it is left out.
    """
    mine = collection_source.c
    known = set(conn.scalars(select(mine.source_key).where(mine.source_key.in_(sorted(keys)))))
    active = select(mine.source_key).where(mine.source_key.in_(sorted(known)), mine.status == "active")
    held = conn.scalars(active.order_by(mine.source_key).with_for_update(read=True, key_share=True, skip_locked=True))
    return (set(keys) - known) | set(held)


def set_source_status(conn: Connection, source_key: str, status: str, reason: str | None) -> bool:
    """Pause a source or make it active, waiting for claims that are under way; False when it is so already.

    Raises UsageError for an unknown source.
    """
    mine = collection_source.c
    row = conn.execute(select(mine.status).where(mine.source_key == source_key).with_for_update()).first()
    if row is None:
        raise UsageError(f"no source {source_key!r}", hint="filecollect sources list")
    if row.status == status:
        return False
    conn.execute(
        update(collection_source)
        .where(mine.source_key == source_key)
        .values(status=status, paused_reason=reason, version=mine.version + 1, updated_at=DatabaseNow())
    )
    return True


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
