"""All tables of our own, in one metadata: the schema that migrations and `sql/` must equal.

Invariant: a test proves that these tables, the Alembic migrations and the rendered files in `sql/`
are the same; so a new database may be made from here while an old one is migrated. Tables carry no
foreign keys: rows are written in one transaction by one function, and retention deletes by parts.
Ids are never used again (AUTOINCREMENT on SQLite), because id order is age order.

All tables can live in a PostgreSQL schema: `schema_translate_map={None: schema}` on the engine.
What is not here: destination tables of sources, whose columns are the users'.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CHAR,
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from filecollect.store.types import BigId, DatabaseNow, Json, Unsigned64
from filecollect.store.types import Instant as Instant

VERSION_TABLE = "filecollect_version"

metadata = MetaData()


def _count(name: str, start: int | None = 0) -> Column[int]:
    return Column(name, BigInteger, nullable=False, server_default=None if start is None else text(str(start)))


def _stamp(name: str) -> Column[Any]:
    return Column(name, Instant, nullable=False, server_default=DatabaseNow())


def _partial(name: str, where: str, *columns: str) -> Index:
    return Index(name, *columns, sqlite_where=text(where), postgresql_where=text(where))


filecollect_version = Table(
    VERSION_TABLE,
    metadata,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)

collection_source = Table(
    "collection_source",
    metadata,
    Column("source_key", String(128), primary_key=True),
    Column("table_name", Text, nullable=False),
    Column("format", Text, nullable=False),
    Column("config_json", Json, nullable=False),
    Column("columns_json", Json, nullable=False),
    Column("status", String(20), nullable=False, server_default="active"),
    Column("paused_reason", Text),
    Column("last_scan_at", Instant),
    _count("version"),
    _stamp("created_at"),
    _stamp("updated_at"),
)

collection_task = Table(
    "collection_task",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("generation", CHAR(32), nullable=False),
    Column("parent_task_id", BigInteger),
    Column("source_key", String(128), nullable=False),
    Column("status", String(20), nullable=False, server_default="pending"),
    _count("start_offset"),
    _count("content_offset"),
    _count("raw_offset"),
    Column("checkpoint_json", Json, nullable=False),
    Column("snapshot_json", Json),
    Column("owner_id", String(64)),
    Column("lease_until", Instant),
    Column("attempt_count", Integer, nullable=False, server_default=text("0")),
    Column("max_attempts", Integer, nullable=False, server_default=text("10")),
    Column("next_run_at", Instant),
    Column("last_error", Text),
    _count("version"),
    _stamp("created_at"),
    _stamp("updated_at"),
    Column("host", String(255)),
    Column("path", Text, nullable=False),
    Column("device", Unsigned64),
    Column("inode", Unsigned64),
    Column("size", BigInteger),
    Column("mtime_ns", BigInteger),
    Column("head_length", Integer),
    Column("head_digest", String(32)),
    Column("content_digest", String(32)),
    Index("ix_collection_task_head", "source_key", "head_length", "head_digest"),
    Index("ix_collection_task_path", "path"),
    Index("ix_collection_task_source_path", "source_key", "path"),
    Index("ix_collection_task_ready", "status", "next_run_at", "id"),
    Index("ix_collection_task_owner", "owner_id"),
    Index("ix_collection_task_inode", "source_key", "inode"),
    _partial("ix_collection_task_due", "status = 'pending'", "source_key", "host", "next_run_at", "id"),
    _partial("ix_collection_task_lease", "status = 'running'", "source_key", "host", "lease_until", "id"),
    sqlite_autoincrement=True,
)

worker = Table(
    "worker",
    metadata,
    Column("owner_id", String(64), primary_key=True),
    Column("host", String(255)),
    Column("boot_id", String(64)),
    Column("pid_namespace", String(64)),
    Column("pid", Integer, nullable=False),
    Column("process_start", String(64)),
    Column("app_version", String(64), nullable=False),
    _stamp("started_at"),
    _stamp("heartbeat_at"),
    Column("counters_json", Json),
)

committed_batch = Table(
    "committed_batch",
    metadata,
    Column("task_id", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    _count("start_offset", None),
    _count("end_offset", None),
    _count("start_line", None),
    _count("row_count"),
    _count("quarantined_count"),
    _count("skipped_count"),
    Column("digest", String(32), nullable=False),
    Column("kind", String(20), nullable=False, server_default="data"),
    Column("owner_id", String(64), nullable=False),
    _count("version", None),
    _stamp("committed_at"),
    PrimaryKeyConstraint("task_id", "seq", name="pk_committed_batch"),
    UniqueConstraint("task_id", "start_offset", name="uq_committed_batch_start"),
)

collected_item = Table(
    "collected_item",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("source_key", String(128), nullable=False),
    Column("source_item_id", String(128), nullable=False),
    Column("payload", Json, nullable=False),
    _stamp("collected_at"),
    Column("_task_id", BigInteger, nullable=False),
    Column("_offset", BigInteger, nullable=False),
    UniqueConstraint("source_key", "source_item_id", name="uq_collected_item_key"),
    UniqueConstraint("_task_id", "_offset", name="uq_collected_item_record"),
)

quarantined_item = Table(
    "quarantined_item",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("task_id", BigInteger, nullable=False),
    Column("source_key", String(128), nullable=False),
    _count("start_offset", None),
    _count("length", None),
    _count("line", None),
    Column("raw", LargeBinary, nullable=False),
    Column("reason", String(64), nullable=False),
    Column("message", Text, nullable=False),
    Column("parser_json", Json, nullable=False),
    Column("state", String(20), nullable=False, server_default="open"),
    _stamp("created_at"),
    UniqueConstraint("task_id", "start_offset", name="uq_quarantined_item_record"),
    Index("ix_quarantined_item_state", "source_key", "state"),
    sqlite_autoincrement=True,
)

outbox_message = Table(
    "outbox_message",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("source_key", String(128), nullable=False),
    Column("task_id", BigInteger, nullable=False),
    Column("record_offset", BigInteger, nullable=False),
    Column("sink", String(128), nullable=False),
    Column("idempotency_key", String(255), nullable=False),
    Column("payload", Json, nullable=False),
    Column("state", String(20), nullable=False, server_default="pending"),
    Column("attempt_count", Integer, nullable=False, server_default=text("0")),
    Column("next_run_at", Instant),
    Column("last_error", Text),
    Column("owner_id", String(64)),
    Column("lease_until", Instant),
    _count("version"),
    _stamp("created_at"),
    Column("delivered_at", Instant),
    UniqueConstraint("idempotency_key", name="uq_outbox_message_idempotency_key"),
    Index("ix_outbox_message_ready", "sink", "state", "next_run_at", "id"),
    sqlite_autoincrement=True,
)

file_event = Table(
    "file_event",
    metadata,
    Column("id", BigId, primary_key=True),
    Column("task_id", BigInteger),
    Column("source_key", String(128)),
    Column("path", Text, nullable=False),
    Column("kind", String(64), nullable=False),
    Column("detail", Json, nullable=False),
    _stamp("at"),
    Index("ix_file_event_task", "task_id"),
    Index("ix_file_event_at", "at"),
    sqlite_autoincrement=True,
)

OUR_TABLES = (
    "collection_source",
    "collection_task",
    "worker",
    "committed_batch",
    "collected_item",
    "quarantined_item",
    "outbox_message",
    "file_event",
)
"""Names that no destination table may take; the version table is ours too."""
