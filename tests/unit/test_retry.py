"""When a failed step is tried again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filecollect.domain.retry import backoff_s


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(-1, 5), (0, 5), (1, 5), (2, 10), (3, 20), (4, 40), (8, 640), (9, 1280), (10, 1800), (11, 1800), (10**9, 1800)],
)
def test_the_wait_doubles_from_five_seconds_to_half_an_hour(attempt: int, seconds: float) -> None:
    """5 s x 2^(attempt - 1), at most 1,800 s; no attempt is too many to count."""
    assert backoff_s(attempt, 0) == seconds


@pytest.mark.parametrize(("jitter", "seconds"), [(0, 20), (0.4, 22), (0.5, 22.5), (0.8, 24)])
def test_jitter_adds_up_to_a_quarter(jitter: float, seconds: float) -> None:
    """So that many files that failed together do not come back together."""
    assert backoff_s(3, jitter) == pytest.approx(seconds)


@given(st.integers(1, 100), st.floats(0, 1, exclude_max=True))
def test_a_later_attempt_never_waits_less_than_an_earlier_one_without_jitter(attempt: int, jitter: float) -> None:
    """Jitter only ever adds."""
    assert backoff_s(attempt, 0) <= backoff_s(attempt, jitter) <= backoff_s(attempt, 0) * 1.25
    assert backoff_s(attempt + 1, 0) >= backoff_s(attempt, 0)
