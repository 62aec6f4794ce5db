"""Gather the facts that decide what a found file is: reading bytes here, deciding in `domain.identity`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from filecollect.domain.identity import Facts, Original, Outcome, choose, decide
from filecollect.domain.position import Proof, head_length
from filecollect.errors import FilecollectError, FileUnavailable
from filecollect.files.filesystem import FileHandle, FileMissing, FileStat, FileSystem
from filecollect.files.fingerprint import ChainDigest, head_at, heads, proves, span_digest
from filecollect.files.paths import os_path
from filecollect.pipeline.common import common_record
from filecollect.pipeline.plan import Plan
from filecollect.store.tasks import Task


@dataclass(frozen=True, slots=True)
class LedgerSpan:
    """A committed span of a task, for comparing content with what was read."""

    start: int
    end: int
    digest: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A task that a found file may be, with what the database knows of it."""

    task: Task
    newest_at_path: bool
    spans: tuple[LedgerSpan, ...]
    boot_id: str | None


@dataclass(frozen=True, slots=True)
class Look:
    """A found file at the moment it was looked at."""

    path: str
    stat: FileStat
    heads: tuple[Proof, ...]

    @property
    def head(self) -> Proof:
        """Return the longest head."""
        return self.heads[-1] if self.heads else Proof(0, "")

    @property
    def searchable(self) -> tuple[Proof, ...]:
        """Return the heads that say something about other paths."""
        return tuple(head for head in self.heads if head.length >= 64)


@dataclass(frozen=True, slots=True)
class Match:
    """The verdict on one file: the outcome, against which task, and the details of a difference."""

    outcome: Outcome
    task: Task | None
    common: int = 0
    differs_at: tuple[int, int] | None = None


def look(files: FileSystem, path: str) -> Look:
    """Open a file and digest its heads; `path` in stored form. Raises FileUnavailable."""
    with files.open(os_path(path)) as handle:
        stat = handle.stat()
        return Look(path, stat, tuple(heads(handle, stat.size)))


def match(
    files: FileSystem,
    seen: Look,
    candidates: Sequence[Candidate],
    *,
    plan: Plan,
    engine: Engine,
    boot_id: str | None,
    settled: bool,
) -> Match:
    """Return what `seen` is, compared with every candidate, newest first."""
    if not candidates:
        return Match("new", None)
    with files.open(os_path(seen.path)) as handle:
        compared = [_compare(files, handle, seen, one, plan, engine, boot_id, settled) for one in candidates]
    index = choose([decide(facts) for facts, _ in compared])
    if index is None:
        return Match("new", None)
    facts, differs_at = compared[index]
    outcome = decide(facts)
    return Match(outcome, None if outcome == "new" else candidates[index].task, facts.common, differs_at)


def _compare(
    files: FileSystem,
    handle: FileHandle,
    seen: Look,
    candidate: Candidate,
    plan: Plan,
    engine: Engine,
    boot_id: str | None,
    settled: bool,
) -> tuple[Facts, tuple[int, int] | None]:
    task = candidate.task
    follow = plan.settings.follow
    position = task.position
    same_path = candidate.newest_at_path and task.path == seen.path
    same_inode = (task.device, task.inode) == (seen.stat.device, seen.stat.inode)
    size = seen.stat.size
    same_head = 0 < task.head.length <= size and proves(handle, task.head, task.head.length)
    same_guard = size >= position.offset and proves(handle, position.guard, position.offset)
    stat_changed = (task.size, task.mtime_ns) != (size, seen.stat.mtime_ns)
    finished = task.status in {"succeeded", "delivering"}
    common, differs_at = 0, None
    digests: bool | None = None
    original: Original = "live"
    same_content: bool | None = None
    if same_path:
        if not follow and (stat_changed or not same_inode):
            common, differs_at = _common(handle, size, candidate.spans)
            digests = common == position.offset
        elif follow and same_head and not (same_guard and size >= position.offset):
            common, differs_at = _common(handle, size, candidate.spans)
            common = common_record(engine, plan, handle, task, common, size)
    elif same_head and task.head.length >= 64:
        original = _original(files, task, seen)
        if follow and original != "live" and not same_guard:
            common, _ = _common(handle, size, candidate.spans)
            common = common_record(engine, plan, handle, task, common, size)
        same_content = _same_content(files, handle, seen, task, follow, original)
    facts = Facts(
        same_path=same_path,
        same_inode=same_inode,
        size=size,
        offset=position.offset,
        head_length=task.head.length,
        head=same_head or (task.head.length == 0 and position.offset == 0),
        guard=same_guard,
        follow=follow,
        finished=finished,
        stat_changed=digests is not None,
        same_size=task.size == size,
        digests=digests,
        same_content=same_content,
        original=original,
        other_boot=None not in (candidate.boot_id, boot_id) and candidate.boot_id != boot_id,
        common=common,
        settled=settled,
    )
    return facts, differs_at


def _common(handle: FileHandle, size: int, spans: Sequence[LedgerSpan]) -> tuple[int, tuple[int, int] | None]:
    """Return the largest ledger boundary up to which the content is as committed, and where it differs."""
    position = spans[0].start if spans else 0
    for span in spans:
        if span.end > size or (span.digest and span_digest(handle, span.start, span.end) != span.digest):
            return position, (span.start, span.end)
        position = span.end
    return position, None


def _original(files: FileSystem, task: Task, seen: Look) -> Original:
    """Return what is at the task's own path now."""
    try:
        with files.open(os_path(task.path)) as handle:
            position = task.position
            size = handle.stat().size
            if size < position.offset or not proves(handle, task.head, task.head.length):
                return "changed"
            return "live" if proves(handle, position.guard, position.offset) else "changed"
    except FileUnavailable as problem:
        return "vanished" if isinstance(problem, FileMissing) else "live"


def _same_content(
    files: FileSystem, handle: FileHandle, seen: Look, task: Task, follow: bool, original: Original
) -> bool:
    """Return whether the found content is the task's: a finished one's digest, or the live file itself."""
    size = seen.stat.size
    if task.content_digest is not None and not follow:
        if size != task.content_offset:
            return False
        return ChainDigest.resume(handle, task.position.chain.__class__(), size).final() == task.content_digest
    if original != "live":
        return False
    try:
        with files.open(os_path(task.path)) as other:
            other_size = other.stat().size
            if size > other_size or (not follow and size != other_size):
                return False
            return span_digest(handle, 0, size) == span_digest(other, 0, size)
    except FilecollectError:
        return False


def head_of(handle: FileHandle, size: int) -> Proof:
    """Return the head that a task of this content is stored with."""
    return head_at(handle, head_length(size))
