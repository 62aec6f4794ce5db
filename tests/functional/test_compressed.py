"""Backfills of gzip and zstd files: the same rows as of the plain file, whatever happens on the way."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard

from filecollect.domain.position import Checkpoint
from filecollect.files.filesystem import FileHandle, LocalFileSystem
from filecollect.pipeline.ingest import Stream
from filecollect.pipeline.plan import stored_plan
from filecollect.store.engine import close, database_url, open_engine, transaction
from filecollect.store.sources import stored_sources
from filecollect.store.tasks import tasks_by_id
from tests.daemon import daemon, wait_until
from tests.packed import FORMS, suffix, zstd_sized
from tests.program import Program, aged


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program in an empty directory."""
    return Program(tmp_path)


def lines(first: int, last: int) -> bytes:
    """Return JSON lines with ids `first`..`last`."""
    return b"".join(b'{"id":%d,"m":"line %d"}\n' % (n, n) for n in range(first, last + 1))


HUNDREDS = [lines(n, n + 99) for n in range(1, 1000, 100)]
THOUSAND = b"".join(HUNDREDS)
OFFSETS = [(n, THOUSAND.index(b'{"id":%d,' % n)) for n in range(1, 1001)]
HUNDREDS_AT = {line: THOUSAND.index(line) for line in THOUSAND.splitlines()}


def rows(program: Program, table: str = "app") -> list[tuple[int, int]]:
    """Return id and offset of all rows."""
    return program.sql("o.db", f"SELECT id, _offset FROM {table} ORDER BY _offset")


@pytest.mark.parametrize("form", ["gzip", "gzip_members", "bgzf", "zstd", "zstd_sized", "zstd_skippable"])
@pytest.mark.parametrize("batch", [100, 70], ids=["at block boundaries", "inside blocks"])
def test_a_killed_backfill_of_a_compressed_file_goes_on_to_the_plain_files_rows(
    program: Program, form: str, batch: int
) -> None:
    """Killed twice, before a commit and after one; ids and offsets are those of the content."""
    name = f"app.jsonl{suffix(form)}"
    aged(program.write(name, FORMS[form](HUNDREDS)[0]))
    call = ("backfill", name, "--db", "o.db", "--batch-rows", str(batch), "--workers", "1")

    assert program(*call, failpoints="before_commit@4=kill").code == 137
    assert rows(program) == OFFSETS[: 3 * batch]
    assert program(*call, failpoints="after_commit@2=kill").code == 137
    assert rows(program) == OFFSETS[: 5 * batch]
    ended = program(*call, "--json")

    assert ended.code == 0, ended.err
    assert rows(program) == OFFSETS
    raw, size = program.sql("o.db", "SELECT raw_offset, size FROM collection_task")[0]
    assert raw == size == (program.directory / name).stat().st_size
    again = program(*call, "--json")
    assert [one["outcome"] for one in again.json["files"]] == ["unchanged"]


class Counting(LocalFileSystem):
    """The file system; notes every byte that is read."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[tuple[int, int]] = []

    def open(self, path: str | bytes) -> FileHandle:
        """Open a file whose reads are noted."""
        spans = self.spans

        class Handle(FileHandle):
            def read_at(self, offset: int, length: int) -> bytes:
                data = super().read_at(offset, length)
                spans.append((offset, offset + len(data)))
                return data

        return Handle(path, follow_symlinks=False)


def test_a_resume_at_the_end_of_ten_thousand_frames_reads_one_frame_and_little_more(program: Program) -> None:
    """Counted at the file seam: the frames before the checkpoint's are not read, nor hashed, nor parsed."""
    frames = [b"".join(b'{"id":%d,"m":"%s"}\n' % (10 * n + m, b"x" * 50) for m in range(10)) for n in range(10_000)]
    raw, starts = zstd_sized(frames)
    path = aged(program.write("app.jsonl.zst", raw))
    killed = program.run(
        *("backfill", "app.jsonl.zst", "--db", "o.db", "--batch-rows", "9999", "--workers", "1"),
        failpoints="after_commit@10=kill",
    )
    assert killed.code == 137
    assert program.sql("o.db", "SELECT count(*) FROM app") == [(99_990,)]
    engine = open_engine(database_url(str(program.directory / "o.db")))
    with transaction(engine) as conn:
        plan = stored_plan(stored_sources(conn)["app"])
        (task,) = tasks_by_id(conn, [1])
    close(engine, truncate=True)
    files = Counting()

    stream = Stream(files, task, plan, now=0)
    step = stream.next(1_000_000)

    assert step is not None
    assert (step.old.offset, step.row_count) == (sum(map(len, frames[:9999])), 10)
    assert stream.finished
    stream.prove(step)
    stream.close()
    assert task.position.block is not None
    assert task.position.block.index == 9999
    frame = starts[9999]
    far = [(start, end) for start, end in files.spans if end < frame - 256]
    assert sum(end - start for start, end in far) <= 4 * 1024
    assert sum(end - start for start, end in files.spans) <= len(raw) - frame + 64 * 1024
    assert path.stat().st_size > 5 * 64 * 1024
    done = program("backfill", "app.jsonl.zst", "--db", "o.db")
    assert done.code == 0, done.err
    assert program.sql("o.db", "SELECT count(*), count(DISTINCT id), sum(id) FROM app") == [
        (100_000, 100_000, 99_999 * 50_000)
    ]
    assert program.sql("o.db", "SELECT content_digest FROM collection_task") == [(None,)]


