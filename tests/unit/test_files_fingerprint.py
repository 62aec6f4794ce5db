"""Heads, guards, spans and the chained digest, against plain recomputation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from filecollect.domain import position
from filecollect.domain.position import CHAIN_BLOCK, Chain, Proof
from filecollect.files import fingerprint
from filecollect.files.filesystem import FileHandle, LocalFileSystem
from filecollect.files.fingerprint import ChainDigest, digest, guard, head_at, heads, proves, span_digest

EMPTY = "99aa06d3014798d86001c324468d497f"
"""XXH3-128 of nothing, from xxHash's published test vectors."""

Open = Callable[[bytes], FileHandle]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Return a function that makes a file of some content and opens it."""

    def make(content: bytes) -> FileHandle:
        (tmp_path / "a").write_bytes(content)
        return LocalFileSystem().open(str(tmp_path / "a"))

    return make


def content_of(size: int) -> bytes:
    """Return bytes of which no two stretches are alike."""
    return b"".join(number.to_bytes(4, "big") for number in range(size // 4 + 1))[:size]


def test_a_digest_is_xxh3_128() -> None:
    """The published value, so stored digests outlive the library."""
    assert digest(b"") == EMPTY


@pytest.mark.parametrize(
    ("size", "lengths"),
    [
        (0, []),
        (1, [1]),
        (63, [63]),
        (64, [64]),
        (255, [64]),
        (256, [64, 256]),
        (1023, [64, 256]),
        (1024, [64, 256, 1024]),
        (5000, [64, 256, 1024]),
    ],
)
def test_heads_have_the_lengths_that_the_content_fills(opened: Open, size: int, lengths: list[int]) -> None:
    """Under 64 bytes it is the whole content."""
    content = content_of(size)
    with opened(content) as handle:
        found = heads(handle, size)
        assert found == [Proof(length, digest(content[:length])) for length in lengths]
        assert [head_at(handle, length) for length in lengths] == found
    assert (found[-1].length if found else 0) == position.head_length(size)


def test_heads_stay_within_the_size_that_was_frozen(opened: Open) -> None:
    """What was appended since is the next round's."""
    content = content_of(2000)
    with opened(content) as handle:
        assert [one.length for one in heads(handle, 300)] == [64, 256]
        assert heads(handle, 10) == [Proof(10, digest(content[:10]))]


def test_a_guard_is_the_last_256_bytes_before_the_offset(opened: Open) -> None:
    """Fewer at the beginning, none at 0."""
    content = content_of(1000)
    with opened(content) as handle:
        assert guard(handle, 700) == Proof(256, digest(content[444:700]))
        assert guard(handle, 256) == Proof(256, digest(content[:256]))
        assert guard(handle, 10) == Proof(10, digest(content[:10]))
        assert guard(handle, 0) == Proof(0, "")


def test_a_guard_holds_at_its_place_only(opened: Open) -> None:
    """One changed byte, another place, or a file cut short: no proof."""
    content = content_of(1000)
    with opened(content) as handle:
        proof = guard(handle, 700)
        assert proves(handle, proof, 700)
        assert not proves(handle, proof, 701)
        assert not proves(handle, proof, 255)
        assert proves(handle, Proof(0, ""), 700)
    with opened(content[:500] + b"!" + content[501:]) as handle:
        assert not proves(handle, proof, 700)
    with opened(content[:699]) as handle:
        assert not proves(handle, proof, 700)
    with opened(content[:600] + b"!" * 400) as handle:
        assert proves(handle, guard(handle, 600), 600)
        assert not proves(handle, proof, 700)


def test_a_guard_past_the_end_holds_nowhere(opened: Open) -> None:
    """The file was cut while it was read; what comes there later is not it."""
    content = content_of(1000)
    with opened(content[:600]) as handle:
        proof = guard(handle, 700)
        assert not proves(handle, proof, 700)
    with opened(content) as handle:
        assert not proves(handle, proof, 700)


def test_a_span_is_digested_whatever_the_size_of_reads(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty, within one read, over many reads, past the end."""
    content = content_of(1000)
    monkeypatch.setattr(fingerprint, "READ", 7)
    with opened(content) as handle:
        assert span_digest(handle, 100, 900) == digest(content[100:900])
        assert span_digest(handle, 5, 5) == EMPTY
        assert span_digest(handle, 990, 2000) == digest(content[990:])


def recomputed(content: bytes, block: int) -> tuple[Chain, str]:
    """Return chain and final digest in the most obvious way."""
    chain, blocks = b"", 0
    while len(content) >= block:
        chain, content, blocks = xxhash.xxh3_128_digest(chain + content[:block]), content[block:], blocks + 1
    final = xxhash.xxh3_128_hexdigest(chain + content) if content or not blocks else chain.hex()
    return Chain(blocks, chain.hex()), final


@settings(max_examples=200)
@given(content=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200)), block=st.sampled_from([1, 16, 64]))
def test_any_chunking_gives_the_same_chain(content: bytes, cuts: list[int], block: int) -> None:
    """Equal to a recomputation that knows no chunks; asking in between changes nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint, "CHAIN_BLOCK", block)
        chained = ChainDigest(Chain())
        edges = [0, *sorted(min(cut, len(content)) for cut in cuts), len(content)]
        for start, end in pairwise(edges):
            chained.update(content[start:end])
            assert (chained.chain(), chained.final()) == recomputed(content[:end], block)


@settings(max_examples=60)
@given(content=st.binary(min_size=1, max_size=200), data=st.data())
def test_a_resume_at_any_offset_goes_on_alike(content: bytes, data: st.DataObject) -> None:
    """Only the bytes behind the last whole block are read again."""
    offset = data.draw(st.integers(0, len(content)))
    reads: list[tuple[int, int]] = []

    class Handle:
        """A file in memory that notes what is read."""

        def read_at(self, start: int, length: int) -> bytes:
            """Return bytes from `start`."""
            reads.append((start, start + length))
            return content[start : start + length]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fingerprint, "CHAIN_BLOCK", 16)
        stored, _ = recomputed(content[:offset], 16)
        resumed = ChainDigest.resume(Handle(), stored, offset)
        assert all(offset - offset % 16 <= start and end <= offset for start, end in reads)
        resumed.update(content[offset:])
        assert (resumed.chain(), resumed.final()) == recomputed(content, 16)


def test_the_real_block_is_one_mebibyte(opened: Open) -> None:
    """Stored chains depend on it: two whole blocks and five bytes."""
    content = content_of(2 * 1024 * 1024 + 5)
    assert CHAIN_BLOCK == 1024 * 1024
    chained = ChainDigest(Chain())
    chained.update(content)
    first = xxhash.xxh3_128_digest(content[: 1024 * 1024])
    second = xxhash.xxh3_128_digest(first + content[1024 * 1024 : 2 * 1024 * 1024])
    assert chained.chain() == Chain(2, second.hex())
    assert chained.final() == xxhash.xxh3_128_hexdigest(second + content[-5:])
    with opened(content) as handle:
        assert ChainDigest.resume(handle, chained.chain(), len(content)).final() == chained.final()


def test_the_chain_of_nothing_is_the_digest_of_nothing() -> None:
    """H_0 is empty bytes."""
    assert ChainDigest(Chain()).final() == EMPTY
    assert ChainDigest(Chain()).chain() == Chain(0, "")
