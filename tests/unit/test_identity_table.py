"""The truth table of identity: what a found file is to a task."""

from __future__ import annotations

from dataclasses import replace

import pytest

from filecollect.domain.identity import PRECEDENCE, Facts, Outcome, choose, decide

HERE = Facts(
    same_path=True,
    same_inode=True,
    size=500,
    offset=500,
    head_length=256,
    head=True,
    guard=True,
    follow=True,
    finished=True,
    stat_changed=False,
)
"""A followed file at its own path, fully read and unchanged."""
DROP = replace(HERE, follow=False)
ELSEWHERE = replace(HERE, same_path=False, same_inode=False, original="vanished")
DROP_ELSEWHERE = replace(ELSEWHERE, follow=False)


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        # a followed file at its path: head, guard and size
        (HERE, "unchanged"),
        (replace(HERE, size=600), "grown"),
        (replace(HERE, same_inode=False), "unchanged"),
        (replace(HERE, head_length=20), "unchanged"),
        (replace(HERE, head_length=20, same_inode=False), "replaced"),
        (replace(HERE, head=False), "replaced"),
        (replace(HERE, guard=False), "replaced"),
        (replace(HERE, head=False, size=100, guard=False), "truncated"),
        (replace(HERE, size=100, guard=False), "truncated"),
        (replace(HERE, size=100, guard=False, other_boot=True, common=80), "rolled_back"),
        (replace(HERE, size=100, guard=False, other_boot=True, common=0), "truncated"),
        (replace(HERE, size=100, guard=False, other_boot=False, common=80), "truncated"),
        (replace(HERE, head=False, size=100, guard=False, other_boot=True, common=80), "truncated"),
        (replace(HERE, head=False, size=100, guard=False, other_boot=True, common=80, cut=True), "rolled_back"),
        (replace(HERE, head=False, size=100, guard=False, other_boot=True, common=0, cut=True), "truncated"),
        (replace(HERE, head=False, size=100, guard=False, common=80, cut=True), "truncated"),
        # a drop at its path: the ledger's digests when its stat changed
        (DROP, "unchanged"),
        (replace(DROP, size=600, stat_changed=True, digests=True), "grown"),
        (replace(DROP, stat_changed=True, digests=True), "unchanged"),
        (replace(DROP, stat_changed=True, digests=True, same_inode=False, head_length=20), "unchanged"),
        (replace(DROP, stat_changed=True, digests=False, same_size=True), "edited"),
        (replace(DROP, stat_changed=True, digests=False, size=600), "edited"),
        (replace(DROP, stat_changed=True, digests=False, head=False, size=600), "replaced"),
        (replace(DROP, stat_changed=True, digests=False, head=False, same_size=True), "edited"),
        (replace(DROP, stat_changed=True, digests=False, head=False, size=100), "replaced"),
        # a followed file under another path
        (replace(ELSEWHERE, same_inode=True), "renamed"),
        (ELSEWHERE, "renamed"),
        (replace(ELSEWHERE, original="changed", same_inode=True), "renamed"),
        (replace(ELSEWHERE, original="changed"), "copy"),
        (replace(ELSEWHERE, original="changed", settled=False), "undecided"),
        (replace(ELSEWHERE, original="live", same_content=True), "duplicate"),
        (replace(ELSEWHERE, original="live", same_content=True, settled=False), "undecided"),
        (replace(ELSEWHERE, original="live", same_content=True, settled=False, same_inode=True), "duplicate"),
        (replace(ELSEWHERE, original="live", same_content=False), "new"),
        (replace(ELSEWHERE, head=False), "new"),
        (replace(ELSEWHERE, head_length=63), "new"),
        (replace(ELSEWHERE, offset=0), "renamed"),
        (replace(ELSEWHERE, guard=False), "new"),
        (replace(ELSEWHERE, size=300, guard=False, common=300, original="changed"), "covered"),
        (replace(ELSEWHERE, size=300, guard=False, common=300, original="changed", settled=False), "undecided"),
        (replace(ELSEWHERE, size=300, guard=False, common=200, original="changed"), "new"),
        # a drop under another path: equality is only a duplicate question
        (replace(DROP_ELSEWHERE, same_content=True), "duplicate"),
        (replace(DROP_ELSEWHERE, same_content=True, original="live"), "duplicate"),
        (replace(DROP_ELSEWHERE, same_content=True, original="changed"), "renamed"),
        (replace(DROP_ELSEWHERE, same_content=False), "new"),
        (replace(DROP_ELSEWHERE, same_content=None, size=900), "new"),
        (replace(DROP_ELSEWHERE, finished=False), "renamed"),
        (replace(DROP_ELSEWHERE, finished=False, original="live", same_content=True), "duplicate"),
        (replace(DROP_ELSEWHERE, finished=False, original="live"), "new"),
        (replace(DROP_ELSEWHERE, same_content=True, head_length=40), "new"),
    ],
)
def test_every_row_of_the_table(facts: Facts, outcome: Outcome) -> None:
    """What the facts say decides, nothing else."""
    assert decide(facts) == outcome


def test_being_the_same_content_beats_being_a_successor() -> None:
    """A moved task wins over a replacement of the one at the path; among equals the first."""
    assert choose(["replaced", "renamed", "new"]) == 1
    assert choose(["new", "duplicate", "duplicate"]) == 1
    assert choose([]) is None


def test_every_outcome_has_its_place() -> None:
    """No outcome is forgotten in the precedence."""
    from typing import get_args

    assert sorted(PRECEDENCE) == sorted(get_args(Outcome))
