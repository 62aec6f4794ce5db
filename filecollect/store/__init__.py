"""SQL: the schema, the one commit, tasks and queries."""
