"""The only layer that sees files and SQL together."""
