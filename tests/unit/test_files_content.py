"""The contract of content, the same for every codec: plain, gzip and zstd in all their forms."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from isal import isal_zlib

from filecollect.domain.position import Block
from filecollect.errors import Corrupt, FilecollectError, Replaced, Unsupported
from filecollect.files import packed
from filecollect.files.codecs import gzip as gzip_codec
from filecollect.files.content import Content, End, PlainContent, open_content
from filecollect.files.filesystem import FileHandle, LocalFileSystem
from tests.packed import FORMS, MANY, gzip_members, gzip_one, suffix, zstd_bare, zstd_one, zstd_sized

PARTS = [b"".join(b"%d: part %d\n" % (n, part) for n in range(2000 * (part % 3 + 1))) for part in range(6)]
WHOLE = b"".join(PARTS)
SMALL = [b"one,two\n", b"", b"three" * 30 + b"\n", b"4\n"]
COMPRESSED = [name for name in FORMS if name != "plain"]


@pytest.fixture(params=["zlib", "isal"], autouse=True)
def inflaters(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both inflaters, one after the other."""
    monkeypatch.setattr(gzip_codec, "inflaters", zlib if request.param == "zlib" else isal_zlib)


class Counted(FileHandle):
    """A handle that notes what is read."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), follow_symlinks=False)
        self.reads: list[tuple[int, int]] = []

    def read_at(self, offset: int, length: int) -> bytes:
        """Read and note it."""
        data = super().read_at(offset, length)
        self.reads.append((offset, offset + len(data)))
        return data


@contextmanager
def opened(
    directory: Path, raw: bytes, form: str, *, bound: int | None = None, **how: Any
) -> Iterator[tuple[Content, Counted]]:
    """Write a file and open its content."""
    path = directory / f"content{suffix(form)}"
    path.write_bytes(raw)
    with Counted(path) as handle:
        yield open_content(handle, len(raw) if bound is None else bound, **how), handle


def read(content: Content, start: int = 0, step: int = 10_000) -> tuple[bytes, End | FilecollectError | None]:
    """Read to the end in steps; return the bytes and how it ended."""
    parts: list[bytes] = []
    at = start
    try:
        while part := content.read_at(at, step):
            parts.append(part)
            at += len(part)
    except FilecollectError as problem:
        return b"".join(parts), problem
    return b"".join(parts), content.end(at)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("step", [1000, 65_536, 10_000_000])
def test_any_read_size_gives_the_same_content(tmp_path: Path, form: str, step: int) -> None:
    """From 0 until nothing comes; then it is complete, and all of the file is read."""
    raw, _ = FORMS[form](PARTS)
    with opened(tmp_path, raw, form) as (content, _):
        assert read(content, step=step) == (WHOLE, End(len(WHOLE), True))
        assert content.raw_offset_at(len(WHOLE)) == len(raw)
        assert content.size_up_to(len(WHOLE)) == len(WHOLE)
        assert content.unchanged()


@pytest.mark.parametrize("form", FORMS)
def test_bytes_can_be_read_one_by_one(tmp_path: Path, form: str) -> None:
    """The smallest reads, over empty blocks too."""
    raw, _ = FORMS[form](SMALL)
    with opened(tmp_path, raw, form) as (content, _):
        assert read(content, step=1) == (b"".join(SMALL), End(sum(map(len, SMALL)), True))


@pytest.mark.parametrize("form", FORMS)
def test_content_is_told_by_magic_whatever_the_name(tmp_path: Path, form: str) -> None:
    """A compressed file without a suffix, and plain text under one."""
    raw, _ = FORMS[form](SMALL)
    for name in ("a", "a.gz", "a.zst", "a.csv"):
        (tmp_path / name).write_bytes(raw)
        with LocalFileSystem().open(str(tmp_path / name)) as handle:
            content = open_content(handle, len(raw))
            assert content.codec == form.partition("_")[0].replace("bgzf", "gzip")
            assert content.read_at(0, 1000) == b"".join(SMALL)


@pytest.mark.parametrize("form", FORMS)
def test_going_back_reads_the_same_again(tmp_path: Path, form: str) -> None:
    """Near, far, and to the start, in any order."""
    raw, _ = FORMS[form](PARTS)
    chosen = random.Random(7)
    with opened(tmp_path, raw, form) as (content, _):
        for _ in range(60):
            at, length = chosen.randrange(len(WHOLE) + 10), chosen.choice([0, 1, 300, 5000, 200_000])
            assert content.read_at(at, length) == WHOLE[at : at + length]


@pytest.mark.parametrize("form", MANY)
def test_every_block_is_known_and_can_be_started_from(tmp_path: Path, form: str) -> None:
    """Nothing on disk before a block is read then, and positions are the same."""
    raw, starts = FORMS[form](PARTS)
    at = [*accumulate(map(len, PARTS), initial=0)]
    with opened(tmp_path, raw, form) as (content, _):
        read(content)
        for index, (start, end) in enumerate(pairwise(at)):
            expected = Block(index, starts[index], start)
            assert content.block_at(start) == content.block_at(end - 1) == expected
        last = content.block_at(len(WHOLE))
        assert last is not None
        assert (last.content_offset, last.raw_offset) == (len(WHOLE), starts[-1])
    for index, start in enumerate(at):
        block = Block(index, starts[index], start)
        with opened(tmp_path, raw, form, codec=content.codec, start=block) as (again, file):
            assert read(again, start) == (WHOLE[start:], End(len(WHOLE), True))
            assert all(begin >= starts[index] for begin, _ in file.reads)
            assert again.block_at(len(WHOLE)) == last
            assert again.read_at(start // 2, 10) == WHOLE[start // 2 : start // 2 + 10]


@pytest.mark.parametrize("form", FORMS)
def test_disk_positions_only_grow_and_reach_the_bound_at_the_end_only(tmp_path: Path, form: str) -> None:
    """Percent and lag count bytes on disk."""
    raw, _ = FORMS[form](PARTS)
    with opened(tmp_path, raw, form) as (content, _):
        places = [content.raw_offset_at(0)]
        for at in range(0, len(WHOLE), 5000):
            content.read_at(at, 5000)
            places.append(content.raw_offset_at(min(at + 5000, len(WHOLE) - 1)))
        content.end(len(WHOLE))
    assert places == sorted(places)
    assert places[0] >= 0
    assert len(raw) // 3 < places[-1] < len(raw)


@pytest.mark.parametrize("form", COMPRESSED)
def test_a_file_cut_anywhere_is_complete_only_between_blocks(tmp_path: Path, form: str) -> None:
    """At every byte: what can be read is a beginning, and a block that is not whole is never done."""
    raw, starts = FORMS[form](SMALL)
    content_at = dict(zip(starts, accumulate(map(len, SMALL), initial=0), strict=False)) if form in MANY else {}
    whole = b"".join(SMALL)
    for cut in range(1, len(raw)):
        with opened(tmp_path, raw[:cut], form) as (content, _):
            got, end = read(content, step=7)
        assert whole.startswith(got)
        assert isinstance(end, End), (cut, end)
        assert end.offset == len(got)
        padding = form == "gzip_padded" and cut >= starts[-1]
        seekable_or_skippable = form in {"zstd_skippable", "zstd_seekable"} and cut == starts[-1]
        if cut in starts or padding or seekable_or_skippable:
            assert end.complete
            assert got == whole[: content_at.get(cut, len(whole))]
        else:
            # Skippable frames that stand alone are whole, too.
            alone = form == "zstd_skippable" and cut - 13 in starts
            assert end.complete is alone, cut
            assert alone or end.raw_left > 0
            assert alone or content.raw_offset_at(len(got)) < cut


@pytest.mark.parametrize("form", FORMS)
def test_a_growing_file_goes_on_from_the_block_it_had_got_to(tmp_path: Path, form: str) -> None:
    """Read what is there, open again at the block with a later bound: the same bytes, none twice."""
    raw, _ = FORMS[form](PARTS)
    got = b""
    block: Block | None = None
    for bound in [*range(4, len(raw), max(1, len(raw) // 23)), len(raw)]:
        start = block if block is not None and block.raw_offset else None
        with opened(tmp_path, raw, form, bound=bound, start=start) as (content, file):
            more, end = read(content, len(got))
            got += more
            block = content.block_at(len(got))
            assert start is None or all(begin == 0 or begin >= start.raw_offset for begin, _ in file.reads)
    assert got == WHOLE
    assert end == End(len(WHOLE), True)


@pytest.mark.parametrize("form", ["gzip", "gzip_members", "gzip_fields", "bgzf", "zstd", "zstd_sized", "zstd_seekable"])
def test_a_flipped_byte_anywhere_is_never_taken_for_good_content(tmp_path: Path, form: str) -> None:
    """With a checksum: damage, or an unfinished end, or (in a header field that means nothing) the content."""
    raw, _ = FORMS[form](SMALL)
    whole = b"".join(SMALL)
    damaged = 0
    for at in range(4, len(raw)):
        with opened(tmp_path, raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1 :], form) as (content, _):
            got, end = read(content, step=11)
        if isinstance(end, End) and end.complete:
            assert got == whole
        elif isinstance(end, FilecollectError):
            damaged += 1
            assert isinstance(end, Corrupt | Unsupported)
            assert end.offset == len(got)
            assert end.path is not None
    assert damaged > len(raw) // 3


@pytest.mark.parametrize("form", ["gzip", "gzip_members", "zstd_sized"])
def test_every_good_byte_before_damage_is_handed_out(tmp_path: Path, form: str) -> None:
    """The checksum of the last block is wrong: all content comes, then the error, again and again."""
    raw, starts = FORMS[form](PARTS)
    position = starts[-1] - (8 if form.startswith("gzip") else 4)
    with opened(tmp_path, raw[:position] + bytes([raw[position] ^ 1]) + raw[position + 1 :], form) as (content, _):
        got, problem = read(content, step=300_000)
        assert got == WHOLE
        assert isinstance(problem, Corrupt)
        assert (problem.code, problem.offset) == ("corrupt", len(WHOLE))
        assert problem.hint is not None
        assert content.end(len(WHOLE)) is None
        assert content.size_up_to(len(WHOLE)) == len(WHOLE) + 1
        with pytest.raises(Corrupt):
            content.read_at(len(WHOLE), 1)
        assert content.read_at(5, 10) == WHOLE[5:15]


def test_deflate_damage_in_the_middle_keeps_all_that_stands_before_it(tmp_path: Path) -> None:
    """Stored blocks show it exactly: the content up to the damaged block header comes, to the byte."""
    deflate = zlib.compressobj(level=0, wbits=31)
    raw = deflate.compress(WHOLE) + deflate.flush()
    # gzip header 10 bytes; then stored blocks: 5 bytes header with length and its complement, content.
    first = int.from_bytes(raw[11:13], "little")
    second = 10 + 5 + first
    with opened(tmp_path, raw[: second + 1] + b"\xff\xff\xff\xff" + raw[second + 5 :], "gzip") as (content, _):
        got, problem = read(content)
    assert got == WHOLE[:first]
    assert isinstance(problem, Corrupt)


@pytest.mark.parametrize(("form", "garbage"), [("gzip", b"x"), ("gzip", b"\0\0\0x"), ("zstd", b"\0"), ("zstd", b"P*")])
def test_bytes_behind_the_last_block_are_visible(tmp_path: Path, form: str, garbage: bytes) -> None:
    """They are damage, or (what may become a frame) an unfinished end; never "done"."""
    raw, _ = FORMS[form](SMALL)
    with opened(tmp_path, raw + garbage, form) as (content, _):
        got, end = read(content)
    assert got == b"".join(SMALL)
    if garbage == b"P*":
        assert end == End(len(got), False, 2)
    else:
        assert isinstance(end, Corrupt)


def test_a_file_of_one_or_two_bytes_is_told_by_its_name(tmp_path: Path) -> None:
    """A `.gz` whose magic is not all there yet waits; a short text does not."""
    with opened(tmp_path, b"\x1f", "gzip") as (content, _):
        assert (content.codec, read(content)) == ("gzip", (b"", End(0, False, 1)))
    with opened(tmp_path, b"(\xb5", "zstd") as (content, _):
        assert (content.codec, read(content)) == ("zstd", (b"", End(0, False, 2)))
    with opened(tmp_path, b"(", "plain") as (content, _):
        assert (content.codec, read(content)) == ("plain", (b"(", End(1, True)))


def test_other_compressions_are_refused_with_a_way_out(tmp_path: Path) -> None:
    """Until they have a codec."""
    with pytest.raises(Unsupported, match="xz files are not read by this version; decompress it first"):
        opened(tmp_path, b"\xfd7zXZ\x00", "plain").__enter__()


def test_a_window_of_gigabytes_is_refused_before_it_is_made(tmp_path: Path) -> None:
    """A frame header that asks for 3.75 TiB, and one at 256 MiB; the frame before them is read."""
    good = zstandard.compress(b"good\n")
    for window in (0xFF, (28 - 10) << 3):
        hostile = b"\x28\xb5\x2f\xfd\x00" + bytes([window]) + b"\x01\x00\x00"
        with opened(tmp_path, good + hostile, "zstd") as (content, _):
            got, problem = read(content)
        assert got == b"good\n"
        assert isinstance(problem, Unsupported)
        assert "window" in problem.message


def test_a_frame_with_a_dictionary_is_refused(tmp_path: Path) -> None:
    """Its number is told."""
    samples: list[Any] = [b"line %d of the log\n" % n for n in range(2000)]
    trained = zstandard.train_dictionary(1000, samples)
    raw = zstandard.ZstdCompressor(dict_data=trained).compress(b"".join(samples[:50]))
    with opened(tmp_path, raw, "zstd") as (content, _):
        got, problem = read(content)
    assert got == b""
    assert isinstance(problem, Unsupported)
    assert str(trained.dict_id()) in problem.message


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_content_that_expands_a_thousand_times_is_held_in_pieces(tmp_path: Path, form: str) -> None:
    """Whatever is asked for is given; only a window of it is kept, and little of the file is read."""
    zeros = bytes(50_000_000)
    raw = gzip.compress(zeros) if form == "gzip" else zstandard.compress(zeros)
    with opened(tmp_path, raw, form) as (content, file):
        assert content.read_at(0, 10) == bytes(10)
        assert isinstance(content, packed.PackedContent)
        assert len(content._window) <= packed.PIECE
        assert max(end for _, end in file.reads) <= packed.FIRST_READ
        assert content.read_at(1000, 2_000_000) == bytes(2_000_000)
        assert len(content._window) <= packed.PIECE + packed.BACK
        assert content.end(len(zeros)) == End(len(zeros), True)


def test_members_longer_than_a_piece_follow_each_other(tmp_path: Path) -> None:
    """Where a member ends in the middle of a call, the bytes behind it are the next one's."""
    parts = [bytes(packed.PIECE + extra) for extra in (-1, 0, 1, 7, packed.PIECE)]
    raw, _ = gzip_members(parts)
    with opened(tmp_path, raw, "gzip") as (content, _):
        assert read(content, step=50_000) == (b"".join(parts), End(sum(map(len, parts)), True))


