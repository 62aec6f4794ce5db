"""Column names: kept, unique, short enough."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filecollect.parse.names import LONGEST_BYTES, RESERVED, column_names


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        (["a", "A", "a", "a_1"], ["a", "A_2", "a_3", "a_1"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
        (["_offset", "_EXTRA", "_task_id"], ["_offset_2", "_EXTRA_2", "_task_id_2"]),
        (["id", "", None, "c2"], ["id", "c2", "c3", "c2_2"]),
        (["select", 'a"b', "🙂", "订单", " x "], ["select", 'a"b', "🙂", "订单", " x "]),
        (["straße", "STRASSE"], ["straße", "STRASSE_2"]),
        (["a\0b"], ["a_b"]),
    ],
)
def test_names_are_kept_and_made_unique(sources: list[str | None], names: list[str]) -> None:
    """Duplicates, told apart without case, get the first free number; empty names their position."""
    assert column_names(sources) == names


def test_a_long_name_is_cut_at_a_character_and_told_by_its_digest() -> None:
    """63 bytes stay, 64 become 54 and eight hex digits; a cut never splits a character."""
    assert column_names(["x" * 63]) == ["x" * 63]
    (name,) = column_names(["x" * 64])
    assert name[:55] == "x" * 54 + "_"
    assert len(name) == 63
    (wide,) = column_names(["€" * 30])
    assert wide[:19] == "€" * 18 + "_"
    (odd,) = column_names(["x" + "€" * 30])
    assert odd[:19] == "x" + "€" * 17 + "_"


def test_snake_names_are_lower_case_words() -> None:
    """Capitals begin words, everything else between words is one underscore."""
    sources = ["OrderID", "Unit Price (€)", "HTTPStatus", "already_so", "%%"]
    assert column_names(sources, snake=True) == ["order_id", "unit_price", "http_status", "already_so", "c5"]


@given(st.lists(st.text(max_size=70), max_size=8))
def test_names_are_always_usable(sources: list[str]) -> None:
    """Whatever the header says: unique without case, not reserved, not too long, the same every time."""
    names = column_names(sources)
    assert names == column_names(sources)
    folded = [name.casefold() for name in names]
    assert len(set(folded)) == len(folded)
    assert not RESERVED & set(folded)
    assert all(0 < len(name.encode()) <= LONGEST_BYTES for name in names)
