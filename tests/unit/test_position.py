"""A stored checkpoint is read back whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest

from filecollect.domain.position import Chain, Checkpoint, Proof
from filecollect.errors import CheckpointError

WHOLE = Checkpoint(
    offset=300, records=7, lines=8, guard=Proof(256, "a" * 32), parser={"format": "lines"}, chain=Chain(1, "b" * 32)
)


def test_a_checkpoint_is_read_back_as_it_was_stored() -> None:
    """Nothing is lost on the way through JSON."""
    assert Checkpoint.from_json(WHOLE.to_json()) == WHOLE


@pytest.mark.parametrize(
    ("name", "value"),
    [("guard", None), ("v", True), ("v", 2), ("v", None), ("offset", -1), ("offset", "300"), ("digest", {})],
)
def test_a_damaged_or_newer_checkpoint_is_refused(name: str, value: Any) -> None:
    """No proof is lost silently, and nothing ever restarts from zero."""
    with pytest.raises(CheckpointError):
        Checkpoint.from_json(WHOLE.to_json() | {name: value})


def test_a_checkpoint_never_moves_back() -> None:
    """An offset may only grow."""
    assert WHOLE.moved(offset=301).offset == 301
    with pytest.raises(ValueError, match="may not move back"):
        WHOLE.moved(offset=299)
