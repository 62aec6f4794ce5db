"""Bytes to records: framing, formats, types; no I/O and no SQL."""
