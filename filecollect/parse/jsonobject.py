"""One JSON record to its fields: a name and the exact JSON text of each value.

A record is valid JSON or refused; nothing is repaired. Two kindnesses for lines: a `[` or `,` before an
object and a `,` or `]` after it, left by whoever cut an array into lines, are peeled off.

Of equal keys the last one counts, as in every JSON decoder; but the values before it are not lost:
they are returned as `<key> (earlier)`, a JSON array, which has no column and so is kept in `_extra`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from filecollect.parse.jsonscan import members

BARE = "value"
"""The name of the only field of a record that is no object."""
Refusal = tuple[str, str]
"""A reason and a sentence."""

_KINDS = {'"': "a string", "[": "an array", "t": "a boolean", "f": "a boolean", "n": "null"}
_PROBLEMS = (msgspec.DecodeError, RecursionError)
_PEEL = re.compile(rb"[\[,\s]*+(\{.*\})[\],\s]*", re.DOTALL)
_PUNCTUATION = re.compile(rb"\s*(?:\[|\],?|,)\s*")

_decode_raw = msgspec.json.Decoder(msgspec.Raw).decode
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_string = msgspec.json.Decoder(str).decode


def why_bad(line: bytes) -> Refusal:
    """Return the reason and the sentence for a record that is no JSON object."""
    try:
        text = bytes(_decode_raw(line)).decode().strip()
    except _PROBLEMS as problem:
        what = "it is nested too deeply" if isinstance(problem, RecursionError) else str(problem)
        return "bad_json", f"the record is not valid JSON: {what}"
    return "not_an_object", f"the record is JSON, but {_KINDS.get(text[0], 'a number')}, not an object"


def peeled(line: bytes) -> bytes | None:
    """Return the object in a line with rests of an array around it, None for any other line."""
    match = _PEEL.fullmatch(line)
    return None if match is None or match[1] == line.strip() else match[1]


def is_punctuation(line: bytes) -> bool:
    """Return whether a line holds nothing but brackets and commas of an array around it."""
    return _PUNCTUATION.fullmatch(line) is not None


def fields(record: bytes, *, bare: bool = False, flatten: int = 0) -> dict[str, str] | Refusal:
    """Return the JSON text of each field by name, or why the record is refused.

    With `bare` a record that is no object is one field, `value`. Members of nested objects are fields
    `a.b`, `flatten` levels deep.
    """
    try:
        found = _decode_object(record)
    except _PROBLEMS:
        refusal = why_bad(record)
        if bare and refusal[0] == "not_an_object":
            return {BARE: bytes(_decode_raw(record)).decode().strip()}
        return refusal
    texts = {key: bytes(value).decode() for key, value in found.items()}
    if not flatten:
        # Outside of values a valid object has nothing but its keys in quotes.
        quotes = record.count(b'"') - sum([text.count('"') for text in texts.values()])
        if quotes == 2 * len(texts):
            return texts
    values: dict[str, str] = {}
    earlier: dict[str, list[str]] = {}
    try:
        for name, text in _flat(record, flatten, ""):
            if name in values:
                earlier.setdefault(name, []).append(values[name])
            values[name] = text
    except RecursionError:
        return "bad_json", "the record is not valid JSON: it is nested too deeply"
    return values | {f"{name} (earlier)": f"[{','.join(before)}]" for name, before in earlier.items()}


def _flat(record: bytes, levels: int, prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in members(record):
        name = prefix + _string(key)
        if levels and value.startswith(b"{") and value.strip(b"{} \t\r\n"):
            yield from _flat(value, levels - 1, f"{name}.")
        else:
            yield name, value.decode()
