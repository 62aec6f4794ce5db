"""Values and decisions: pure functions, no I/O."""
