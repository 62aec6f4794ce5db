"""Collect files and logs into SQL tables, exactly once."""

__version__ = "0.1.0"
