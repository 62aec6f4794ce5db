"""The business key of a schema-less item as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import xxhash

from filecollect.parse.convert import json_text

LONGEST_BYTES = 128


def item_key(parts: Sequence[Any]) -> str | None:
    """Return the key text: one part as it is, several as a JSON array, a long one hashed; None if a part is missing."""
    if any(part is None for part in parts):
        return None
    if len(parts) == 1:
        text = parts[0] if isinstance(parts[0], str) else json_text(parts[0])
    else:
        text = json_text(list(parts))
    raw = text.encode()
    return text if len(raw) <= LONGEST_BYTES else f"xxh3:{xxhash.xxh3_128_hexdigest(raw)}"
