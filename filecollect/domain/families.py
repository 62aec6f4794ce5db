"""Family names: the part of a path that all files of one source share.

Suffixes, rotation parts, copies, dates, ids and counters are stripped; digits attached to letters
stay (ipv4, web01), except where siblings in one directory differ only there and share the header.
Dates are only believed when they can be dates; month names go only beside a number, week days always.
A pure function of the path: nothing is looked up, so a name can be decided before any file is opened.
Names longer than a database's 63 bytes are cut and told apart by a hash.
"""

from __future__ import annotations

import hashlib
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
LONGEST_BYTES = 63

_FORMATS = r"csv|tsv|tab|psv|dat|jsonl|jsonlines|ndjson|json|log|txt|out|err"
_COMPRESSED = re.compile(r"(?<=.)\.(?:gz|zst|bz2|xz|lz4|z)$", re.IGNORECASE | re.DOTALL)
_FORMAT = re.compile(rf"(?<=.)\.(?:{_FORMATS})$", re.IGNORECASE | re.DOTALL)
_AFTER_FORMAT = re.compile(rf"(?<=.)(\.(?:{_FORMATS}))[-_.]\d[\dTtZz:._+-]*$", re.IGNORECASE | re.DOTALL)
_ROTATED = re.compile(
    r"(?<=.)(?:\.\d{1,6}|\.old|\.bak|~| \(\d+\)| - copy(?: \(\d+\))?| copy(?: \d+)?)$", re.IGNORECASE | re.DOTALL
)
_COPY_OF = re.compile(r"^copy of (?=.)", re.IGNORECASE)
_UUID = re.compile(
    r"(?<![0-9a-z])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-z])",
    re.IGNORECASE,
)

_YEAR, _MONTH, _DAY = r"(?:19|20)\d{2}", r"(?:0[1-9]|1[0-2])", r"(?:0[1-9]|[12]\d|3[01])"
_CLOCK = r"(?:[01]\d|2[0-3])(?:[-_.:h]?[0-5]\d(?:[-_.:m]?[0-5]\d(?:[.,]\d{1,9})?)?)?"
_MONTH_NAME = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)"
)
_DATE = re.compile(
    rf"""(?<![^\W_])(?:
        {_YEAR}([-_.]?){_MONTH}\1{_DAY} (?: [-_T.\ ]? {_CLOCK} )? (?: Z | [+-]\d\d:?\d\d )?
      | {_YEAR}[-_.]{_MONTH}
      | {_YEAR}[-_.]?W[0-5]\d (?: [-_.]?[1-7] )?
      | \d{{1,2}}([-_.])\d{{1,2}}\2{_YEAR}
      | (?: {_YEAR} | \d{{1,2}} ) [-_.\ ]? {_MONTH_NAME} (?: [-_.\ ]? (?: {_YEAR} | \d{{1,2}} ) )?
      | {_MONTH_NAME} [-_.\ ]? (?: \d{{1,2}} [-_.\ ] )? {_YEAR}
      | \d{{10}} | \d{{13}}
      | T\d{{6}}Z? | \d{{6}}Z | \d{{2}}h\d{{2}}
    )(?![^\W_])""",
    re.IGNORECASE | re.VERBOSE,
)
_WEEKDAY = frozenset(
    f"{day}{end}"
    for days, end in (
        (("mon", "tue", "wed", "thu", "fri", "sat", "sun", "tues", "thur", "thurs"), ""),
        (("mon", "tues", "wednes", "thurs", "fri", "satur", "sun"), "day"),
    )
    for day in days
)
_HEX = re.compile(r"[0-9a-f]{12,}", re.IGNORECASE)
_ATTACHED = re.compile(r"(?<=[^\W\d_])\d+(?=_|$)")


def _bare(name: str) -> str:
    """Strip suffixes, rotations and copies from the end until nothing changes; never all of it."""
    before = None
    while before != name:
        before = name
        name = _COMPRESSED.sub("", name)
        name = _AFTER_FORMAT.sub(r"\1", name)
        name = _ROTATED.sub("", name)
        name = _FORMAT.sub("", name)
    return _COPY_OF.sub("", name)


def _words(text: str) -> str:
    """Return the words of a name that has no suffixes: dates, ids and outer counters stripped."""
    text = _DATE.sub(" ", _UUID.sub(" ", unicodedata.normalize("NFC", text)))
    # Marks are parts of letters: without them no word of Hindi or Thai is left whole.
    text = "".join(sign if sign.isalnum() or unicodedata.category(sign)[0] == "M" else " " for sign in text)
    tokens = [word for word in text.split() if word.casefold() not in _WEEKDAY and not _HEX.fullmatch(word)]
    while tokens and tokens[0].isdecimal():
        tokens.pop(0)
    while tokens and tokens[-1].isdecimal():
        tokens.pop()
    return unicodedata.normalize("NFC", "_".join(tokens).casefold())


def _directory_words(directories: Sequence[str]) -> str:
    """Return the nearest directory's words, dates and `k=v` left out; "data" when there is none."""
    for directory in reversed(directories):
        words = "" if "=" in directory else _words(directory)
        if words:
            return words
    return "data"


def _named(words: str, path: str) -> str:
    """Return words as a family, or the directory's where they say nothing."""
    if not words or words in GENERIC:
        words = _directory_words(path.split("/")[:-1])
    return safe_name(words)


def family_name(path: str) -> str:
    """Return the family of a path: casefolded words joined by `_`, never empty."""
    return _named(_words(_bare(path.rpartition("/")[2])), path)


def safe_name(name: str) -> str:
    """Return a table name that is none of our own, not reserved by SQLite, and at most 63 bytes long."""
    if name in OUR_NAMES:
        return f"{name}_data"
    if name.startswith("sqlite_"):
        name = f"data_{name}"
    raw = name.encode("utf-8", "surrogatepass")
    if len(raw) <= LONGEST_BYTES:
        return name
    return f"{raw[:54].decode('utf-8', 'ignore')}_{hashlib.sha256(raw).hexdigest()[:8]}"


def families(files: Sequence[tuple[str, Hashable | None]]) -> dict[str, str]:
    """Return path -> family for (path, header) pairs of one round.

    Two or more siblings of one directory that differ only in digits attached to letters, and share
    their header, are one family without those digits (orders1, orders2); digits in which they do not
    differ stay (s3_access1, s3_access2 are s3_access).
    """
    found = {path: family_name(path) for path, _ in files}
    siblings: dict[tuple[str, str, Hashable], list[str]] = {}
    for path, header in files:
        words = _words(_bare(path.rpartition("/")[2]))
        if header is not None and _ATTACHED.search(words):
            key = (path.rpartition("/")[0], _ATTACHED.sub("#", words), header)
            siblings.setdefault(key, []).append(path)
    for paths in siblings.values():
        words_of = {path: _words(_bare(path.rpartition("/")[2])) for path in paths}
        if len(set(words_of.values())) < 2:
            continue
        digits = [_ATTACHED.findall(words) for words in words_of.values()]
        same = [len(set(column)) == 1 for column in zip(*digits, strict=True)]
        for path, words in words_of.items():
            place = iter(same)
            found[path] = _named(_ATTACHED.sub(lambda one: one[0] if next(place) else "", words), path)  # noqa: B023
    return found
