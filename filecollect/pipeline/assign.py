"""Which source does a found file belong to? Families, formats and columns, decided once.

Without a config, files form families by name; a family becomes one source and one table when its
files agree on format and header, and splits (`name_2`) when they share fewer than half of the smaller
header's columns. A file that is known under an inferred source keeps it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from sqlalchemy import Engine, inspect

from filecollect.config import SourceSettings
from filecollect.domain.columns import Column
from filecollect.domain.families import families, safe_name
from filecollect.errors import BinaryContent, FilecollectError, FileUnavailable, Unsupported, UsageError
from filecollect.files.codecs import SUFFIXES
from filecollect.files.content import PlainContent, open_content
from filecollect.files.filesystem import FileSystem
from filecollect.files.finder import Found
from filecollect.files.holes import end_of_hole
from filecollect.files.magic import compression, looks_binary, unsupported_kind
from filecollect.files.paths import os_path, stored_path
from filecollect.parse.infer import Inference
from filecollect.parse.sniff import sniff
from filecollect.parse.spec import Spec, Wanted
from filecollect.pipeline.plan import ITEMS, Plan, new_plan, stored_plan
from filecollect.store.engine import reading
from filecollect.store.schema import OUR_TABLES
from filecollect.store.sources import StoredSource, sources_of_paths, stored_sources

SAMPLED_FILES = 200
HEAD_BYTES = 128 * 1024
TAIL_BYTES = 32 * 1024
RECORD_SUFFIXES = frozenset({".csv", ".tsv", ".psv", ".jsonl", ".ndjson", ".json", ".log", ".txt"})
LOG_SUFFIXES = frozenset({".log", ".out", ".err"})


@dataclass(frozen=True, slots=True)
class Sample:
    """The first and last bytes of a file, and what they seem to be."""

    found: Found
    path: str
    head: bytes
    tail: bytes
    spec: Spec
    why: tuple[str, ...]
    header: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ends:
    """The first bytes of a file's content, and the last ones of a plain file.

    `complete`: `head` is all there is; `truncated`: it is all that can be decoded of an unfinished block;
    `unwritten`: a plain file holds nothing but NULs, the hole that its writer has not come back to.
    """

    head: bytes
    tail: bytes
    complete: bool
    truncated: bool
    unwritten: bool


@dataclass(frozen=True, slots=True)
class Refused:
    """A file that is not read, and why; `outcome` is skipped or failed."""

    path: str
    outcome: str
    reason: str
    message: str


@dataclass(slots=True)
class Assignment:
    """Files by plan, refused files, and why each new plan is as it is."""

    files: dict[str, tuple[Plan, list[Found]]] = field(default_factory=dict)
    refused: list[Refused] = field(default_factory=list)
    why: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def give(self, plan: Plan, found: Found) -> None:
        """Give a file to a plan."""
        self.files.setdefault(plan.source_key, (plan, []))[1].append(found)


def suffix_of(path: str) -> str:
    """Return the last suffix of a name, lower case, rotation numbers and compression ignored."""
    suffixes = [suffix.lower() for suffix in PurePath(path).suffixes]
    while suffixes and (suffixes[-1][1:].isdigit() or suffixes[-1] in SUFFIXES):
        suffixes.pop()
    return suffixes[-1].partition("-")[0] if suffixes else ""


def ends_of(files: FileSystem, path: str, head_bytes: int = HEAD_BYTES) -> Ends:
    """Read the first and last bytes of a file's content; `path` in stored form. Raises FileUnavailable, Corrupt.

    The first bytes are those behind a hole that a plain file begins with.
    """
    with files.open(os_path(path)) as handle:
        size = handle.stat().size
        content = open_content(handle, size)
        plain = content.codec == PlainContent.codec
        hole = end_of_hole(handle, 0, size) if plain else 0
        start = hole if hole < size else 0
        head = content.read_at(start, head_bytes)
        end = content.end(start + len(head))
        tail = b""
        if end is None and plain:
            tail = content.read_at(max(start + len(head), size - TAIL_BYTES), TAIL_BYTES)
    complete = end is not None and end.complete
    unwritten = plain and size > 0 and (hole == size or (complete and not head.strip(b"\0")))
    return Ends(head, tail, complete, end is not None and not end.complete, unwritten)


def take_sample(files: FileSystem, found: Found, wanted: Wanted) -> Sample | Refused:
    """Read a file's first and last bytes and decide its format."""
    path = stored_path(found.path)
    try:
        ends = ends_of(files, path)
        head, tail = ends.head, ends.tail
        refused = unreadable(ends, found, path)
        if refused is not None:
            return refused
        sniffed = sniff(head, complete=ends.complete, name=PurePath(path).name, wanted=wanted)
        inference = Inference(sniffed.spec)
        inference.add(head, tail)
        names = tuple(column.source_name for column in inference.columns({}))
        return Sample(found, path, head, tail, sniffed.spec, sniffed.why, names)
    except BinaryContent as problem:
        return Refused(path, _outcome(found, path), "unsupported", problem.message)
    except FilecollectError as problem:
        reason = "unsupported" if isinstance(problem, Unsupported) else problem.code
        return Refused(path, "failed", reason, problem.message)


