"""Writing what was decided about a found file: a new generation, a continued one, or one passed over.

Everything here runs inside discovery's transaction, under the source's lock. A task that a worker
holds keeps its lease: only its path is changed, when the file was moved. A followed generation whose
path holds other content now is left to `reconcile`: its bytes may stand in a copy not yet settled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, null

from filecollect.clock import Clock, utc_text
from filecollect.domain.identity import Outcome
from filecollect.domain.position import CHAIN_BLOCK, GUARD_LENGTH, Chain, Checkpoint
from filecollect.domain.retry import backoff_s
from filecollect.errors import FilecollectError
from filecollect.events import FileEvent
from filecollect.files.content import Content, open_content
from filecollect.files.filesystem import FileStat, FileSystem
from filecollect.files.paths import os_path
from filecollect.parse.api import Tail
from filecollect.parse.build import make_parser
from filecollect.parse.lineends import LineEnds
from filecollect.pipeline.compare import Look, Match
from filecollect.pipeline.plan import Plan
from filecollect.pipeline.proof import proofs, raw_head
from filecollect.store.events import add_events
from filecollect.store.tasks import (
    Task,
    add_skipped_span,
    add_task,
    change_task,
    force_task,
    forget_passed_over,
    move_task,
    snapshot,
)
from filecollect.store.types import DatabaseNow

LINE_READ = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Decision:
    """What discovery made of one file.

    `outcome` is one for the summary: loaded (new), continued, replaced, unchanged, duplicate,
    skipped, failed; `work` tells whether the round has to read `task_id`; `again` that the file
    must be looked at once more at the next scan even if it does not change; `of` is the task that an
    undecided file may be a copy of.
    """

    path: str
    source_key: str
    outcome: str
    task_id: int | None = None
    work: bool = False
    reason: str | None = None
    message: str | None = None
    size: int = 0
    again: bool = False
    of: int | None = None


def held_back(path: str, source_key: str, task: Task) -> Decision:
    """Return the decision on a file whose task an operator stopped: paused work is left behind, cancelled is not."""
    if task.status == "cancelled":
        message = f"task {task.id} is cancelled; `filecollect tasks retry {task.id}` revives it"
        return Decision(path, source_key, "skipped", task.id, reason="cancelled", message=message)
    why = f" ({task.last_error})" if task.last_error else ""
    message = f"task {task.id} is paused{why}; `filecollect tasks resume {task.id}` lets it go on"
    return Decision(path, source_key, "failed", task.id, reason="paused", message=message)


class Recorder:
    """Write verdicts on the files of one source.

    `bereft` collects paths that were passed over for the sake of content that has left its own path:
    they must be looked at anew, because one of them may be all that is left of it.
    """

    def __init__(
        self,
        files: FileSystem,
        clock: Clock,
        plan: Plan,
        *,
        endless: bool,
        at_end: bool,
        task_host: str | None = None,
    ) -> None:
        self.bereft: list[str] = []
        self.files = files
        self.clock = clock
        self.plan = plan
        self.endless = endless
        self.at_end = at_end
        self.task_host = task_host

    def write(self, conn: Connection, seen: Look, match: Match, skipped: Task | None) -> Decision | None:
        """Write one verdict; None when somebody moved the task meanwhile.

        `skipped` is the task that remembers the same path as passed over or unreadable.
        """
        outcome, task = match.outcome, match.task
        if outcome in {"unchanged", "grown", "renamed", "copy", "compressed"}:
            assert task is not None
            return self._continue(conn, seen, match, task, skipped)
        if outcome == "undecided":
            assert task is not None
            message = f"may be a copy in the making of {task.path}"
            return self._decision(seen, "skipped", None, reason="undecided", message=message, again=True, of=task.id)
        if outcome == "covered" or (outcome == "duplicate" and self.plan.settings.duplicates == "skip"):
            assert task is not None
            kind = "duplicate" if outcome == "duplicate" else "already_covered"
            message = f"same content as {task.path} (task {task.id})"
            task_id = self._pass_over(conn, seen, skipped, task, message)
            self._event(conn, kind, seen.path, task_id, {"of": task.id, "path": task.path})
            return self._decision(seen, "duplicate", task_id, reason=kind, message=message)
        return self._too_old(conn, seen, outcome, skipped) or self._new_generation(conn, seen, match, skipped)

    def _add(self, conn: Connection, **values: Any) -> int:
        return add_task(conn, source_key=self.plan.source_key, host=self.task_host, **values)

    # -- files that are passed over --------------------------------------------------------------

    def _pass_over(self, conn: Connection, seen: Look, skipped: Task | None, of: Task | None, message: str) -> int:
        """Remember a file as accounted for elsewhere, in the row that remembers its path if there is one."""
        values: dict[str, Any] = {"status": "skipped", "last_error": message, **self._identity(seen)}
        parent = None if of is None else of.id
        if skipped is not None:
            force_task(conn, skipped.id, parent_task_id=parent, next_run_at=null(), **values)
            return skipped.id
        return self._add(conn, parent_task_id=parent, **values)

    def _too_old(self, conn: Connection, seen: Look, outcome: Outcome, skipped: Task | None) -> Decision | None:
        limit = self.plan.settings.ignore_older_s
        if limit is None or outcome != "new" or self.clock.time() - seen.stat.mtime_ns / 1e9 <= limit:
            return None
        message = f"not written to for more than ignore_older_s = {limit:g}"
        task_id = self._pass_over(conn, seen, skipped, None, message)
        self._event(conn, "skipped", seen.path, task_id, {"why": "ignore_older_s", "size": seen.stat.size})
        return self._decision(seen, "skipped", task_id, reason="ignore_older_s", message=message)

    def unreadable(
        self, conn: Connection, path: str, stat: FileStat, known: Task | None, problem: FilecollectError
    ) -> Decision:
        """Remember a file that cannot be read now: visible, and tried again after a growing wait."""
        denied = "denied" in problem.message.lower()
        kind = "permission_denied" if denied else "failed"
        if known is not None and not known.is_placeholder:
            if known.last_error != problem.message:
                self._event(conn, kind, path, known.id, {"message": problem.message})
                if known.status == "pending":
                    change_task(conn, known, last_error=problem.message)
            return Decision(
                path, self.plan.source_key, "failed", known.id, reason=problem.code, message=problem.message, again=True
            )
        attempt = 1 if known is None else known.attempt_count + 1
        values: dict[str, Any] = {
            "status": "failed",
            "last_error": problem.message,
            "attempt_count": attempt,
            "next_run_at": DatabaseNow(backoff_s(attempt, 0.0)),
            "size": stat.size,
            "mtime_ns": stat.mtime_ns,
            "device": stat.device,
            "inode": stat.inode,
        }
        if known is None:
            task_id = self._add(conn, path=path, head_length=0, **values)
            self._event(conn, kind, path, task_id, {"message": problem.message})
        else:
            task_id = known.id
            force_task(conn, task_id, **values)
        return Decision(
            path, self.plan.source_key, "failed", task_id, reason=problem.code, message=problem.message, again=True
        )

    # -- new generations -------------------------------------------------------------------------

    def _new_generation(self, conn: Connection, seen: Look, match: Match, skipped: Task | None) -> Decision:
        outcome, old = match.outcome, match.task
        values: dict[str, Any] = {}
        skip_to = 0
        if outcome == "rolled_back" and old is not None:
            values = self._rolled_back(seen, old, match.common)
        elif self.at_end and outcome == "new":
            skip_to, values = self._at_its_end(seen)
        values |= {
            "parent_task_id": None if old is None else old.id,
            "status": "pending",
            "next_run_at": DatabaseNow(),
            "snapshot_json": self._snapshot(seen),
            **self._identity(seen),
        }
        if skipped is not None and skipped.is_placeholder and not skip_to and outcome != "rolled_back":
            task_id = skipped.id
            force_task(conn, task_id, last_error=None, attempt_count=0, **values)
        else:
            task_id = self._add(conn, **values)
        self._event(conn, "discovered", seen.path, task_id, {"size": seen.stat.size})
        if skip_to:
            add_skipped_span(conn, task_id, skip_to)
            self._event(conn, "skipped_start_at_end", seen.path, task_id, {"bytes": skip_to})
        if outcome in {"new", "duplicate"} or old is None:
            return self._decision(seen, "loaded", task_id, work=True)
        kind = {"edited": "edited_before_checkpoint"}.get(outcome, outcome)
        detail: dict[str, Any] = {"previous": old.id, "offset": old.content_offset, "size": seen.stat.size}
        if match.differs_at is not None:
            detail["start_offset"], detail["end_offset"] = match.differs_at
        if outcome == "rolled_back":
            detail["continued_at"] = match.common
        self._event(conn, kind, seen.path, task_id, detail)
        self._retire(conn, old, outcome)
        if not self.plan.settings.follow:
            self.bereft += forget_passed_over(conn, old)
        name = "continued" if outcome == "rolled_back" else "replaced"
        return self._decision(seen, name, task_id, work=True, reason=kind)

    def _retire(self, conn: Connection, old: Task, outcome: Outcome) -> None:
        """Let nobody go on reading a generation whose bytes are no longer at its path.

        A worker that holds a followed one finds that out itself, or reads a deleted file to its end.
        """
        if old.status not in {"pending", "running"}:
            return
        if self.plan.settings.follow and outcome != "rolled_back":
            if old.status == "pending":
                change_task(conn, old, next_run_at=null())
            return
        status = "gone" if old.size > old.raw_offset and outcome != "rolled_back" else "succeeded"
        force_task(
            conn,
            old.id,
            status=status,
            owner_id=null(),
            lease_until=null(),
            next_run_at=null(),
            version=old.version + 1,
        )

    def _rolled_back(self, seen: Look, old: Task, common: int) -> dict[str, Any]:
        from filecollect.pipeline.rescue import checkpoint_at

        with self.files.open(os_path(seen.path)) as handle:
            position = checkpoint_at(handle, old.position, common)
            ends = make_parser(self.plan.spec, self.plan.layout, old.position.parser or None).ends
            lines = ends.count(open_content(handle, seen.stat.size).read_at(0, common), 0, common)
        start = replace(position, records=0, lines=lines, parser=old.position.parser)
        return {
            "content_offset": common,
            "raw_offset": start.raw_offset,
            "start_offset": common,
            "checkpoint_json": start.to_json(),
        }

    def _at_its_end(self, seen: Look) -> tuple[int, dict[str, Any]]:
        """Return the end of the last whole line of a file that is entered at its end, and the position there."""
        with self.files.open(os_path(seen.path)) as handle:
            content = open_content(handle, seen.stat.size)
            parser = make_parser(self.plan.spec, self.plan.layout, None)
            # The header stands at the top and nowhere else.
            parser.parse(content.read_at(0, LINE_READ), offset=0, line=1, limit=1, tail=Tail.WAIT)
            end = _last_line_end(content, parser.ends, seen.stat.size)
            if not end:
                return 0, {}
            length = min(GUARD_LENGTH, end)
            start_at = Checkpoint(
                offset=end,
                raw_head=raw_head(handle, content, seen.stat.size),
                parser=parser.state(),
                chain=Chain(end // CHAIN_BLOCK, "") if content.codec == "plain" else None,
                **proofs(handle, content, end, content.read_at(end - length, length)),
            )
        return end, {
            "content_offset": end,
            "raw_offset": start_at.raw_offset,
            "start_offset": 0,
            "checkpoint_json": start_at.to_json(),
        }

    # -- known generations -----------------------------------------------------------------------

    def _continue(
        self, conn: Connection, seen: Look, match: Match, task: Task, skipped: Task | None
    ) -> Decision | None:
        outcome = match.outcome
        identity = self._identity(seen, grown=task)
        unread = match.unread
        # It has changed since it failed, or it would not have been looked at.
        repaired = task.status == "failed" and task.size > task.raw_offset
        if task.status in {"paused", "cancelled"}:
            if outcome == "renamed":
                move_task(conn, task, seen.path)
                self._moved(conn, seen, outcome, task, skipped)
            return held_back(seen.path, self.plan.source_key, task)
        if task.status == "failed" and outcome == "unchanged" and not repaired:
            return self._decision(seen, "failed", task.id, reason=task.status, message=task.last_error)
        if task.status == "running":
            return self._held(conn, seen, outcome, task, unread, skipped)
        due = task.next_run_at
        if task.status == "pending" and task.attempt_count and due is not None and due.timestamp() > self.clock.time():
            message = f"{task.last_error}; to be tried again after {utc_text(due.timestamp())}"
            return self._decision(seen, "failed", task.id, reason="retry", message=message, again=True)
        # The size may be one in another compression than the old position on disk.
        reached = min(task.raw_offset, seen.stat.size - 1) if unread else seen.stat.size
        values: dict[str, Any] = {**identity, "snapshot_json": self._snapshot(seen), "raw_offset": reached}
        work = unread or task.status not in {"succeeded", "gone"}
        if work:
            values |= {"status": "pending", "next_run_at": DatabaseNow(), "last_error": None, "content_digest": None}
        if not change_task(conn, task, **values):
            return None
        self._moved(conn, seen, outcome, task, skipped)
        if task.status == "gone":
            self._event(conn, "reappeared", seen.path, task.id, {"offset": task.content_offset})
            lost = max(0, task.size - task.raw_offset)
            if lost and self.plan.settings.follow:
                # What was reported as lost is found again.
                self._event(conn, "lost_bytes", seen.path, task.id, {"bytes": -lost, "why": "found again"})
        if unread and task.content_offset > task.start_offset:
            grown: dict[str, Any] = {"offset": task.content_offset, "size": seen.stat.size}
            self._event(conn, "continued", seen.path, task.id, grown)
        fresh = task.content_offset == 0 and outcome in {"grown", "unchanged"}
        name = "loaded" if work and fresh else "continued" if work else "unchanged"
        return self._decision(seen, name, task.id, work=work)

    def _held(
        self, conn: Connection, seen: Look, outcome: Outcome, task: Task, unread: bool, skipped: Task | None
    ) -> Decision:
        """A task that somebody holds: it learns its new path, nothing else is changed."""
        if outcome == "renamed" and seen.path != task.path:
            move_task(conn, task, seen.path)
            self._moved(conn, seen, outcome, task, skipped)
        name = "continued" if task.content_offset > task.start_offset else "loaded"
        copy = outcome in {"copy", "compressed"}
        return self._decision(
            seen,
            "skipped" if copy else name,
            task.id,
            work=unread and not copy,
            reason="undecided" if copy else None,
            message=f"continues {task.path} when that is let go" if copy else None,
            again=True,
            of=task.id if copy else None,
        )

    def _moved(self, conn: Connection, seen: Look, outcome: Outcome, task: Task, skipped: Task | None) -> None:
        if skipped is not None:
            # The path has a task of its own now: the row that remembered it makes way.
            message = f"it is the file of task {task.id}"
            force_task(
                conn,
                skipped.id,
                path=task.path,
                parent_task_id=task.id,
                status="skipped",
                mtime_ns=null(),
                next_run_at=null(),
                last_error=message,
            )
        if outcome == "compressed":
            self._event(conn, "compressed", seen.path, task.id, {"from": task.path, "offset": task.content_offset})
        elif outcome in {"renamed", "copy"}:
            how = "moved" if outcome == "renamed" else "copytruncate"
            self._event(conn, "renamed", seen.path, task.id, {"from": task.path, "how": how})

    # -- small things ----------------------------------------------------------------------------

    def _snapshot(self, seen: Look) -> dict[str, Any]:
        return snapshot(None if self.endless else seen.stat.size, utc_text(self.clock.time()))

    def _identity(self, seen: Look, grown: Task | None = None) -> dict[str, Any]:
        head = seen.head if grown is None or seen.head.length >= grown.head.length else grown.head
        return {
            "path": seen.path,
            "device": seen.stat.device,
            "inode": seen.stat.inode,
            "size": seen.stat.size,
            "mtime_ns": seen.stat.mtime_ns,
            "head_length": head.length,
            "head_digest": head.digest,
        }

    def _event(self, conn: Connection, kind: Any, path: str, task_id: int, detail: dict[str, Any]) -> None:
        add_events(conn, [FileEvent(kind, path, self.plan.source_key, task_id, detail)])

    def _decision(self, seen: Look, outcome: str, task_id: int | None, **more: Any) -> Decision:
        return Decision(seen.path, self.plan.source_key, outcome, task_id, size=seen.stat.size, **more)


def _last_line_end(content: Content, ends: LineEnds, size: int) -> int:
    """Return the content offset behind the last line end, 0 when there is none.

    A plain file is searched backwards from its end; compressed content can only be read forwards.
    """
    if content.codec == "plain":
        position = size - size % ends.unit
        while position > 0:
            start = max(0, position - LINE_READ)
            at = ends.after_last(content.read_at(start, position - start))
            if at > 0:
                return start + at
            position = start
        return 0
    end = position = 0
    while data := content.read_at(position, LINE_READ):
        whole = data[: len(data) - len(data) % ends.unit] or data
        at = ends.after_last(whole)
        end = position + at if at > 0 else end
        position += len(whole)
    return end
