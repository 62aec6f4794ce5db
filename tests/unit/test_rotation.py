"""The age order of rotated names when their times are equal."""

from __future__ import annotations

import random

import pytest

from filecollect.domain.rotation import age_order, is_rotated, rotation_key


@pytest.mark.parametrize(
    "oldest_first",
    [
        ["app.log.10", "app.log.2", "app.log.1", "app.log"],
        ["app.log.10.gz", "app.log.2.gz", "app.log.1", "app.log"],
        ["app.log-20261101", "app.log-20261102", "app.log"],
        ["app.log-20261101.gz", "app.log-20261102", "app.log"],
        ["app.log.2026-10-31", "app.log.2026-11-01", "app.log"],
        ["app.log.2026-11-01_09", "app.log.2026-11-01_10", "app.log"],
        ["app-2026-11-01.log", "app-2026-11-02.log", "app.log"],
        ["app-2026-11-01.2.log", "app-2026-11-01.10.log", "app-2026-11-02.0.log"],
        ["report.2025", "report.2026"],
        ["part-2.csv", "part-10.csv"],
        ["a.csv", "b.csv"],
        ["day2/x.csv", "day10/x.csv"],
        ["syslog.2.gz", "syslog.1", "syslog"],
    ],
)
def test_of_equal_times_the_older_rotation_comes_first(oldest_first: list[str]) -> None:
    """Numbers count down, dates count up, the live file is last."""
    paths = [f"/var/log/{name}" for name in oldest_first]
    mixed = [(path, 7) for path in paths]
    random.Random(1).shuffle(mixed)
    assert [path for path, _ in age_order(mixed)] == paths


def test_time_decides_before_the_name() -> None:
    """A name is only asked when the times are equal."""
    assert age_order([("app.log.1", 9), ("app.log", 3)]) == [("app.log", 3), ("app.log.1", 9)]


def test_any_two_names_can_be_compared() -> None:
    """Odd ones too: empty, digits of other scripts, no suffix, two suffixes, line ends."""
    names = ["", ".", "1", "a.1", "٣.log", "a-20261101", "a-20261101.1", "a.gz", ".gz", "a\n.1", "9" * 30, "x.9999"]
    assert age_order([(name, 0) for name in names[::-1]]) == age_order([(name, 0) for name in names])
    assert len({rotation_key(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("name", "rotated"),
    [
        ("app.log", False),
        ("app.log.1", True),
        ("app.log.10.gz", True),
        ("app.log.0001", True),
        ("app.log.12345", False),
        ("app.log.old", True),
        ("app.log.bak", True),
        ("app.log~", True),
        ("app.old", True),
        ("app.log-20261101", True),
        ("app.log-20261101.gz", True),
        ("app.log.2026-11-01", True),
        ("app.log.2026-11-01_09", True),
        ("app.log-20261101-2", True),
        # A date before the suffix is a name that its writer chose; it may be the live file.
        ("app-2026-11-01.log", False),
        ("app-20261101", False),
        # A year alone is no number of a rotation.
        ("report.2026", False),
        ("app.log.gz", False),
        ("orders.csv", False),
        ("syslog", False),
        ("syslog.1", True),
        ("", False),
    ],
)
def test_a_name_that_rotation_gives_is_told(name: str, rotated: bool) -> None:
    """Numbers, dates behind the suffix, and words for old; in any directory."""
    assert is_rotated(name) is rotated
    assert is_rotated(f"/var/log/app.log.1/{name}") is rotated
