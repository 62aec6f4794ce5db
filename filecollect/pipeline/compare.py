"""Gather the facts that decide what a found file is: reading bytes here, deciding in `domain.identity`.

Heads, spans and sizes are those of the decompressed content, so a compressed file is compared with any
other. The size of compressed content is looked for only up to one byte past the task's position; a
block that is not whole counts as more to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine

from filecollect.domain.identity import Facts, Original, Outcome, choose, decide
from filecollect.domain.position import HEAD_LENGTHS, Chain, Proof
from filecollect.domain.rotation import rotated_from, same_chain
from filecollect.errors import FilecollectError, FileUnavailable
from filecollect.files.content import Content, open_content
from filecollect.files.filesystem import FileHandle, FileMissing, FileStat, FileSystem
from filecollect.files.fingerprint import READ, ChainDigest, heads, proves, span_digest
from filecollect.files.holes import end_of_hole
from filecollect.files.paths import os_path
from filecollect.pipeline.common import common_record
from filecollect.pipeline.plan import Plan
from filecollect.pipeline.proof import resumed
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
    """A found file at the moment it was looked at; the heads are its content's."""

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
        return tuple(head for head in self.heads if head.length >= HEAD_LENGTHS[0])

    @property
    def small(self) -> tuple[Proof, ...]:
        """Return the head that is the whole content, when that is too short to say much."""
        return tuple(head for head in self.heads if head.length < HEAD_LENGTHS[0])


@dataclass(frozen=True, slots=True)
class Match:
    """The verdict on one file: the outcome, against which task, and the details of a difference.

    `unread`: there is content after the task's position, or a block there that is not whole.
    """

    outcome: Outcome
    task: Task | None
    common: int = 0
    differs_at: tuple[int, int] | None = None
    unread: bool = False


def look(files: FileSystem, path: str) -> Look:
    """Open a file and digest its heads; `path` in stored form. Raises FileUnavailable."""
    with files.open(os_path(path)) as handle:
        stat = handle.stat()
        return Look(path, stat, tuple(heads(open_content(handle, stat.size))))


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
    outcomes = [_outcome(facts, one) for (facts, _), one in zip(compared, candidates, strict=True)]
    index = choose(outcomes)
    if index is None:
        return Match("new", None)
    facts, differs_at = compared[index]
    outcome = outcomes[index]
    task = None if outcome == "new" else candidates[index].task
    return Match(outcome, task, facts.common, differs_at, facts.size > facts.offset)


def _outcome(facts: Facts, candidate: Candidate) -> Outcome:
    outcome = decide(facts)
    # What was given up is accounted for nowhere: the same content under another name is a file of its own.
    given_up = candidate.task.status == "cancelled" and outcome == "duplicate"
    return "new" if given_up else outcome


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
    # Both rotation and the usual compressors keep the time of the last change.
    same_mtime = task.mtime_ns // 10**9 == seen.stat.mtime_ns // 10**9
    whole = open_content(handle, seen.stat.size)
    content, proven = resumed(handle, seen.stat.size, position)
    same_head = proven or (task.head.length > 0 and proves(whole, task.head, task.head.length))
    size = content.size_up_to(position.offset) if same_head or same_path else seen.stat.size
    same_guard = False
    if same_head and size >= position.offset:
        guard = position.guard if proven else position.whole_guard
        if guard is None:
            same_guard = _common(whole, size, candidate.spans)[0] == position.offset
        else:
            same_guard = proves(content, guard, position.offset)
    kin = (
        (same_inode and (same_mtime or size > position.offset))
        or (same_mtime and same_chain(seen.path, task.path))
        or task.path in rotated_from(seen.path)
    )
    stat_changed = (task.size, task.mtime_ns) != (seen.stat.size, seen.stat.mtime_ns)
    finished = task.status in {"succeeded", "delivering"}
    common, differs_at = 0, None
    digests: bool | None = None
    original: Original = "live"
    same_content: bool | None = None
    other_boot = None not in (candidate.boot_id, boot_id) and candidate.boot_id != boot_id
    cut = False
    if same_path:
        if not follow and (stat_changed or not same_inode):
            common, differs_at = _common(whole, size, candidate.spans)
            digests = common == position.offset and (same_head or position.offset > 0)
        elif follow and (same_head or other_boot) and not (same_guard and size >= position.offset):
            common, differs_at = _common(whole, size, candidate.spans)
            common = common_record(engine, plan, whole, task, common, size)
            cut = whole.codec == "plain" and end_of_hole(handle, common, seen.stat.size) == seen.stat.size
    elif same_head and (task.head.length >= 64 or (follow and kin)):
        original = _original(files, task, seen)
        if follow and original != "live" and not same_guard:
            common, _ = _common(whole, size, candidate.spans)
            common = common_record(engine, plan, whole, task, common, size)
        same_content = _same_content(files, whole, candidate, follow, original)
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
        same_size=task.size == seen.stat.size,
        digests=digests,
        same_content=same_content,
        original=original,
        other_boot=other_boot,
        common=common,
        settled=settled,
        kin=kin,
        cut=cut,
        recompressed=whole.codec != position.codec,
    )
    return facts, differs_at