def test_a_directory_of_plain_gzip_and_zstd_files_is_one_table(program: Program) -> None:
    """Compression is no part of the family, and CSV headers are read inside."""
    aged(program.write("d/orders-2026-01-01.csv", "id,name\n1,a\n2,b\n"))
    aged(program.write("d/orders-2026-01-02.csv.gz", gzip.compress(b"id,name\n3,c\n4,d\n")))
    aged(program.write("d/orders-2026-01-03.csv.zst", zstandard.compress(b"id,name\n5,e\n")))

    ended = program("backfill", "d", "--db", "o.db", "--json")

    assert ended.code == 0, ended.err
    assert program.sql("o.db", "SELECT id, name FROM orders ORDER BY id") == [
        *((1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e"))
    ]
    assert [one["outcome"] for one in ended.json["files"]] == ["loaded"] * 3
    sizes = sum(path.stat().st_size for path in (program.directory / "d").iterdir())
    assert ended.json["bytes"] == sizes


def test_names_that_lie_about_compression_are_read_by_magic(program: Program) -> None:
    """A plain `.csv.gz`, and gzip data called `.csv`."""
    aged(program.write("a/orders.csv.gz", "id,name\n1,a\n"))
    aged(program.write("b/orders.csv", gzip.compress(b"id,name\n2,b\n")))

    ended = program("backfill", "a/orders.csv.gz", "b/orders.csv", "--db", "o.db")

    assert ended.code == 0, ended.err
    assert program.sql("o.db", "SELECT id FROM orders ORDER BY id") == [(1,), (2,)]


@pytest.mark.parametrize("form", ["gzip", "gzip_members", "zstd_sized"])
@pytest.mark.parametrize("age", [0, 60], ids=["just written", "old"])
def test_a_truncated_file_keeps_what_can_be_read_and_goes_on_when_it_is_completed(
    program: Program, form: str, age: float
) -> None:
    """Failed as `truncated`, exit 1, never succeeded; then exactly the rest."""
    raw, _ = FORMS[form](HUNDREDS)
    name = f"app.jsonl{suffix(form)}"
    path = aged(program.write(name, raw[: len(raw) * 2 // 3]), age)

    first = program("backfill", name, "--db", "o.db", "--json")

    assert first.code == 1
    (told,) = first.json["files"]
    assert (told["outcome"], told["reason"]) == ("failed", "truncated")
    assert "block" in told["message"]
    got = rows(program)
    assert 300 < len(got) < 1000
    assert got == OFFSETS[: len(got)]
    assert program.sql("o.db", "SELECT status, count(*) FROM collection_task") == [("pending", 1)]
    same = program("backfill", name, "--db", "o.db", "--json")
    assert (same.code, same.json["files"][0]["reason"], rows(program)) == (1, "truncated", got)

    with path.open("ab") as file:
        file.write(raw[len(raw) * 2 // 3 :])
    second = program("backfill", name, "--db", "o.db", "--json")

    assert second.code == 0, second.err
    assert [one["outcome"] for one in second.json["files"]] == ["continued"]
    assert second.json["rows"]["inserted"] == 1000 - len(got)
    assert rows(program) == OFFSETS
    assert program.sql("o.db", "SELECT status FROM collection_task") == [("succeeded",)]


def test_a_compressed_file_of_which_nothing_can_be_read_yet_is_not_done(program: Program) -> None:
    """The first bytes of a header; no table, no task, exit 1; loaded when it is whole."""
    raw = gzip.compress(THOUSAND)
    program.write("app.jsonl.gz", raw[:2])
    first = program("backfill", "app.jsonl.gz", "--db", "o.db", "--json")
    assert first.code == 1
    assert [(one["outcome"], one["reason"]) for one in first.json["files"]] == [("failed", "truncated")]

    program.write("app.jsonl.gz", raw)
    assert program("backfill", "app.jsonl.gz", "--db", "o.db").code == 0
    assert rows(program) == OFFSETS


@pytest.mark.parametrize("form", ["gzip", "gzip_members", "zstd_sized"])
def test_a_damaged_file_keeps_the_rows_before_the_damage_and_fails_visibly(program: Program, form: str) -> None:
    """Reason `corrupt` with the offset; a whole copy in its place replaces it."""
    raw, starts = FORMS[form](HUNDREDS)
    at = starts[-1] - (8 if form.startswith("gzip") else 4)
    name = f"app.jsonl{suffix(form)}"
    aged(program.write(name, raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :]), 3600)

    first = program("backfill", name, "--db", "o.db", "--json")

    assert first.code == 1
    (told,) = first.json["files"]
    assert (told["outcome"], told["reason"], told["rows"]) == ("failed", "corrupt", 1000)
    assert f"at byte {len(THOUSAND)}" in told["message"]
    assert rows(program) == OFFSETS
    assert program.sql("o.db", "SELECT status FROM collection_task") == [("failed",)]
    assert program("backfill", name, "--db", "o.db").code == 1

    aged(program.write(name, raw))
    second = program("backfill", name, "--db", "o.db", "--json")
    assert second.code == 0, second.out
    assert rows(program) == OFFSETS


def test_garbage_behind_the_last_member_is_visible(program: Program) -> None:
    """All rows are there, the file is failed."""
    aged(program.write("app.jsonl.gz", gzip.compress(THOUSAND) + b"garbage"))
    ended = program("backfill", "app.jsonl.gz", "--db", "o.db", "--json")
    assert (ended.code, ended.json["files"][0]["reason"]) == (1, "corrupt")
    assert rows(program) == OFFSETS


@pytest.mark.parametrize("form", ["gzip_members", "zstd_sized"])
def test_a_block_that_is_appended_is_read_and_nothing_before_it(program: Program, form: str) -> None:
    """A finished file grows by a member or frame: exactly its records are more."""
    name = f"app.jsonl{suffix(form)}"
    path = aged(program.write(name, FORMS[form](HUNDREDS[:9])[0]))
    assert program("backfill", name, "--db", "o.db").code == 0
    with path.open("ab") as file:
        file.write(FORMS[form](HUNDREDS[9:])[0])

    again = program("backfill", name, "--db", "o.db", "--json")

    assert again.code == 0, again.out
    assert [(one["outcome"], one["rows"]) for one in again.json["files"]] == [("continued", 100)]
    assert rows(program) == OFFSETS


def test_a_last_record_without_its_end_is_completed_by_the_next_member(program: Program) -> None:
    """The row is replaced by the whole one, as in a plain file."""
    path = aged(program.write("app.jsonl.gz", gzip.compress(b'{"id":1,"m":"a"}\n{"id":2,"m":"b"}')))
    assert program("backfill", "app.jsonl.gz", "--db", "o.db").code == 0
    with path.open("ab") as file:
        file.write(gzip.compress(b' \n{"id":3,"m":"c"}\n'))
    again = program("backfill", "app.jsonl.gz", "--db", "o.db")
    assert again.code == 0, again.out
    assert program.sql("o.db", "SELECT id, _offset FROM app ORDER BY _offset") == [(1, 0), (2, 17), (3, 35)]
    assert program.sql("o.db", "SELECT count(*) FROM file_event WHERE kind = 'record_completed'") == [(1,)]


@pytest.mark.parametrize(("first", "then"), [("plain", "gzip"), ("gzip", "plain"), ("gzip", "zstd_sized")])
def test_the_same_export_in_another_compression_is_a_duplicate(program: Program, first: str, then: str) -> None:
    """Content is compared, not bytes on disk."""
    aged(program.write(f"export-1.jsonl{suffix(first)}", FORMS[first](HUNDREDS)[0]))
    assert program("backfill", ".", "--db", "o.db").code == 0
    aged(program.write(f"export-2.jsonl{suffix(then)}", FORMS[then](HUNDREDS)[0]))

    again = program("backfill", ".", "--db", "o.db", "--json")

    assert sorted(one["outcome"] for one in again.json["files"]) == ["duplicate", "unchanged"]
    assert len(program.sql("o.db", "SELECT 1 FROM committed_batch")) == 1


@pytest.mark.parametrize("form", ["gzip", "gzip_members", "zstd_sized"])
def test_an_export_of_many_blocks_that_was_resumed_is_told_from_others_by_the_ledger(
    program: Program, form: str
) -> None:
    """Its content digest may be unknown; the same content is a duplicate, one byte more is not."""
    name = f"app-1.jsonl{suffix(form)}"
    aged(program.write(name, FORMS[form](HUNDREDS)[0]))
    call = ("backfill", ".", "--db", "o.db", "--batch-rows", "150", "--workers", "1", "--json")
    assert program(*call, failpoints="before_commit@4=kill").code == 137
    assert program(*call).code == 0
    aged(program.write("app-2.jsonl", THOUSAND))
    aged(program.write("app-3.jsonl", THOUSAND + b'{"id":9}\n'))

    ended = program(*call)

    told = {Path(one["path"]).name: one["outcome"] for one in ended.json["files"]}
    assert told == {name: "unchanged", "app-2.jsonl": "duplicate", "app-3.jsonl": "loaded"}


@pytest.mark.parametrize("form", ["gzip", "gzip_members", "zstd_sized"])
def test_an_export_that_was_compressed_anew_with_more_at_its_end_is_continued(program: Program, form: str) -> None:
    """Other bytes on disk from the start on; the content proves that it is the same."""
    aged(program.write("app.jsonl.gz", FORMS[form](HUNDREDS)[0]))
    assert program("backfill", "app.jsonl.gz", "--db", "o.db").code == 0
    aged(program.write("app.jsonl.gz", gzip.compress(THOUSAND, 1)))
    same = program("backfill", "app.jsonl.gz", "--db", "o.db", "--json")
    assert [(one["outcome"], one["rows"]) for one in same.json["files"]] == [("unchanged", 0)]
    assert program.sql("o.db", "SELECT raw_offset = size FROM collection_task") == [(1,)]
    aged(program.write("app.jsonl.gz", gzip.compress(THOUSAND + lines(1001, 1010), 9)))
    again = program("backfill", "app.jsonl.gz", "--db", "o.db", "--json")
    assert again.code == 0, again.out
    assert [(one["outcome"], one["rows"]) for one in again.json["files"]] == [("continued", 10)]


def test_a_compressed_export_that_was_edited_replaces_its_rows(program: Program) -> None:
    """As a plain one."""
    aged(program.write("app.jsonl.gz", gzip.compress(THOUSAND)), 3600)
    assert program("backfill", "app.jsonl.gz", "--db", "o.db").code == 0
    aged(program.write("app.jsonl.gz", gzip.compress(THOUSAND.replace(b"line 500", b"LINE 500"))))
    again = program("backfill", "app.jsonl.gz", "--db", "o.db", "--json")
    assert again.code == 0, again.out
    assert [one["outcome"] for one in again.json["files"]] == ["replaced"]
    assert program.sql("o.db", "SELECT count(*), sum(m = 'LINE 500') FROM app") == [(1000, 1)]


def test_preview_trace_quarantine_and_replay_read_compressed_files(program: Program) -> None:
    """Every command that reads files sees the content."""
    content = b'{"id":1,"m":"a"}\n{"id":\n{"id":3,"m":"c"}\n'
    aged(program.write("app.jsonl.gz", gzip.compress(content)))
    seen = program.run("preview", "app.jsonl.gz", "--json")
    assert seen.code in {0, 1}, seen.err
    assert [row["id"] for row in seen.json["files"][0]["rows"]] == [1, 3]

    assert program("backfill", "app.jsonl.gz", "--db", "o.db").code == 1
    traced = program("trace", "app", "--where", "id = 3", "--db", "o.db")
    assert ":3 (byte 24" in traced.out
    assert '{"id":3,"m":"c"}' in traced.out
    assert program.sql("o.db", "SELECT raw, start_offset FROM quarantined_item") == [(b'{"id":\n', 17)]
    assert program("quarantine", "retry", "--all", "--db", "o.db").code == 1
    assert program("replay", "app", "--db", "o.db").code == 0
    assert program("backfill", "app.jsonl.gz", "--db", "o.db").code == 1
    assert program.sql("o.db", "SELECT id, _offset FROM app ORDER BY 1") == [(1, 0), (3, 24)]
    assert program("replay", "app", "--db", "o.db", "--set", 'columns={id="text"}').code == 0
    assert program("backfill", "app.jsonl.gz", "--db", "o.db").code == 1
    assert program.sql("o.db", "SELECT id FROM app ORDER BY 1") == [("1",), ("3",)]


def test_what_is_inside_is_refused_like_a_file_of_its_own(program: Program) -> None:
    """A tar archive in gzip is skipped, a compressed file in a compressed file and xz are refused, nothing is empty."""
    (program.directory / "in").mkdir()
    (program.directory / "in" / "a.txt").write_text("a\n")
    subprocess.run(["tar", "-czf", "d.tar.gz", "in"], cwd=program.directory, check=True)
    program.write("twice.jsonl.gz", gzip.compress(gzip.compress(THOUSAND)))
    program.write("x.jsonl.xz", b"\xfd7zXZ\x00\x00\x04")
    program.write("nothing.jsonl.gz", gzip.compress(b""))
    for name, outcome, words in (
        ("d.tar.gz", "failed", "a tar archive is not read"),
        ("twice.jsonl.gz", "failed", "gzip data inside a compressed file is not read"),
        ("x.jsonl.xz", "failed", "xz files are not read by this version; decompress it first"),
        ("nothing.jsonl.gz", "skipped", "the file is empty"),
    ):
        ended = program.run("backfill", name, "--db", "o.db", "--json")
        (told,) = ended.json["files"]
        assert (told["outcome"], told["message"]) == (outcome, words)


MEASURE = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(done.returncode)
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["one line", "lines"])
@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_bomb_is_read_in_bounded_memory(tmp_path: Path, kind: str, codec: str) -> None:
    """A gigabyte of content behind a few kilobytes: one record too long, or very many lines (of a smaller one)."""
    megabyte = bytes(1_000_000) if kind == "one line" else (b"x" * 9_999 + b"\n") * 100
    count = 1000 if kind == "one line" else 200
    path = tmp_path / f"bomb.log{'.gz' if codec == 'gzip' else '.zst'}"
    with path.open("wb") as file:
        if codec == "gzip":
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6) as packed:
                packed.write(b"first\n")
                for _ in range(count):
                    packed.write(megabyte)
                packed.write(b"\nlast\n")
        else:
            with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as packed:
                packed.write(b"first\n")
                for _ in range(count):
                    packed.write(megabyte)
                packed.write(b"\nlast\n")
    aged(path)
    environment = Program(tmp_path).environment()
    words = ["backfill", path.name, "--format", "lines", "--db", "o.db", "--workers", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, sys.executable, "-m", "filecollect", *words],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    document, peak = done.stdout.rsplit("\n", 2)[:2]
    told = json.loads(document)
    if kind == "one line":
        assert done.returncode == 1
        assert (told["rows"]["inserted"], told["quarantined"]) == (2, 1)
        program = Program(tmp_path)
        assert program.sql("o.db", "SELECT line FROM bomb ORDER BY _offset") == [("first",), ("last",)]
        length = program.sql("o.db", "SELECT length, reason, length(raw) FROM quarantined_item")
        assert length == [(1_000_000_001, "record_too_long", 64 * 1024)]
    else:
        assert done.returncode == 0, done.stderr
        assert told["rows"]["inserted"] == 2 + 200 * 100
    assert int(peak) < 300 * 1024, f"{int(peak) // 1024} MiB"
    assert os.path.getsize(path) < 2_000_000


def test_a_checkpoint_without_compressed_content_stays_as_it_was() -> None:
    """The stored form of a plain position is read whether it knows of raw heads or not."""
    plain = Checkpoint(offset=0).to_json()
    del plain["raw_head"]
    assert Checkpoint.from_json(plain) == Checkpoint(offset=0)


@pytest.mark.parametrize("form", ["gzip_members", "zstd_sized"])
def test_a_compressed_log_that_grows_is_followed_block_by_block(tmp_path: Path, form: str) -> None:
    """The daemon reads each block as it becomes whole; a half one waits, across a kill too."""
    (tmp_path / "logs").mkdir()
    path = tmp_path / "logs" / f"app.log{suffix(form)}"
    blocks = [FORMS[form]([part])[0] for part in HUNDREDS[:4]]
    with daemon(tmp_path, workers=1) as tail:
        tail.config('[source.app]\npaths = ["logs/*"]\nformat = "lines"\nsettle_s = 0.3\n')

        path.write_bytes(blocks[0])
        tail.start()
        tail.wait_for("app", 100)
        with path.open("ab") as file:
            file.write(blocks[1] + blocks[2][:-3])
            file.flush()
            wait_until(lambda: tail.count("app") >= 200)
            tail.kill()
            tail.start()
            file.write(blocks[2][-3:] + blocks[3])
        tail.wait_for("app", 400)
        tail.stop()
        assert tail.sql("SELECT line, _offset FROM app ORDER BY _offset") == [
            (line.decode(), HUNDREDS_AT[line]) for line in b"".join(HUNDREDS[:4]).splitlines()
        ]
        assert tail.sql("SELECT raw_offset = size FROM collection_task") == [(1,)]
