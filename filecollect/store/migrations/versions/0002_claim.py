"""Indexes that make a claim cost the same however many tasks there are. Frozen, like every migration."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the indexes of due tasks and of leases."""
    for name, where, columns in (
        ("ix_collection_task_due", "status = 'pending'", ["source_key", "host", "next_run_at", "id"]),
        ("ix_collection_task_lease", "status = 'running'", ["source_key", "host", "lease_until", "id"]),
    ):
        op.create_index(name, "collection_task", columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
