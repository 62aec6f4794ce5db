"""What goes wrong with followed files in real life, stepped by hand: the right rows, and an event that says why."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.tailing import Tail, tailing

SOURCE = """
[worker]
workers = 1
idle_release_s = 3
rescan_s = 2
[source.app]
paths = ["logs/app.log*"]
format = "lines"
settle_s = 1
"""
BANNER = "".join(f"# the banner that every start writes, line {number:03d}\n" for number in range(60))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The live log."""
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs" / "app.log"


def lines(first: int, last: int) -> str:
    """Return numbered lines."""
    return "".join(f"line {number:06d} of the log\n" for number in range(first, last + 1))


def append(path: Path, text: str) -> None:
    """Append to a file."""
    with path.open("a") as file:
        file.write(text)


def changed(tail: Tail, path: Path) -> None:
    """Tell the daemon that a file was modified."""
    tail.watch.changed.add(str(path))


def rows(tail: Tail) -> list[str]:
    """Return all lines in order of their generation and place."""
    return [row[0] for row in tail.sql("SELECT line FROM app ORDER BY _task_id, _offset")]


def kinds(tail: Tail) -> list[str]:
    """Return the kinds of events so far."""
    return [row[0] for row in tail.sql("SELECT kind FROM file_event ORDER BY id")]


def collected(tail: Tail, count: int) -> None:
    """Step until so many rows are there, and a while longer: no more may come."""
    tail.until(lambda: tail.count("app") >= count, seconds=0.3)
    for _ in range(10):
        tail.step(1)
    assert tail.count("app") == count


def test_rewritten_past_the_old_offset_under_the_same_banner(tmp_path: Path, log: Path) -> None:
    """Both generations begin with the same 3 KB; the bytes at the offset tell them apart."""
    log.write_text(BANNER + lines(1, 20))
    with tailing(tmp_path, SOURCE) as tail:
        collected(tail, 80)
        log.write_text(BANNER + lines(101, 140))
        changed(tail, log)
        collected(tail, 80 + 100)
        assert rows(tail)[80:] == (BANNER + lines(101, 140)).splitlines()
        assert {"replaced", "truncated"} & set(kinds(tail))


@pytest.mark.parametrize("later", [lines(101, 105), lines(101, 160)], ids=["shorter", "grown past the old offset"])
def test_truncated_while_stopped(later: str, tmp_path: Path, log: Path) -> None:
    """A new generation both times, stored with its first rows: a second start reads nothing again."""
    log.write_text(lines(1, 50))
    with tailing(tmp_path, SOURCE) as tail:
        collected(tail, 50)
    log.write_text(later)
    count = 50 + later.count("\n")
    with tailing(tmp_path, SOURCE) as tail:
        collected(tail, count)
    with tailing(tmp_path, SOURCE) as tail:
        collected(tail, count)
        assert tail.count("collection_task") == 2


def test_renamed_while_stopped_without_a_successor(tmp_path: Path, log: Path) -> None:
    """The same generation under its new name; nothing is read again."""
    log.write_text(lines(1, 50))
    with tailing(tmp_path, SOURCE) as tail:
        collected(tail, 50)
    log.rename(log.with_name("app.log.old"))
    append(log.with_name("app.log.old"), lines(51, 52))
    with tailing(tmp_path, SOURCE) as tail:
        collected(tail, 52)
        assert (tail.count("collection_task"), "renamed" in kinds(tail)) == (1, True)


def test_another_device_number_is_only_a_hint(tmp_path: Path, log: Path) -> None:
    """After a reboot volumes have other numbers; the content is what counts."""
    log.write_text(lines(1, 50))
    with tailing(tmp_path, SOURCE) as tail:
        collected(tail, 50)
        tail.until(lambda: not tail.crew.tailer.held, seconds=1)
        with tail.engine.connect() as conn:
            conn.exec_driver_sql("UPDATE collection_task SET device = device + 7, inode = inode + 7")
            conn.commit()
        append(log, lines(51, 52))
        changed(tail, log)
        collected(tail, 52)
        assert tail.count("collection_task") == 1


def test_without_events_everything_is_looked_at_every_second(tmp_path: Path, log: Path) -> None:
    """Said once; lines in a dormant, a held and a new file arrive all the same."""
    log.write_text(lines(1, 5))
    with tailing(tmp_path, SOURCE) as tail:
        tail.watch.complete = False
        tail.watch.refused = "inotify watch limit reached"
        collected(tail, 5)
        tail.until(lambda: not tail.crew.tailer.held, seconds=1)
        append(log, lines(6, 7))
        collected(tail, 7)
        append(log, lines(8, 9))
        log.with_name("app.log.new").write_text("another file\n")
        collected(tail, 10)
        assert sum("watch limit" in sentence for sentence in tail.said) == 1


