"""Is this found file the content that a task knows? A pure function over facts.

Content decides: the head (digest of the first bytes), the guard (digest of the bytes before the
checkpoint) and, for drops, the ledger's digests. Device and inode are hints. Under 64 bytes of
content the head says nothing about other paths. A finished drop is never "renamed" on its head
alone: tomorrow's cumulative export begins with today's bytes. A followed file of under 64 bytes is
known elsewhere by its whole content, and only where it is `kin`.

What cannot be settled is a new generation: reading twice into a new generation is visible, mistaking
one file for another is silent loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Outcome = Literal[
    "unchanged",  # same generation, nothing to read
    "grown",  # same generation, more to read
    "renamed",  # same generation under another path
    "copy",  # copytruncate: the copy continues the generation
    "compressed",  # same content, compressed since: continues at the same content offset
    "duplicate",  # the content of a generation that is accounted for elsewhere
    "covered",  # a cut copy whose content was read already
    "rolled_back",  # a power cut took bytes that were read: a child starts at the common point
    "edited",  # a drop that differs before its checkpoint
    "truncated",  # the live path holds other, shorter content
    "replaced",  # the live path holds other content
    "undecided",  # may be a copy that is still being written
    "new",
]

Original = Literal["live", "changed", "vanished"]
"""What is at the task's own path now: its content, other content, nothing."""


@dataclass(frozen=True, slots=True)
class Facts:
    """One found file compared with one task of its source.

    `size` and `offset` are content bytes; `common` is the largest ledger boundary up to which the
    found content equals what was read (0 = none); None = was not looked at. `kin`: the same inode or a
    name of the same rotation, unchanged since, or the name that rotation gives to the task's path;
    `recompressed`: another codec than the checkpoint's; `cut`: nothing but NULs follows `common`.
    """

    same_path: bool
    same_inode: bool
    size: int
    offset: int
    head_length: int
    head: bool
    guard: bool
    follow: bool
    finished: bool
    stat_changed: bool
    same_size: bool = False
    digests: bool | None = None
    same_content: bool | None = None
    original: Original = "live"
    other_boot: bool = False
    common: int = 0
    settled: bool = True
    kin: bool = False
    recompressed: bool = False
    cut: bool = False


def decide(facts: Facts) -> Outcome:
    """Return what the found file is to the one task that `facts` speak of."""
    return _at_its_path(facts) if facts.same_path else _elsewhere(facts)


def _matches(facts: Facts) -> bool:
    return facts.head and facts.guard and facts.size >= facts.offset


def _at_its_path(facts: Facts) -> Outcome:
    if not facts.follow:
        same = facts.digests if facts.stat_changed else _matches(facts)
        if same and facts.size >= facts.offset:
            return "grown" if facts.size > facts.offset else "unchanged"
        return "edited" if facts.head or facts.same_size else "replaced"
    if _matches(facts) and (facts.head_length >= 64 or facts.same_inode):
        return "grown" if facts.size > facts.offset else "unchanged"
    if (facts.head or facts.cut) and facts.other_boot and facts.common > 0:
        return "rolled_back"
    return "truncated" if facts.size < facts.offset else "replaced"


def _elsewhere(facts: Facts) -> Outcome:
    if not facts.head or (facts.head_length < 64 and not (facts.follow and facts.kin)):
        return "new"
    if not facts.follow:
        if facts.finished:
            if not facts.same_content:
                return "new"
            return "renamed" if facts.original == "changed" else "duplicate"
        if _matches(facts) and facts.original == "vanished":
            return "renamed"
        return "duplicate" if facts.same_content else "new"
    if facts.original == "live":
        if facts.same_content:
            return "duplicate" if facts.settled or facts.same_inode else "undecided"
        return "new"
    if _matches(facts):
        if facts.recompressed:
            return "compressed" if facts.settled else "undecided"
        if facts.same_inode or facts.original == "vanished":
            return "renamed"
        return "copy" if facts.settled else "undecided"
    if 0 < facts.common == facts.size:
        return "covered" if facts.settled else "undecided"
    return "new"


PRECEDENCE: tuple[Outcome, ...] = (
    "unchanged",
    "grown",
    "renamed",
    "copy",
    "compressed",
    "rolled_back",
    "covered",
    "duplicate",
    "undecided",
    "edited",
    "truncated",
    "replaced",
    "new",
)


def choose(outcomes: Sequence[Outcome]) -> int | None:
    """Return the index of the candidate whose outcome wins, None when there are no candidates.

    Being the same content as any task beats being a successor at the same path; among equals the
    first candidate wins, so callers pass the newest generation first.
    """
    if not outcomes:
        return None
    return min(range(len(outcomes)), key=lambda index: (PRECEDENCE.index(outcomes[index]), index))
