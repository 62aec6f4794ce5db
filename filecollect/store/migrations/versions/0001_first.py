"""All tables of the first version. Frozen: it repeats its types and imports nothing of ours."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BIG_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
INSTANT = sa.Text().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
JSON = sa.Text().with_variant(postgresql.JSONB(), "postgresql")


def _count(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=False)


def _count_from_0(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger, nullable=False, server_default=sa.text("0"))


def _stamp(name: str) -> sa.Column[Any]:
    sqlite = op.get_bind().dialect.name == "sqlite"
    now = "(strftime('%Y-%m-%d %H:%M:%f','now'))" if sqlite else "clock_timestamp()"
    return sa.Column(name, INSTANT, nullable=False, server_default=sa.text(now))


def upgrade() -> None:
    """Create all tables."""
    op.create_table(
        "collection_source",
        sa.Column("source_key", sa.String(128), primary_key=True),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("format", sa.Text, nullable=False),
        sa.Column("config_json", JSON, nullable=False),
        sa.Column("columns_json", JSON, nullable=False),
        sa.Column("status", sa.String(20), nullable=False, server_default="active"),
        sa.Column("paused_reason", sa.Text),
        sa.Column("last_scan_at", INSTANT),
        _count_from_0("version"),
        _stamp("created_at"),
        _stamp("updated_at"),
    )
    op.create_table(
        "collection_task",
        sa.Column("id", BIG_ID, primary_key=True),
        sa.Column("generation", sa.CHAR(32), nullable=False),
        sa.Column("parent_task_id", sa.BigInteger),
        sa.Column("source_key", sa.String(128), nullable=False),
        sa.Column("status", sa.String(20), nullable=False, server_default="pending"),
        _count_from_0("start_offset"),
        _count_from_0("content_offset"),
        _count_from_0("raw_offset"),
        sa.Column("checkpoint_json", JSON, nullable=False),
        sa.Column("snapshot_json", JSON),
        sa.Column("owner_id", sa.String(64)),
        sa.Column("lease_until", INSTANT),
        sa.Column("attempt_count", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("max_attempts", sa.Integer, nullable=False, server_default=sa.text("10")),
        sa.Column("next_run_at", INSTANT),
        sa.Column("last_error", sa.Text),
        _count_from_0("version"),
        _stamp("created_at"),
        _stamp("updated_at"),
        sa.Column("host", sa.String(255)),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("device", sa.BigInteger),
        sa.Column("inode", sa.BigInteger),
        sa.Column("size", sa.BigInteger),
        sa.Column("mtime_ns", sa.BigInteger),
        sa.Column("head_length", sa.Integer),
        sa.Column("head_digest", sa.String(32)),
        sa.Column("content_digest", sa.String(32)),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_collection_task_head", "collection_task", ["source_key", "head_length", "head_digest"])
    op.create_index("ix_collection_task_path", "collection_task", ["path"])
    op.create_index("ix_collection_task_source_path", "collection_task", ["source_key", "path"])
    op.create_index("ix_collection_task_ready", "collection_task", ["status", "next_run_at", "id"])
    op.create_index("ix_collection_task_owner", "collection_task", ["owner_id"])
    op.create_index("ix_collection_task_inode", "collection_task", ["source_key", "inode"])
    op.create_table(
        "worker",
        sa.Column("owner_id", sa.String(64), primary_key=True),
        sa.Column("host", sa.String(255)),
        sa.Column("boot_id", sa.String(64)),
        sa.Column("pid_namespace", sa.String(64)),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("process_start", sa.String(64)),
        sa.Column("app_version", sa.String(64), nullable=False),
        _stamp("started_at"),
        _stamp("heartbeat_at"),
        sa.Column("counters_json", JSON),
    )
    op.create_table(
        "committed_batch",
        sa.Column("task_id", sa.BigInteger, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        _count("start_offset"),
        _count("end_offset"),
        _count("start_line"),
        _count_from_0("row_count"),
        _count_from_0("quarantined_count"),
        _count_from_0("skipped_count"),
        sa.Column("digest", sa.String(32), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False, server_default="data"),
        sa.Column("owner_id", sa.String(64), nullable=False),
        _count("version"),
        _stamp("committed_at"),
        sa.PrimaryKeyConstraint("task_id", "seq", name="pk_committed_batch"),
        sa.UniqueConstraint("task_id", "start_offset", name="uq_committed_batch_start"),
    )
    op.create_table(
        "collected_item",
        sa.Column("id", BIG_ID, primary_key=True),
        sa.Column("source_key", sa.String(128), nullable=False),
        sa.Column("source_item_id", sa.String(128), nullable=False),
        sa.Column("payload", JSON, nullable=False),
        _stamp("collected_at"),
        sa.Column("_task_id", sa.BigInteger, nullable=False),
        sa.Column("_offset", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("source_key", "source_item_id", name="uq_collected_item_key"),
        sa.UniqueConstraint("_task_id", "_offset", name="uq_collected_item_record"),
    )
    op.create_table(
        "quarantined_item",
        sa.Column("id", BIG_ID, primary_key=True),
        sa.Column("task_id", sa.BigInteger, nullable=False),
        sa.Column("source_key", sa.String(128), nullable=False),
        _count("start_offset"),
        _count("length"),
        _count("line"),
        sa.Column("raw", sa.LargeBinary, nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("parser_json", JSON, nullable=False),
        sa.Column("state", sa.String(20), nullable=False, server_default="open"),
        _stamp("created_at"),
        sa.UniqueConstraint("task_id", "start_offset", name="uq_quarantined_item_record"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_quarantined_item_state", "quarantined_item", ["source_key", "state"])
    op.create_table(
        "outbox_message",
        sa.Column("id", BIG_ID, primary_key=True),
        sa.Column("source_key", sa.String(128), nullable=False),
        sa.Column("task_id", sa.BigInteger, nullable=False),
        sa.Column("record_offset", sa.BigInteger, nullable=False),
        sa.Column("sink", sa.String(128), nullable=False),
        sa.Column("idempotency_key", sa.String(255), nullable=False),
        sa.Column("payload", JSON, nullable=False),
        sa.Column("state", sa.String(20), nullable=False, server_default="pending"),
        sa.Column("attempt_count", sa.Integer, nullable=False, server_default=sa.text("0")),
        sa.Column("next_run_at", INSTANT),
        sa.Column("last_error", sa.Text),
        sa.Column("owner_id", sa.String(64)),
        sa.Column("lease_until", INSTANT),
        _count_from_0("version"),
        _stamp("created_at"),
        sa.Column("delivered_at", INSTANT),
        sa.UniqueConstraint("idempotency_key", name="uq_outbox_message_idempotency_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_outbox_message_ready", "outbox_message", ["sink", "state", "next_run_at", "id"])
    op.create_table(
        "file_event",
        sa.Column("id", BIG_ID, primary_key=True),
        sa.Column("task_id", sa.BigInteger),
        sa.Column("source_key", sa.String(128)),
        sa.Column("path", sa.Text, nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("detail", JSON, nullable=False),
        _stamp("at"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_file_event_task", "file_event", ["task_id"])
    op.create_index("ix_file_event_at", "file_event", ["at"])