def _outcome(found: Found, path: str) -> str:
    """Return what it means that a file holds no records: one that was named, or is named like one, should."""
    return "failed" if found.explicit or suffix_of(path) in RECORD_SUFFIXES else "skipped"


def unreadable(ends: Ends, found: Found, path: str) -> Refused | None:
    """Return why a file cannot hold records, None when it may."""
    head = ends.head
    if not head and ends.truncated:
        message = "the compressed file is not complete, and nothing of it can be decoded yet"
        return Refused(path, "failed", "truncated", message)
    if not head:
        return Refused(path, "skipped", "empty", "the file is empty")
    if ends.unwritten:
        return Refused(path, "skipped", "unwritten", "the file holds only NULs: nothing is written to it yet")
    kind = unsupported_kind(head, PurePath(path).name)
    packed = compression(head)
    if packed is not None:
        return Refused(path, "failed", "compressed", f"{packed} data inside a compressed file is not read")
    if kind is None and suffix_of(path) in RECORD_SUFFIXES and looks_binary(head):
        kind = "binary content"
    if kind is None:
        return None
    return Refused(path, _outcome(found, path), "unsupported", f"{kind} is not read")


class Assigner:
    """Assign files to stored, configured or new sources."""

    def __init__(
        self,
        engine: Engine | None,
        files: FileSystem,
        base: SourceSettings,
        wanted: Wanted,
        changes: dict[str, Any],
        *,
        source: str | None,
        table: str | None,
        configured: bool = False,
    ) -> None:
        if table is not None and (not table or (table != ITEMS and table.casefold() in OUR_TABLES)):
            raise UsageError(
                f"expected the name of a table for the records, got {table!r}",
                hint="filecollect keeps its own records in tables of that name" if table else None,
            )
        self.engine = engine
        self.files = files.trusting((), follow_symlinks=base.follow_symlinks)
        self.base = base
        self.wanted = wanted
        self.changes = changes
        self.source = source
        self.table = table
        self.configured = configured
        self.stored: dict[str, StoredSource] = {}
        self.tables: set[str] = set()
        if engine is not None:
            with reading(engine) as conn:
                self.stored = stored_sources(conn)
                self.tables = {name.casefold() for name in inspect(conn).get_table_names()}

    def assign(self, found: Sequence[Found]) -> Assignment:
        """Return every file with its plan, or why it has none."""
        result = Assignment()
        unknown: list[Found] = []
        known: dict[str, str] = {}
        if self.engine is not None:
            with reading(self.engine) as conn:
                known = sources_of_paths(conn, [stored_path(one.path) for one in found])
        plans: dict[str, Plan] = {}
        for one in found:
            key = self.source or known.get(stored_path(one.path))
            if key in self.stored and (self.source or self.stored[key].inferred):
                plan = plans.setdefault(key, stored_plan(self.stored[key], self.changes))
                if self._admit(one, result):
                    result.give(plan, one)
            elif one.stat.size == 0:
                result.refused.append(Refused(stored_path(one.path), "skipped", "empty", "the file is empty"))
            else:
                unknown.append(one)
        self._new(unknown, result, plans)
        return result

    def _admit(self, found: Found, result: Assignment) -> bool:
        """Look at the magic of a file that goes to a known source."""
        path = stored_path(found.path)
        try:
            refused = unreadable(ends_of(self.files, path, 4096), found, path)
        except FileUnavailable:
            return True  # discovery says so, and remembers it
        except FilecollectError as problem:
            refused = Refused(path, "failed", problem.code, problem.message)
        if refused is not None:
            result.refused.append(refused)
        return refused is None

    def _new(self, unknown: Sequence[Found], result: Assignment, plans: dict[str, Plan]) -> None:
        samples: list[Sample] = []
        for one in unknown:
            sample = take_sample(self.files, one, self.wanted)
            if isinstance(sample, Refused):
                result.refused.append(sample)
            else:
                samples.append(sample)
        if self.source is not None:
            groups = {self.source: samples} if samples else {}
        else:
            names = families([(sample.path, sample.header or None) for sample in samples])
            groups = {}
            for sample in samples:
                groups.setdefault(names[sample.path], []).append(sample)
        for family, members in groups.items():
            for part in self._split(members):
                self._place(family, part, result, plans)

    def _split(self, members: list[Sample]) -> list[list[Sample]]:
        if self.source is not None:
            return [members]
        parts: list[list[Sample]] = []
        for sample in members:
            for part in parts:
                if _agree(part[0].spec.format, _names(part), sample):
                    part.append(sample)
                    break
            else:
                parts.append([sample])
        return parts

    def _place(self, family: str, part: list[Sample], result: Assignment, plans: dict[str, Plan]) -> None:
        number = 1
        while True:
            key = family if number == 1 else safe_name(f"{family}_{number}")
            number += 1
            if key in plans:
                plan = plans[key]
                names = {column.source_name for column in plan.columns}
                if (plan.created and self.source is None) or not _agree(plan.spec.format, names, part[0]):
                    continue
            elif key in self.stored:
                stored = self.stored[key]
                names = {column.source_name for column in stored.columns}
                if self.source is None and not (stored.inferred and _agree(stored.format, names, part[0])):
                    continue
                plan = stored_plan(stored, self.changes)
            else:
                table = self.table or (ITEMS if self.base.table == ITEMS else key)
                if table.casefold() in self.tables and table not in OUR_TABLES and self.table is None:
                    continue
                plan = self._infer(key, table, part)
                result.why[key] = part[0].why
            plans[key] = plan
            for sample in part:
                result.give(plan, sample.found)
            return

    def _infer(self, key: str, table: str, part: list[Sample]) -> Plan:
        spec = part[0].spec
        columns: tuple[Column, ...] = ()
        if table != ITEMS:
            inference = Inference(spec)
            for sample in part[:SAMPLED_FILES]:
                inference.add(sample.head, sample.tail)
            columns = inference.columns(self.base.columns or {})
        changes: dict[str, Any] = {"format": spec.format}
        if "follow" not in self.base.model_fields_set and not self.configured:
            logs = spec.format == "lines" or any(suffix_of(sample.path) in LOG_SUFFIXES for sample in part)
            changes["follow"] = logs
        if not self.configured:
            changes["paths"] = (min(sample.path for sample in part),)
        settings = self.base.model_copy(update=changes)
        return new_plan(key, table, settings, spec, columns, inferred=not self.configured)


def _names(part: Sequence[Sample]) -> set[str]:
    return {name for sample in part for name in sample.header}


def _agree(format_name: str, names: set[str], sample: Sample) -> bool:
    """Return whether a file may share a table: same format, and half of the smaller header shared."""
    if sample.spec.format != format_name:
        return False
    mine = set(sample.header)
    smaller = min(len(mine), len(names))
    return smaller == 0 or 2 * len(mine & names) >= smaller
