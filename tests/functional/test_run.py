"""The daemon tails logs through rotation, restarts and kills: rows = lines, none twice."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.daemon import Daemon, daemon, wait_until

SOURCE = """
[source.app]
paths = ["logs/app.log*"]
format = "lines"
settle_s = 0.3
"""


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A directory for logs."""
    path = tmp_path / "logs"
    path.mkdir()
    return path


@pytest.fixture(params=[1, 2], ids=["one process", "two workers"])
def tail(request: pytest.FixtureRequest, tmp_path: Path, logs: Path) -> Iterator[Daemon]:
    """A configured daemon, not started."""
    with daemon(tmp_path, workers=request.param, idle_release_s=2) as one:
        one.config(SOURCE)
        yield one


def append(path: Path, first: int, last: int) -> None:
    """Append numbered lines."""
    with path.open("a") as file:
        file.writelines(f"line {number:06d} of the log\n" for number in range(first, last + 1))


def numbers(tail: Daemon) -> list[int]:
    """Return the numbers of the lines collected, sorted."""
    return sorted(int(row[0].split()[1]) for row in tail.sql("SELECT line FROM app"))


def test_lines_arrive_while_they_are_written(tail: Daemon, logs: Path) -> None:
    """A half line waits for its end; SIGTERM ends with 0 and the next start goes on."""
    append(logs / "app.log", 1, 10)
    tail.start()
    tail.wait_for("app", 10)
    with (logs / "app.log").open("a") as file:
        file.write("line 000011 of ")
        file.flush()
        append(logs / "app.log.other", 50, 59)
        tail.wait_for("app", 20)
        file.write("the log\n")
    tail.wait_for("app", 21)
    tail.stop()
    append(logs / "app.log", 12, 20)
    tail.start()
    tail.wait_for("app", 30)
    tail.stop()
    assert numbers(tail) == [*range(1, 21), *range(50, 60)]


def test_rename_and_create(tail: Daemon, logs: Path) -> None:
    """The renamed file is read to its end, the new one from its start; nothing is read again."""
    append(logs / "app.log", 1, 100)
    tail.start()
    tail.wait_for("app", 100)
    old = (logs / "app.log").open("a")
    (logs / "app.log").rename(logs / "app.log.1")
    old.write("line 000101 of the log\n")
    old.flush()
    append(logs / "app.log", 102, 150)
    old.write("line 000151 of the log\n")
    old.close()
    tail.wait_for("app", 151)
    wait_until(lambda: "renamed" in tail.kinds())
    wait_until(lambda: tail.sql("SELECT status FROM collection_task WHERE path LIKE '%.1'") == [("succeeded",)])
    tail.stop()
    assert numbers(tail) == list(range(1, 152))
    assert tail.count("collection_task") == 2


def test_copytruncate(tail: Daemon, logs: Path) -> None:
    """The copy continues the old generation; the truncated file is a new one."""
    append(logs / "app.log", 1, 100)
    tail.start()
    tail.wait_for("app", 100)
    shutil.copyfile(logs / "app.log", logs / "app.log.1")
    os.truncate(logs / "app.log", 0)
    append(logs / "app.log", 101, 120)
    tail.wait_for("app", 120)
    tail.stop()
    assert numbers(tail) == list(range(1, 121))
    assert "lost_bytes" not in tail.kinds()


def test_copytruncate_while_stopped_with_unread_lines(tail: Daemon, logs: Path) -> None:
    """Lines that were only written into the copy are read from there."""
    append(logs / "app.log", 1, 100)
    tail.start()
    tail.wait_for("app", 100)
    tail.stop()
    append(logs / "app.log", 101, 150)
    shutil.copyfile(logs / "app.log", logs / "app.log.1")
    os.truncate(logs / "app.log", 0)
    append(logs / "app.log", 151, 170)
    tail.start()
    tail.wait_for("app", 170)
    tail.stop()
    assert numbers(tail) == list(range(1, 171))
    assert "lost_bytes" not in tail.kinds()


