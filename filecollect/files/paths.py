"""The stored form of paths: absolute, normalised, links not resolved, always UTF-8 text.

Bytes that are not UTF-8, and `%` itself, are percent-encoded, so the form is unique and reversible.
"""

from __future__ import annotations

import os
import re

_ESCAPE = re.compile(r"%([0-9A-F]{2})")


def stored_path(path: str | bytes) -> str:
    """Return an operating-system path in stored form."""
    raw = os.fsencode(path)
    text = raw.replace(b"%", b"%25").decode("utf-8", "surrogateescape")
    return "".join(f"%{ord(c) - 0xDC00:02X}" if 0xDC80 <= ord(c) <= 0xDCFF else c for c in text)


def os_path(stored: str) -> str:
    """Return the operating-system path of a stored one."""
    if "%" not in stored:
        return stored
    raw = b""
    last = 0
    for match in _ESCAPE.finditer(stored):
        raw += stored[last : match.start()].encode() + bytes([int(match[1], 16)])
        last = match.end()
    return os.fsdecode(raw + stored[last:].encode())


def absolute(path: str, base: str) -> str:
    """Return a path as absolute and normalised, `~` expanded; links are not resolved."""
    whole = os.path.normpath(os.path.join(base, os.path.expanduser(path)))
    # POSIX lets two leading slashes stand; here they would be a second name of every file.
    return whole[1:] if whole.startswith("//") else whole
