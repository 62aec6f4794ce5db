"""The business key of an item as text: what `collected_item.source_item_id` holds."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import xxhash

LONGEST_KEY_BYTES = 128
_string = msgspec.json.Decoder(str).decode


def key_of(parts: Sequence[str | None], names: Sequence[str]) -> tuple[str | None, str | None]:
    """Return the key's text, or None and a sentence that names the missing part.

    Parts are JSON texts. One part is its text (a string itself, else the JSON), several are a compact
    JSON array. A text of more than 128 bytes becomes `xxh3:<hex>`, so that every database can index it.
    """
    texts: list[str] = []
    for part, name in zip(parts, names, strict=True):
        if part is None or part == "null":
            return None, f"the key {name} has no value"
        # A string may be escaped in several ways, a nested value may hold blanks: one key, one text.
        texts.append(msgspec.json.encode(_string(part)).decode() if part[0] == '"' else _compact(part))
    text = f"[{','.join(texts)}]" if len(texts) > 1 else _string(texts[0]) if texts[0][0] == '"' else texts[0]
    encoded = text.encode()
    if len(encoded) > LONGEST_KEY_BYTES:
        return f"xxh3:{xxhash.xxh3_128_hexdigest(encoded)}", None
    return text, None


def _compact(text: str) -> str:
    return msgspec.json.format(text, indent=-1) if text[0] in "{[" else text