def test_truncated_without_a_copy_reports_lost_bytes(tail: Daemon, logs: Path) -> None:
    """Bytes that were seen and never read are counted, not guessed away."""
    append(logs / "app.log", 1, 100)
    tail.start()
    tail.wait_for("app", 100)
    with (logs / "app.log").open("a") as file:
        file.write("half a line")
    wait_until(lambda: tail.sql(f"SELECT 1 FROM collection_task WHERE size >= {100 * 23 + 11} OR status = 'pending'"))
    tail.stop()
    os.truncate(logs / "app.log", 0)
    append(logs / "app.log", 101, 110)
    tail.start()
    tail.wait_for("app", 110)
    wait_until(lambda: "lost_bytes" in tail.kinds())
    lost = tail.sql("SELECT json_extract(detail, '$.bytes') FROM file_event WHERE kind = 'lost_bytes'")
    tail.stop()
    assert lost == [(11,)]
    assert numbers(tail) == list(range(1, 111))


def test_several_rotations_in_one_stop(tail: Daemon, logs: Path) -> None:
    """A chain is caught up oldest first, whatever was rotated how often."""
    append(logs / "app.log", 1, 50)
    tail.start()
    tail.wait_for("app", 50)
    tail.kill()
    append(logs / "app.log", 51, 60)
    for turn in range(3):
        for number in (2, 1):
            if (logs / f"app.log.{number}").exists():
                (logs / f"app.log.{number}").rename(logs / f"app.log.{number + 1}")
        (logs / "app.log").rename(logs / "app.log.1")
        append(logs / "app.log", 61 + turn * 10, 70 + turn * 10)
    tail.start()
    tail.wait_for("app", 90)
    tail.stop()
    assert numbers(tail) == list(range(1, 91))
    ids = tail.sql("SELECT DISTINCT _task_id, min(line) FROM app GROUP BY 1 ORDER BY 1")
    assert [row[1] for row in ids] == sorted(row[1] for row in ids)


def test_killed_and_restarted_twenty_times(tail: Daemon, logs: Path) -> None:
    """A writer with half-written lines; the daemon is killed at random moments."""
    path = logs / "app.log"
    dice = random.Random(20261201)
    written = 0
    with path.open("a", buffering=1) as file:
        for _ in range(20):
            tail.start()
            until = time.monotonic() + dice.uniform(0.3, 1.2)
            while time.monotonic() < until:
                written += 1
                text = f"line {written:06d} of the log\n"
                cut = dice.randrange(len(text))
                file.write(text[:cut])
                file.flush()
                time.sleep(0.01)
                file.write(text[cut:])
            tail.kill()
    tail.start()
    tail.wait_for("app", written)
    tail.stop()
    assert numbers(tail) == list(range(1, written + 1))


def test_deleted_while_open_is_read_to_its_end_and_let_go(tail: Daemon, logs: Path) -> None:
    """The handle of a deleted file does not keep its disk space."""
    append(logs / "app.log", 1, 10)
    tail.start()
    tail.wait_for("app", 10)
    with (logs / "app.log").open("a") as file:
        (logs / "app.log").unlink()
        file.write("line 000011 of the log\n")
    tail.wait_for("app", 11)
    wait_until(lambda: tail.sql("SELECT status FROM collection_task") == [("succeeded",)])
    tail.stop()


def test_replaced_by_rename_over_the_old_name(tail: Daemon, logs: Path) -> None:
    """The old file is read to its end, then the new one from its start."""
    append(logs / "app.log", 1, 10)
    tail.start()
    tail.wait_for("app", 10)
    append(logs / "app.log", 11, 12)
    append(logs / "new.tmp", 13, 20)
    (logs / "new.tmp").rename(logs / "app.log")
    tail.wait_for("app", 20)
    tail.stop()
    assert numbers(tail) == list(range(1, 21))


def test_from_end_skips_what_is_there(tmp_path: Path, logs: Path) -> None:
    """Existing files are entered at their last line end, visibly; later ones are read whole."""
    append(logs / "app.log", 1, 10)
    with daemon(tmp_path, "--from-end") as tail:
        tail.config(SOURCE)
        tail.start()
        wait_until(lambda: "skipped_start_at_end" in tail.kinds())
        append(logs / "app.log", 11, 12)
        append(logs / "app.log.new", 13, 14)
        tail.wait_for("app", 4)
        tail.stop()
        assert numbers(tail) == [11, 12, 13, 14]
        assert tail.sql("SELECT start_offset, end_offset, kind FROM committed_batch ORDER BY task_id, seq LIMIT 1") == [
            (0, 230, "skipped")
        ]


