"""The stored form of paths."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filecollect.files.paths import absolute, os_path, stored_path


@pytest.mark.parametrize(
    ("raw", "stored"),
    [
        (b"/a/b.csv", "/a/b.csv"),
        ("/订单/ü.csv".encode(), "/订单/ü.csv"),
        (b"/caf\xe9.csv", "/caf%E9.csv"),
        (b"/100%.csv", "/100%25.csv"),
        (b"/%E9.csv", "/%25E9.csv"),
        (b"/\xff\xfe", "/%FF%FE"),
        (b"/\xed\xa0\x80", "/%ED%A0%80"),
    ],
)
def test_only_what_is_not_utf8_and_the_percent_sign_are_encoded(raw: bytes, stored: str) -> None:
    """So two paths never share a stored form."""
    assert stored_path(raw) == stored
    assert stored_path(os.fsdecode(raw)) == stored
    assert os.fsencode(os_path(stored)) == raw


@given(st.binary())
def test_any_bytes_come_back(raw: bytes) -> None:
    """Stored is valid UTF-8, and the way back is exact."""
    stored = stored_path(raw)
    stored.encode("utf-8")
    assert os.fsencode(os_path(stored)) == raw


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a.csv", "/base/a.csv"),
        ("./x/../a.csv", "/base/a.csv"),
        ("../a.csv", "/a.csv"),
        ("/x//y/./z/", "/x/y/z"),
        ("//x/y", "/x/y"),
        ("///x", "/x"),
        ("/", "/"),
        ("//", "/"),
        ("", "/base"),
    ],
)
def test_a_path_is_made_absolute_in_one_way(path: str, expected: str) -> None:
    """Every spelling of a path is one path."""
    assert absolute(path, "/base") == expected


def test_the_home_directory_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` alone or before a slash; a backup's `~` at the end is a sign like any other."""
    monkeypatch.setenv("HOME", "/home/ada")
    assert absolute("~/in", "/base") == "/home/ada/in"
    assert absolute("a.csv~", "/base") == "/base/a.csv~"
