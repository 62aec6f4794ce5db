"""Alembic's entry: run the migrations on the connection, and in the transaction, of `migrate`."""

from __future__ import annotations

from alembic import context

from filecollect.store.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
    version_table_schema=context.config.attributes["schema"],
)
with context.begin_transaction():
    context.run_migrations()