def test_ctrl_c_ends_with_130(tail: Daemon, logs: Path) -> None:
    """At a batch boundary, nothing marked as finished."""
    append(logs / "app.log", 1, 10)
    tail.start()
    tail.wait_for("app", 10)
    assert tail.signal(signal.SIGINT) == 130
    assert tail.sql("SELECT status, owner_id FROM collection_task") == [("pending", None)]
    tail.check()


def test_a_start_at_the_end_is_only_for_the_very_first_scan(tmp_path: Path, logs: Path) -> None:
    """`start = "end"`: what appears while the daemon is stopped is read whole."""
    append(logs / "app.log", 1, 10)
    with daemon(tmp_path) as tail:
        tail.config(SOURCE + 'start = "end"\n')
        tail.start()
        wait_until(lambda: "skipped_start_at_end" in tail.kinds())
        append(logs / "app.log", 11, 12)
        tail.wait_for("app", 2)
        tail.stop()
        append(logs / "app.log.2", 21, 25)
        tail.start()
        tail.wait_for("app", 7)
        tail.stop()
        assert numbers(tail) == [11, 12, 21, 22, 23, 24, 25]


def test_old_files_are_left_until_they_are_written_to(tmp_path: Path, logs: Path) -> None:
    """`ignore_older_s`: a visible skip; a line more and the file is read from its start."""
    append(logs / "app.log", 1, 3)
    append(logs / "app.log.old", 101, 103)
    os.utime(logs / "app.log.old", (1_700_000_000, 1_700_000_000))
    with daemon(tmp_path) as tail:
        tail.config(SOURCE + "ignore_older_s = 3600\n")
        tail.start()
        tail.wait_for("app", 3)
        assert tail.sql("SELECT status, path FROM collection_task WHERE status = 'skipped'") == [
            ("skipped", str(logs / "app.log.old"))
        ]
        append(logs / "app.log.old", 104, 104)
        tail.wait_for("app", 7)
        tail.stop()
        assert numbers(tail) == [1, 2, 3, 101, 102, 103, 104]


def test_a_last_line_without_an_end_is_final_after_a_quiet_time(tmp_path: Path, logs: Path) -> None:
    """`final_after_s`: emitted once; completed later after all, its row is replaced."""
    (logs / "app.log").write_text("line 000001 of the log\nline 000002 of")
    with daemon(tmp_path) as tail:
        tail.config(SOURCE + "final_after_s = 0.5\n")
        tail.start()
        tail.wait_for("app", 2)
        with (logs / "app.log").open("a") as file:
            file.write(" the log\nline 000003 of the log\n")
        tail.wait_for("app", 3)
        tail.stop()
        assert tail.sql("SELECT line FROM app ORDER BY _offset") == [
            (f"line {number:06d} of the log",) for number in (1, 2, 3)
        ]
        assert "record_completed" in tail.kinds()


def test_names_swapped(tail: Daemon, logs: Path) -> None:
    """Two live files exchange their names: each generation goes on under its new one."""
    append(logs / "app.log.a", 1, 20)
    append(logs / "app.log.b", 101, 120)
    tail.start()
    tail.wait_for("app", 40)
    (logs / "app.log.a").rename(logs / "swap")
    (logs / "app.log.b").rename(logs / "app.log.a")
    (logs / "swap").rename(logs / "app.log.b")
    append(logs / "app.log.a", 121, 125)
    append(logs / "app.log.b", 21, 25)
    tail.wait_for("app", 50)
    tail.stop()
    assert numbers(tail) == [*range(1, 26), *range(101, 126)]
    assert tail.count("collection_task") == 2


