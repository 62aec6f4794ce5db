"""One scan, in its corners: odd patterns, other names of what is never read, links, vanishing files."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from pyfakefs.fake_filesystem import FakeFilesystem

from filecollect.files.finder import Scan, find


def names(scan: Scan, base: str | Path = "/data") -> list[str]:
    """Return the found paths below a directory."""
    return [one.path.removeprefix(f"{base}/") for one in scan.files]


def fill(fs: FakeFilesystem, *paths: str) -> None:
    """Make files below /data."""
    for path in paths:
        fs.create_file(f"/data/{path}", contents="1\n")


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("[ab].csv", ["a.csv", "b.csv"]),
        ("[!a].csv", ["[.csv", "b.csv"]),
        ("[a-b].csv", ["a.csv", "b.csv"]),
        ("[b-a].csv", []),
        ("[!]*", []),
        ("[", []),
        ("[[].csv", ["[.csv"]),
        ("s[!a]b/*.csv", ["sub/a.csv"]),
        ("sub[!x]a.csv", []),
        ("*/a.csv", ["sub/a.csv"]),
        ("**", ["[.csv", "a.csv", "b.csv", "sub/a.csv", "sub/deep/c.csv"]),
        ("sub/**", ["sub/a.csv", "sub/deep/c.csv"]),
        ("**/deep/**/*.csv", ["sub/deep/c.csv"]),
        ("**/**/c.csv", ["sub/deep/c.csv"]),
        ("*/../a.csv", ["a.csv"]),
        ("sub/../?.csv", ["[.csv", "a.csv", "b.csv"]),
        ("./s*//deep/./c.csv", ["sub/deep/c.csv"]),
        ("/data/*.csv", ["[.csv", "a.csv", "b.csv"]),
        ("/d*/a.csv", ["a.csv"]),
        ("*.CSV", []),
        ("sub*", []),
    ],
)
def test_a_glob_means_what_it_means_in_a_shell(fs: FakeFilesystem, pattern: str, expected: list[str]) -> None:
    """Bad ones match nothing; none raises; a class never stands for a slash."""
    fill(fs, "a.csv", "b.csv", "[.csv", "sub/a.csv", "sub/deep/c.csv")
    scan = find([pattern], base="/data")
    assert names(scan) == expected
    assert scan.unmatched == ([] if expected else [pattern])
    assert scan.missing == []


def test_signs_stand_for_no_leading_dot_but_a_dot_does(fs: FakeFilesystem) -> None:
    """`.env*` asks for dotfiles, `*` does not, directories alike."""
    fill(fs, ".env1", "a.csv", ".git/b.csv", "x/.git/c.csv")
    assert names(find([".env*"], base="/data")) == [".env1"]
    assert names(find(["*"], base="/data")) == ["a.csv"]
    assert names(find(["**/*.csv"], base="/data")) == ["a.csv"]
    assert names(find([".g*/*.csv"], base="/data")) == [".git/b.csv"]
    assert names(find(["*/.git/*.csv"], base="/data")) == ["x/.git/c.csv"]
    assert names(find([".git"], base="/data")) == [".git/b.csv"]


def test_a_base_with_glob_signs_is_only_a_directory(fs: FakeFilesystem) -> None:
    """The working directory may be called anything."""
    fill(fs, "[x]*/a.csv", "[x]*/b.csv", "x/a.csv")
    assert names(find(["*.csv"], base="/data/[x]*")) == ["[x]*/a.csv", "[x]*/b.csv"]
    assert names(find(["."], base="/data/[x]*", exclude=["./b*"])) == ["[x]*/a.csv"]


def test_only_directories_that_can_match_are_looked_into(fs: FakeFilesystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """`*.csv` in a home directory does not walk the whole of it."""
    fill(fs, "a.csv", "node_modules/x/y.csv", "logs/app/z.csv")
    looked: list[str] = []
    scandir = os.scandir

    def noted(path: str) -> object:
        looked.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", noted)
    find(["*.csv"], base="/data")
    assert looked == ["/data"]
    looked.clear()
    find(["l*/a*/*.csv"], base="/data")
    assert looked == ["/data", "/data/logs", "/data/logs/app"]


def test_excludes_close_directories_and_need_no_glob(fs: FakeFilesystem) -> None:
    """A name closes a directory at any depth, a path one place; a named file is taken all the same."""
    fill(fs, "a.csv", "old/b.csv", "x/old/c.csv", "x/y/d.csv", "x/.hide.csv")
    assert names(find(["."], base="/data", exclude=["old"])) == ["a.csv", "x/y/d.csv"]
    assert names(find(["."], base="/data", exclude=["old/"])) == ["a.csv", "x/old/c.csv", "x/y/d.csv"]
    assert names(find(["."], base="/data", exclude=["/data/x/**"])) == ["a.csv", "old/b.csv"]
    assert names(find(["."], base="/data", exclude=["**/y/*.csv", "[z-a]"])) == ["a.csv", "old/b.csv", "x/old/c.csv"]
    assert names(find(["a.csv"], base="/data", exclude=["*.csv"])) == ["a.csv"]


def test_what_is_ignored_is_counted_once(fs: FakeFilesystem) -> None:
    """Through however many patterns; a file that is also named is read, not ignored."""
    fill(fs, "a.tmp", ".b", "c.csv", "d.csv")
    scan = find([".", "**", "a.tmp"], base="/data", exclude=["d.*"])
    assert names(scan) == ["a.tmp", "c.csv"]
    assert scan.ignored == 2  # .b and d.csv


def test_a_never_read_file_has_no_other_name(tmp_path: Path) -> None:
    """A linked directory, a hard link, a link that is followed: the database stays unread."""
    (tmp_path / "real").mkdir()
    database = tmp_path / "real" / "o.db"
    database.write_text("x")
    (tmp_path / "real" / "a.csv").write_text("1\n")
    (tmp_path / "alias").symlink_to(tmp_path / "real")
    os.link(database, tmp_path / "real" / "hard.csv")
    (tmp_path / "real" / "soft.csv").symlink_to(database)
    never = frozenset({str(database), str(tmp_path / "real" / "o.db-wal")})

    assert names(find(["alias"], base=str(tmp_path), never=never), tmp_path) == ["alias/a.csv"]
    assert names(find(["alias/o.db", "alias/hard.csv"], base=str(tmp_path), never=never), tmp_path) == []
    followed = find(["real"], base=str(tmp_path), never=never, follow_symlinks=True)
    assert names(followed, tmp_path) == ["real/a.csv"]
    assert followed.ignored == 3


def test_a_never_read_directory_is_not_entered(fs: FakeFilesystem) -> None:
    """An archive inside the collected directory; told by a set or by a function."""
    fill(fs, "a.csv", "done/b.csv")
    assert names(find(["/data"], base="/", never={"/data/done"})) == ["a.csv"]
    assert names(find(["/data/done"], base="/", never={"/data/done"})) == []
    assert names(find(["/data"], base="/", never=lambda path: path.endswith("done"))) == ["a.csv"]


def test_a_loop_of_links_ends_and_every_file_has_its_own_name(tmp_path: Path) -> None:
    """Links to the top, to each other, and to a sibling that sorts later."""
    for name in ("r/z", "r/b"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.csv").write_text("1\n")
    (tmp_path / "r" / "loop").symlink_to(tmp_path / "r")
    (tmp_path / "r" / "a").symlink_to(tmp_path / "r" / "z")
    (tmp_path / "r" / "b" / "up").symlink_to("..")
    (tmp_path / "r" / "nowhere").symlink_to("gone")

    scan = find(["r"], base=str(tmp_path), follow_symlinks=True)

    assert names(scan, tmp_path) == ["r/b/x.csv", "r/z/x.csv"]
    assert scan.special == [(str(tmp_path / "r" / "nowhere"), "a symbolic link that leads nowhere")]
    assert scan.problems == []


def test_a_named_link_to_a_directory_is_entered(tmp_path: Path) -> None:
    """`current` is a place that the user pointed at; its paths keep that name."""
    (tmp_path / "v1").mkdir()
    (tmp_path / "v1" / "a.csv").write_text("1\n")
    (tmp_path / "current").symlink_to("v1")
    assert names(find(["current"], base=str(tmp_path)), tmp_path) == ["current/a.csv"]
    assert names(find(["current/*.csv"], base=str(tmp_path)), tmp_path) == ["current/a.csv"]


def test_special_files_are_told_with_the_reason(tmp_path: Path) -> None:
    """A FIFO in the directory or named."""
    os.mkfifo(tmp_path / "fifo")
    for pattern in (".", "fifo"):
        scan = find([pattern], base=str(tmp_path))
        assert scan.special == [(str(tmp_path / "fifo"), "not a regular file (FIFO, socket or device)")]
        assert scan.files == []


def test_a_place_that_cannot_be_listed_stops_nothing(fs: FakeFilesystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """Permission and I/O errors are told apart, once, and the rest is found."""
    fill(fs, "a.csv", "secret/b.csv", "broken/c.csv", "z/d.csv")
    scandir = os.scandir

    def failing(path: str) -> object:
        if path == "/data/secret":
            raise PermissionError(13, "Permission denied")
        if path == "/data/broken":
            raise OSError(5, "Input/output error")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", failing)
    scan = find([".", "**/*.csv"], base="/data")

    assert names(scan) == ["a.csv", "z/d.csv"]
    assert [(one.path, one.message, one.kind) for one in scan.problems] == [
        ("/data/broken", "Input/output error", "unreadable"),
        ("/data/secret", "Permission denied", "permission_denied"),
    ]


def test_what_vanishes_during_the_scan_is_not_there(fs: FakeFilesystem, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory removed between listing and entering is no problem."""
    fill(fs, "a.csv", "gone/b.csv")
    scandir = os.scandir

    def vanishing(path: str) -> object:
        if path == "/data/gone":
            raise FileNotFoundError(2, "No such file or directory")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", vanishing)
    scan = find(["."], base="/data")
    assert (names(scan), scan.problems) == (["a.csv"], [])


