"""Reading up to the bound that was frozen when the round started."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filecollect.files.filesystem import LocalFileSystem
from filecollect.files.reader import ContentReader, PlainReader


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [(0, 4, b"0123"), (0, 100, b"012345"), (5, 100, b"5"), (6, 1, b""), (9, 1, b""), (2, 0, b"")],
)
def test_nothing_past_the_bound_is_read(tmp_path: Path, offset: int, length: int, expected: bytes) -> None:
    """The file holds ten bytes, the bound is six."""
    (tmp_path / "a").write_bytes(b"0123456789")
    with LocalFileSystem().open(str(tmp_path / "a")) as handle:
        reader: ContentReader = PlainReader(handle, 6)
        assert reader.read(offset, length) == expected
        assert (reader.codec, reader.raw_offset_at(offset)) == ("plain", offset)


def test_a_file_that_became_shorter_than_the_bound_ends_early(tmp_path: Path) -> None:
    """The bound is a limit, no promise."""
    (tmp_path / "a").write_bytes(b"0123")
    with LocalFileSystem().open(str(tmp_path / "a")) as handle:
        assert PlainReader(handle, 9).read(2, 9) == b"23"


@given(content=st.binary(max_size=60), bound=st.integers(0, 80), step=st.integers(1, 9))
def test_any_step_reads_the_same(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, bound: int, step: int
) -> None:
    """From 0 until nothing comes."""
    path = tmp_path_factory.getbasetemp() / "steps"
    path.write_bytes(content)
    with LocalFileSystem().open(str(path)) as handle:
        reader = PlainReader(handle, bound)
        got = b""
        while part := reader.read(len(got), step):
            got += part
    assert got == content[:bound]