def test_a_path_missing_for_a_moment(tail: Daemon, logs: Path) -> None:
    """Moved out of the paths and back: nothing is lost or read again, and nothing is called gone."""
    append(logs / "app.log", 1, 20)
    tail.start()
    tail.wait_for("app", 20)
    (logs / "app.log").rename(logs / "elsewhere")
    append(logs / "elsewhere", 21, 22)
    (logs / "elsewhere").rename(logs / "app.log")
    append(logs / "app.log", 23, 24)
    tail.wait_for("app", 24)
    tail.stop()
    assert numbers(tail) == list(range(1, 25))
    assert {"gone", "lost_bytes"}.isdisjoint(tail.kinds())


def test_a_link_is_not_followed_unless_asked_to(tmp_path: Path, logs: Path) -> None:
    """Re-pointed, a followed link leads to a new generation; the old target is read to its end first."""
    targets = tmp_path / "targets"
    targets.mkdir()
    append(targets / "one", 1, 10)
    append(targets / "two", 11, 20)
    (logs / "app.log").symlink_to(targets / "one")
    with daemon(tmp_path) as tail:
        tail.config(SOURCE)
        tail.start()
        wait_until(lambda: "follow_symlinks = true" in tail.said())
        assert tail.signal(signal.SIGTERM) == 0
        tail.config(SOURCE + "follow_symlinks = true\n")
        tail.start()
        tail.wait_for("app", 10)
        (logs / "next").symlink_to(targets / "two")
        (logs / "next").rename(logs / "app.log")
        tail.wait_for("app", 20)
        tail.stop()
        assert numbers(tail) == list(range(1, 21))


def test_a_hard_link_is_the_same_file(tail: Daemon, logs: Path) -> None:
    """Two names of one file are one generation."""
    append(logs / "app.log", 1, 10)
    os.link(logs / "app.log", logs / "app.log.too")
    tail.start()
    tail.wait_for("app", 10)
    append(logs / "app.log", 11, 12)
    tail.wait_for("app", 12)
    tail.stop()
    assert numbers(tail) == list(range(1, 13))


def test_a_name_that_is_not_utf8(tail: Daemon, logs: Path) -> None:
    """Its bytes are percent-encoded in the database, and it is followed like any other."""
    path = os.fsencode(logs) + b"/app.log.\xff%"
    with open(path, "w") as file:
        file.write("line 000001 of the log\n")
    tail.start()
    tail.wait_for("app", 1)
    with open(path, "a") as file:
        file.write("line 000002 of the log\n")
    tail.wait_for("app", 2)
    tail.stop()
    assert tail.sql("SELECT path FROM collection_task") == [(f"{logs}/app.log.%FF%25",)]


def test_a_sparse_hole_after_copytruncate_is_passed_over(tail: Daemon, logs: Path) -> None:
    """A writer without O_APPEND leaves gigabytes of NULs: one visible skip, no row, quickly."""
    with (logs / "app.log").open("w") as file:
        file.writelines(f"line {number:06d} of the log\n" for number in range(1, 11))
        file.flush()
        tail.start()
        tail.wait_for("app", 10)
        shutil.copyfile(logs / "app.log", logs / "app.log.1")
        file.seek(300_000_000)
        os.truncate(logs / "app.log", 0)
        file.write("line 000011 of the log\n")
        file.flush()
        tail.wait_for("app", 11)
    assert tail.kinds().count("skipped") == 1
    tail.stop()
    assert numbers(tail) == list(range(1, 12))
    assert tail.sql("SELECT start_offset, end_offset FROM committed_batch WHERE kind = 'skipped'") == [(0, 300_000_000)]


def pack(path: Path, codec: str) -> Path:
    """Compress a file with the field's own tool, which removes it, and return the new path."""
    if codec == "gz":
        subprocess.run(["gzip", path], check=True)
    else:
        subprocess.run(["zstd", "-q", "--rm", path], check=True)
    return path.with_name(f"{path.name}.{codec}")