@pytest.mark.parametrize("pattern", ["no.csv", "a.csv/b", "a\0b", "a\0*", "x" * 300])
def test_a_path_that_cannot_be_there_is_missing(fs: FakeFilesystem, pattern: str) -> None:
    """Whatever makes it impossible."""
    fill(fs, "a.csv")
    scan = find([pattern], base="/data")
    assert (scan.missing, scan.unmatched, scan.problems, scan.files) == ([pattern], [], [], [])


def test_a_glob_longer_than_a_file_name_is_a_glob(tmp_path: Path) -> None:
    """Looking for it literally fails, which says nothing."""
    (tmp_path / "a").write_text("1")
    pattern = "[a" + "b" * 300 + "]"
    assert names(find([pattern], base=str(tmp_path)), tmp_path) == ["a"]


def test_names_that_are_not_utf8_are_found(tmp_path: Path) -> None:
    """By directory, glob and name; with a line end in the name too."""
    for raw in (b"caf\xe9.csv", b"a\nb.csv"):
        (tmp_path / os.fsdecode(raw)).write_bytes(b"1\n")
    expected = ["a\nb.csv", os.fsdecode(b"caf\xe9.csv")]
    for patterns in ([str(tmp_path)], ["*.csv"], expected, ["a?b.csv", "caf?.csv"]):
        assert names(find(patterns, base=str(tmp_path)), tmp_path) == expected