def test_only_so_many_blocks_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A place in a forgotten block is reached from an earlier one."""
    monkeypatch.setattr(packed, "KNOWN", 16)
    parts = [b"%04d\n" % n for n in range(1000)]
    whole = b"".join(parts)
    raw, _ = gzip_members(parts)
    with opened(tmp_path, raw, "gzip") as (content, _):
        assert read(content, step=100)[0] == whole
        assert isinstance(content, packed.PackedContent)
        assert len(content._blocks) <= 17
        assert len(content._marks) <= 17
        assert content.block_at(4999) == Block(999, len(raw) - len(gzip.compress(parts[999])), 4995)
        for at in (0, 2500, 13, 4000, 4998):
            assert content.read_at(at, 60) == whole[at : at + 60]


def test_a_file_that_became_shorter_than_its_bound_is_not_taken_for_complete(tmp_path: Path) -> None:
    """The bound was frozen when the round started."""
    raw, _ = gzip_members(SMALL)
    with opened(tmp_path, raw, "gzip", bound=len(raw) + 5) as (content, _):
        got, problem = read(content)
    assert b"".join(SMALL).startswith(got)
    assert isinstance(problem, Replaced)


def test_bytes_that_change_behind_our_back_are_noticed(tmp_path: Path) -> None:
    """What was read last is compared on the same handle."""
    raw, _ = zstd_one(PARTS)
    with opened(tmp_path, raw, "zstd") as (content, file):
        read(content)
        assert content.unchanged()
        with open(file.path, "r+b") as other:
            other.seek(-3, 2)
            other.write(b"???")
        assert not content.unchanged()


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [(0, 4, b"0123"), (0, 100, b"012345"), (5, 100, b"5"), (6, 1, b""), (9, 1, b""), (2, 0, b"")],
)
def test_nothing_of_a_plain_file_past_the_bound_is_read(
    tmp_path: Path, offset: int, length: int, expected: bytes
) -> None:
    """The file holds ten bytes, the bound is six."""
    with opened(tmp_path, b"0123456789", "plain", bound=6) as (content, _):
        assert isinstance(content, PlainContent)
        assert content.read_at(offset, length) == expected
        assert (content.codec, content.raw_offset_at(offset)) == ("plain", offset)
        assert (content.end(5), content.end(6), content.block_at(3)) == (None, End(6, True), None)


READS = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 90)), max_size=8)


@settings(max_examples=150)
@given(
    parts=st.lists(st.binary(max_size=90), max_size=6), reads=READS, piece=st.integers(1, 50), back=st.integers(1, 20)
)
@pytest.mark.parametrize("pack", [gzip_one, gzip_members, zstd_bare, zstd_sized], ids=lambda one: one.__name__)
def test_any_reads_of_any_blocks_in_pieces_of_any_size_are_right(
    tmp_path_factory: pytest.TempPathFactory, pack: Any, parts: list[bytes], reads: Any, piece: int, back: int
) -> None:
    """With pieces of a few bytes every edge lies everywhere."""
    if not parts:
        return
    whole = b"".join(parts)
    raw = pack(parts)[0] if pack is not gzip_one else gzip.compress(whole)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("PIECE", piece), ("BACK", back), ("FIRST_READ", piece), ("RAW_READ", 2 * piece)):
            patch.setattr(packed, name, value)
        form = "zstd" if pack.__name__.startswith("zstd") else "gzip"
        with opened(tmp_path_factory.getbasetemp(), raw, form) as (content, _):
            for at, length in reads:
                assert content.read_at(at, length) == whole[at : at + length]
            assert read(content, step=17) == (whole, End(len(whole), True))