@pytest.mark.parametrize("codec", ["gz", "zst"])
def test_compressed_after_rotation_while_it_runs(codec: str, tail: Daemon, logs: Path) -> None:
    """The compressed file is the same generation: nothing is read again."""
    append(logs / "app.log", 1, 500)
    tail.start()
    tail.wait_for("app", 500)
    (logs / "app.log").rename(logs / "app.log.1")
    append(logs / "app.log.1", 501, 510)
    append(logs / "app.log", 511, 520)
    pack(logs / "app.log.1", codec)
    tail.wait_for("app", 520)
    wait_until(lambda: tail.sql(f"SELECT status FROM collection_task WHERE path LIKE '%.{codec}'") == [("succeeded",)])
    tail.stop()
    assert numbers(tail) == list(range(1, 521))
    assert tail.count("collection_task") == 2


@pytest.mark.parametrize("codec", ["gz", "zst"])
def test_compressed_while_stopped_with_unread_lines(codec: str, tail: Daemon, logs: Path) -> None:
    """The rest is read from the compressed file, at the same content offset."""
    append(logs / "app.log", 1, 500)
    tail.start()
    tail.wait_for("app", 500)
    tail.kill()
    append(logs / "app.log", 501, 900)
    (logs / "app.log").rename(logs / "app.log.1")
    pack(logs / "app.log.1", codec)
    append(logs / "app.log", 901, 910)
    tail.start()
    tail.wait_for("app", 910)
    wait_until(lambda: "compressed" in tail.kinds())
    tail.stop()
    assert numbers(tail) == list(range(1, 911))
    assert {"lost_bytes", "gone"}.isdisjoint(tail.kinds())
    assert tail.sql("SELECT count(DISTINCT _task_id) FROM app") == [(2,)]


def test_plain_and_compressed_side_by_side(tail: Daemon, logs: Path) -> None:
    """Both exist for a while: one generation; the plain one goes, and nothing changes."""
    append(logs / "app.log.1", 1, 500)
    tail.start()
    tail.wait_for("app", 500)
    subprocess.run(["gzip", "-k", logs / "app.log.1"], check=True)
    wait_until(lambda: "duplicate" in tail.kinds())
    (logs / "app.log.1").unlink()
    append(logs / "app.log", 501, 510)
    tail.wait_for("app", 510)
    tail.stop()
    tail.start()
    append(logs / "app.log", 511, 512)
    tail.wait_for("app", 512)
    tail.stop()
    assert numbers(tail) == list(range(1, 513))
    assert "lost_bytes" not in tail.kinds()


def test_a_growing_compressed_log_is_followed(tail: Daemon, logs: Path) -> None:
    """Members are appended to a .gz; a member that is not whole waits for its end."""
    with (logs / "app.log.gz").open("ab") as file:

        def member(first: int, last: int) -> bytes:
            return gzip.compress(b"".join(b"line %06d of the log\n" % number for number in range(first, last + 1)))

        file.write(member(1, 100))
        file.flush()
        tail.start()
        tail.wait_for("app", 100)
        whole = member(101, 200)
        file.write(whole[:50])
        file.flush()
        file.write(whole[50:] + member(201, 210))
        file.flush()
        tail.wait_for("app", 210)
    tail.kill()
    with (logs / "app.log.gz").open("ab") as file:
        file.write(member(211, 220))
    tail.start()
    tail.wait_for("app", 220)
    tail.stop()
    assert numbers(tail) == list(range(1, 221))


def test_a_worker_that_dies_is_replaced(tmp_path: Path, logs: Path) -> None:
    """What it held is taken over at once, and the daemon goes on."""
    append(logs / "app.log", 1, 10)
    append(logs / "app.log.b", 101, 110)
    with daemon(tmp_path, workers=2, idle_release_s=30) as tail:
        tail.config(SOURCE)
        tail.start()
        tail.wait_for("app", 20)
        ((pid,),) = tail.sql(
            "SELECT pid FROM worker WHERE owner_id = (SELECT owner_id FROM collection_task WHERE path LIKE '%app.log')"
        )
        os.kill(pid, signal.SIGKILL)
        append(logs / "app.log", 11, 20)
        append(logs / "app.log.b", 111, 120)
        tail.wait_for("app", 40)
        assert "takeover" in tail.kinds()
        tail.stop()
        assert numbers(tail) == [*range(1, 21), *range(101, 121)]