def test_the_facts_are_those_of_the_file(tmp_path: Path) -> None:
    """Size, inode and time come from the scan; explicit wins over found."""
    (tmp_path / "a.csv").write_bytes(b"12345")
    os.utime(tmp_path / "a.csv", ns=(1, 1_700_000_000_123_456_789))
    (one,) = find([".", "a.csv", "*.csv"], base=str(tmp_path)).files
    stat = os.stat(tmp_path / "a.csv")
    assert (one.stat.size, one.stat.mtime_ns, one.stat.inode, one.stat.device, one.explicit) == (
        5,
        1_700_000_000_123_456_789,
        stat.st_ino,
        stat.st_dev,
        True,
    )


def test_ten_thousand_files_are_listed_in_a_moment(tmp_path: Path) -> None:
    """Far under half a second of processor time, whatever else the machine does."""
    for directory in range(20):
        (tmp_path / f"d{directory}").mkdir()
        for number in range(500):
            os.close(os.open(tmp_path / f"d{directory}" / f"{number}.csv", os.O_CREAT | os.O_WRONLY))
    started = time.process_time()
    scan = find(["**/*.csv"], base=str(tmp_path), exclude=["*.bak", "d99/*"], never=frozenset({"/x/o.db"}))
    assert time.process_time() - started < 0.5
    assert len(scan.files) == 10_000