def test_truncated_and_rewritten_again_and_again(tmp_path: Path, log: Path) -> None:
    """One owner for each generation: every content that was seen is there once."""
    total = 0
    with tailing(tmp_path, SOURCE) as tail:
        for turn in range(12):
            written = [f"turn {turn:02d}, line {number:02d} of some length\n" for number in range(5 + turn)]
            log.write_text("".join(written))
            changed(tail, log)
            total += len(written)
            tail.until(lambda wanted=total: tail.count("app") == wanted, seconds=0.3)  # type: ignore[misc]
        found = rows(tail)
        assert sorted(found) == sorted(
            f"turn {turn:02d}, line {number:02d} of some length" for turn in range(12) for number in range(5 + turn)
        )


def test_a_copy_shorter_than_our_position_is_covered(tmp_path: Path, log: Path) -> None:
    """Lines were read that came after the copy was made: it has nothing new, in the middle of a ledger span too."""
    log.write_text(lines(1, 50))
    with tailing(tmp_path, SOURCE) as tail:
        collected(tail, 50)
        append(log, lines(51, 60))
        changed(tail, log)
        collected(tail, 60)
        log.with_name("app.log.1").write_text(lines(1, 55))
        log.write_text(lines(61, 63))
        changed(tail, log)
        tail.watch.structure = True
        collected(tail, 63)
        assert "already_covered" in kinds(tail)
        assert rows(tail) == lines(1, 63).splitlines()


def test_a_copy_in_the_making_waits(tmp_path: Path, log: Path) -> None:
    """A growing copy of a live log is undecided, then a duplicate; the truncated log's lines come once."""
    log.write_text(lines(1, 100))
    with tailing(tmp_path, SOURCE) as tail:
        collected(tail, 100)
        copy = log.with_name("app.log.1")
        copy.write_text(lines(1, 40))
        tail.watch.structure = True
        tail.step(0.3)
        append(copy, lines(41, 100))
        tail.watch.structure = True
        tail.step(0.3)
        os.truncate(log, 0)
        append(log, lines(101, 102))
        changed(tail, log)
        collected(tail, 102)
        assert rows(tail) == lines(1, 102).splitlines()


def test_a_nul_tail_after_a_power_cut_is_not_yet_written(tmp_path: Path, log: Path) -> None:
    """Cut back and filled with NULs: goes on behind the last record that is still there, then reads what follows."""
    log.write_text(lines(1, 50))
    with tailing(tmp_path, SOURCE) as tail:
        collected(tail, 50)
    with tailing(tmp_path, SOURCE) as tail:
        with tail.engine.connect() as conn:
            conn.exec_driver_sql("UPDATE worker SET boot_id = 'another boot'")
            conn.commit()
        log.write_bytes(lines(1, 30).encode() + bytes(300))
        changed(tail, log)
        collected(tail, 50)
        append(log, lines(101, 103))
        changed(tail, log)
        collected(tail, 53)
        assert "rolled_back" in kinds(tail)
        assert rows(tail) == (lines(1, 50) + lines(101, 103)).splitlines()


def test_a_missing_root_is_no_deletion(tmp_path: Path, log: Path) -> None:
    """A volume that is not mounted: nothing is gone, and all goes on at the same offset when it is back."""
    log.write_text(lines(1, 50) + "half a line")
    with tailing(tmp_path, SOURCE) as tail:
        collected(tail, 50)
        tail.until(lambda: not tail.crew.tailer.held, seconds=1)
        shutil.move(tmp_path / "logs", tmp_path / "unmounted")
        tail.watch.structure = True
        for _ in range(10):
            tail.step(2)
        assert {"gone", "lost_bytes"}.isdisjoint(kinds(tail))
        shutil.move(tmp_path / "unmounted", tmp_path / "logs")
        append(log, " ends\n")
        tail.watch.structure = True
        collected(tail, 51)


def test_a_deleted_file_with_unread_bytes_is_gone_and_may_come_back(tmp_path: Path, log: Path) -> None:
    """`gone` with its lost bytes; back again, it goes on at its offset and the loss is taken back."""
    log.write_text(lines(1, 50) + "half a line")
    with tailing(tmp_path, SOURCE) as tail:
        collected(tail, 50)
        tail.until(lambda: not tail.crew.tailer.held, seconds=1)
        log.rename(tmp_path / "aside")
        tail.watch.structure = True
        tail.until(lambda: "gone" in kinds(tail), seconds=1)
        assert tail.sql("SELECT status FROM collection_task") == [("gone",)]
        (tmp_path / "aside").rename(log)
        append(log, " ends\n")
        tail.watch.structure = True
        collected(tail, 51)
        lost = tail.sql("SELECT json_extract(detail, '$.bytes') FROM file_event WHERE kind = 'lost_bytes'")
        assert [row[0] for row in lost] == [11, -11]
