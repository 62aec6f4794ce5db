"""Family names: the part of a path that all files of one source share.

Suffixes, rotation parts, copies, dates, ids and counters are stripped; digits attached to letters
stay (ipv4, web01), except where siblings in one directory differ only there and share the header.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Hashable, Sequence

GENERIC = frozenset({"data", "export", "part", "chunk", "output", "dump", "file", "report"})
OUR_NAMES = frozenset(
    {
        "collection_source",
        "collection_task",
        "worker",
        "committed_batch",
        "collected_item",
        "quarantined_item",
        "outbox_message",
        "file_event",
        "filecollect_version",
    }
)
_COMPRESSED = re.compile(r"\.(gz|zst|bz2|xz|lz4|z)$", re.IGNORECASE)
_FORMAT = re.compile(r"\.(csv|tsv|psv|jsonl|ndjson|json|log|txt|out|err)$", re.IGNORECASE)
_ROTATED = re.compile(r"(\.\d{1,6}|\.old|\.bak|~|[-_.]\d{8}(-\d{1,6})?| \(\d+\)| - copy( \(\d+\))?)$", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_DATE = re.compile(
    r"(?<![0-9A-Za-z])\d{4}[-_.]?\d{2}[-_.]?\d{2}(?:[-_T ]?\d{2}(?:[-_:.]?\d{2}(?:[-_:.]?\d{2})?)?)?"
    r"(?:Z|[+-]\d{4})?(?![0-9A-Za-z])"
)
_WEEKDAY = frozenset(
    [
        "mon",
        "tue",
        "wed",
        "thu",
        "fri",
        "sat",
        "sun",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "tues",
        "thur",
        "thurs",
    ]
)
_HEX = re.compile(r"(?=[0-9a-f]*\d)[0-9a-f]{12,}", re.IGNORECASE)
_MONTH = re.compile(r"(19|20)\d{2}[-_.]?(0[1-9]|1[0-2])")
_TIME = re.compile(r"t?\d{6}z?|\d{2}h\d{2}", re.IGNORECASE)
_DATE_DIRECTORY = re.compile(r"[\d\-_.T]+|.*=.*")


def _bare(name: str) -> str:
    """Strip suffixes, rotations and copies from the end until nothing changes."""
    before = None
    while before != name:
        before = name
        for ending in (_COMPRESSED, _ROTATED, _FORMAT):
            shorter = ending.sub("", name)
            name = shorter if shorter else name
    return name


def _tokens(name: str) -> list[str]:
    text = _DATE.sub(" ", _UUID.sub(" ", _bare(unicodedata.normalize("NFC", name))))
    words = ["".join(c if c.isalnum() else " " for c in text)]
    tokens = [
        word
        for word in words[0].split()
        if word.casefold() not in _WEEKDAY
        and not _HEX.fullmatch(word)
        and not (_TIME.fullmatch(word) and len(word) > 6)
    ]
    while tokens and tokens[0].isdecimal():
        tokens.pop(0)
    while tokens and tokens[-1].isdecimal():
        tokens.pop()
    return [token.casefold() for token in tokens]


def family_name(path: str) -> str:
    """Return the family of a path: casefolded words joined by `_`, never empty."""
    *directories, name = path.split("/")
    family = "_".join(_tokens(name))
    if not family or family in GENERIC:
        for directory in reversed(directories):
            if directory and not _DATE_DIRECTORY.fullmatch(directory):
                above = "_".join(_tokens(directory))
                if above and above not in GENERIC:
                    family = above
                    break
    return safe_name(family or "data")


def safe_name(name: str) -> str:
    """Return a table name that is none of our own."""
    return f"{name}_data" if name in OUR_NAMES else name


def families(files: Sequence[tuple[str, Hashable | None]]) -> dict[str, str]:
    """Return path -> family for (path, header) pairs of one round.

    Two or more siblings of one directory that differ only in digits attached to letters, and share
    their header, are one family without those digits (orders1, orders2).
    """
    found = {path: family_name(path) for path, _ in files}
    groups: dict[tuple[str, str, Hashable], set[str]] = {}
    for path, header in files:
        stem = re.sub(r"(?<=[^\W\d_])\d+(?=_|$)", "", found[path])
        if header is not None and stem and stem != found[path]:
            groups.setdefault((path.rpartition("/")[0], stem, header), set()).add(found[path])
    for path, header in files:
        stem = re.sub(r"(?<=[^\W\d_])\d+(?=_|$)", "", found[path])
        if header is not None and len(groups.get((path.rpartition("/")[0], stem, header), ())) >= 2:
            found[path] = safe_name(stem)
    return found