def _common(content: Content, size: int, spans: Sequence[LedgerSpan]) -> tuple[int, tuple[int, int] | None]:
    """Return the largest ledger boundary up to which the content is as committed, and where it differs."""
    position = spans[0].start if spans else 0
    for span in spans:
        if span.end > size or (span.digest and span_digest(content, span.start, span.end) != span.digest):
            return position, (span.start, span.end)
        position = span.end
    return position, None


def _original(files: FileSystem, task: Task, seen: Look) -> Original:
    """Return what is at the task's own path now."""
    try:
        with files.open(os_path(task.path)) as handle:
            position = task.position
            content, proven = resumed(handle, handle.stat().size, position)
            if not (proven or proves(content, task.head, task.head.length)):
                return "changed"
            if content.size_up_to(position.offset) < position.offset:
                return "changed"
            guard = position.guard if proven else position.whole_guard
            return "live" if guard is not None and proves(content, guard, position.offset) else "changed"
    except FileUnavailable as problem:
        return "vanished" if isinstance(problem, FileMissing) else "live"


def _same_content(files: FileSystem, content: Content, candidate: Candidate, follow: bool, original: Original) -> bool:
    """Return whether the found content is the task's: what was read of a finished one, or the live file itself."""
    task = candidate.task
    if task.status in {"succeeded", "delivering"} and not follow:
        return _equals_finished(content, candidate)
    if original != "live":
        return False
    try:
        with files.open(os_path(task.path)) as handle:
            other = open_content(handle, handle.stat().size)
            return _is_beginning(content, other, whole=not follow)
    except FilecollectError:
        return False


def _equals_finished(content: Content, candidate: Candidate) -> bool:
    """Return whether content is all that a finished task read, by its digest or else by the ledger's."""
    task, end = candidate.task, candidate.task.content_offset
    if content.codec == "plain" and content.size_up_to(end) != end:
        return False
    if task.content_digest is not None:
        same = ChainDigest.resume(content, Chain(), end).final() == task.content_digest
    else:
        same = task.start_offset == 0 and _common(content, end, candidate.spans)[0] == end
    return same and content.size_up_to(end) == end


def _is_beginning(content: Content, other: Content, *, whole: bool) -> bool:
    """Return whether content is what `other` begins with, or (`whole`) all of it."""
    offset = 0
    while True:
        mine, theirs = content.read_at(offset, READ), other.read_at(offset, READ)
        if len(mine) < READ:
            ended = content.end(offset + len(mine))
            if ended is None or not ended.complete:
                return False
            return theirs == mine if whole else theirs.startswith(mine)
        if mine != theirs:
            return False
        offset += READ
