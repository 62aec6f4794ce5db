"""Which state of a task may follow which: the whole table."""

from __future__ import annotations

from typing import get_args

import pytest

from filecollect.domain.states import Status, may_change

ORDER = ["pending", "running", "delivering", "succeeded", "failed", "paused", "cancelled", "skipped", "gone"]
# One row for each old state, one column for each new one, in ORDER: "x" may follow, "=" stays.
TABLE = {
    "pending": "= x . x x x x x x",
    "running": "x = x x x x x x x",
    "delivering": "x . = x x x x x .",
    "succeeded": "x . . = . . . x .",
    "failed": "x . . . = . x x .",
    "paused": "x . . . . = x x .",
    "cancelled": "x . . . . . = x .",
    "skipped": "x . . . . . . = .",
    "gone": "x . . . . . . x =",
}


def test_the_table_knows_every_state() -> None:
    """A new state needs a row and a column."""
    assert set(get_args(Status)) == set(ORDER) == TABLE.keys()
    assert {len(row.split()) for row in TABLE.values()} == {len(ORDER)}


@pytest.mark.parametrize("old", ORDER)
@pytest.mark.parametrize("new", ORDER)
def test_a_change_is_allowed_as_the_table_says(old: str, new: str) -> None:
    """Only a claim makes a task running, so only a pending one becomes it; every state has a way back to pending."""
    allowed = TABLE[old].split()[ORDER.index(new)] != "."
    assert may_change(old, new) is allowed
