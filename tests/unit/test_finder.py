"""One scan, on a fake file system: what is found, ignored, missing, special."""

from __future__ import annotations

from pathlib import Path

from pyfakefs.fake_filesystem import FakeFilesystem

from filecollect.files.finder import Scan, find


def names(scan: Scan) -> list[str]:
    """Return the found paths below /data."""
    return [one.path.removeprefix("/data/") for one in scan.files]


def test_a_directory_means_all_below_it_but_dotfiles_and_temporaries(fs: FakeFilesystem) -> None:
    """What is being written or hidden is counted, not read."""
    for name in ("a.csv", "deep/er/b.jsonl", ".hidden", "c.csv.tmp", "d.part", "e.crdownload", ".~lock", "x.swp"):
        fs.create_file(f"/data/{name}", contents="1\n")

    scan = find(["/data"], base="/")

    assert names(scan) == ["a.csv", "deep/er/b.jsonl"]
    assert scan.ignored == 6


def test_globs_cross_directories_only_with_two_stars(fs: FakeFilesystem) -> None:
    """`*` stays in its directory, `**` does not, `[..]` and `?` match one sign."""
    for name in ("a.csv", "b.csv", "sub/a.csv", "sub/deep/c1.csv", "sub/deep/c2.csv", "sub/deep/c3.log"):
        fs.create_file(f"/data/{name}", contents="1\n")

    assert names(find(["*.csv"], base="/data")) == ["a.csv", "b.csv"]
    assert names(find(["**/*.csv"], base="/data")) == [
        "a.csv",
        "b.csv",
        "sub/a.csv",
        "sub/deep/c1.csv",
        "sub/deep/c2.csv",
    ]
    assert names(find(["sub/**/c[12].csv"], base="/data")) == ["sub/deep/c1.csv", "sub/deep/c2.csv"]
    assert names(find(["sub/deep/c?.log"], base="/data")) == ["sub/deep/c3.log"]


def test_excludes_without_a_slash_are_names_and_with_one_are_paths(fs: FakeFilesystem) -> None:
    """A name at any depth, or a path from the base."""
    for name in ("a.csv", "skip.csv", "sub/skip.csv", "sub/b.csv", "old/c.csv"):
        fs.create_file(f"/data/{name}", contents="1\n")

    assert names(find(["/data"], base="/data", exclude=["skip*"])) == ["a.csv", "old/c.csv", "sub/b.csv"]
    assert names(find(["/data"], base="/data", exclude=["old/*.csv", "sub/skip.csv"])) == [
        "a.csv",
        "skip.csv",
        "sub/b.csv",
    ]


def test_what_must_never_be_read_is_not_even_when_named(fs: FakeFilesystem) -> None:
    """The database inside the collected directory."""
    for name in ("o.db", "o.db-wal", "a.csv"):
        fs.create_file(f"/data/{name}", contents="1\n")
    never = {"/data/o.db", "/data/o.db-wal"}

    assert names(find(["/data", "/data/o.db"], base="/", never=never)) == ["a.csv"]


def test_missing_files_and_globs_without_matches_are_told_apart(fs: FakeFilesystem) -> None:
    """A typing error is not an empty directory."""
    fs.create_dir("/data")
    scan = find(["nope.csv", "*.csv"], base="/data")
    assert (scan.missing, scan.unmatched, scan.files) == (["nope.csv"], ["*.csv"], [])


def test_a_named_file_is_read_whatever_its_name(fs: FakeFilesystem) -> None:
    """The ignore list is for directories; a name with glob signs is literal when it exists."""
    for name in (".hidden.csv", "a[1].csv", "x.tmp"):
        fs.create_file(f"/data/{name}", contents="1\n")

    scan = find([".hidden.csv", "a[1].csv", "x.tmp"], base="/data")

    assert names(scan) == [".hidden.csv", "a[1].csv", "x.tmp"]
    assert all(one.explicit for one in scan.files)


def test_a_file_found_twice_is_listed_once(fs: FakeFilesystem) -> None:
    """Through a directory, a glob and its name."""
    fs.create_file("/data/a.csv", contents="1\n")
    assert names(find(["/data", "/data/*.csv", "/data/a.csv"], base="/")) == ["a.csv"]


def test_links_are_not_followed_unless_asked_to(tmp_path: Path) -> None:
    """A link to a file is special; a link to a directory is not entered."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.csv").write_text("1\n")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link.csv").symlink_to(tmp_path / "real" / "a.csv")
    (tmp_path / "in" / "dir").symlink_to(tmp_path / "real")

    plain = find([str(tmp_path / "in")], base="/")
    followed = find([str(tmp_path / "in")], base="/", follow_symlinks=True)

    assert plain.files == []
    assert sorted(Path(path).name for path, _ in plain.special) == ["dir", "link.csv"]
    assert sorted(Path(one.path).name for one in followed.files) == ["a.csv", "link.csv"]
