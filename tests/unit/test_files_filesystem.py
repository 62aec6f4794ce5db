"""Opening, reading and asking of files, on the real and on a fake file system."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from pyfakefs.fake_filesystem import FakeFilesystem

from filecollect.errors import FileUnavailable, Retryable
from filecollect.files.filesystem import FileMissing, LocalFileSystem, SpecialFile

FILES = LocalFileSystem()


def check_reads(path: str) -> None:
    """Assert what `read_at` gives of a file that holds 0123456789."""
    with FILES.open(path) as handle:
        assert handle.read_at(0, 10) == b"0123456789"
        assert handle.read_at(3, 4) == b"3456"
        assert handle.read_at(8, 100) == b"89"
        assert handle.read_at(10, 1) == b""
        assert handle.read_at(50, 1) == b""
        assert handle.read_at(0, 0) == b""
        assert handle.stat().size == 10
        assert handle.stat() == FILES.stat(path) == FILES.lstat(path)
        assert handle.path == path


def test_reads_are_exact_on_a_real_file(tmp_path: Path) -> None:
    """Fewer bytes only at the end."""
    (tmp_path / "a").write_bytes(b"0123456789")
    check_reads(str(tmp_path / "a"))


def test_reads_are_exact_on_a_fake_file(fs: FakeFilesystem) -> None:
    """The same on pyfakefs, so tests may use it."""
    fs.create_file("/d/a", contents=b"0123456789")
    check_reads("/d/a")


def test_short_reads_are_continued(tmp_path: Path) -> None:
    """A network file system may give less than was asked for."""
    (tmp_path / "a").write_bytes(b"0123456789")

    class Slow:
        """Gives three bytes at a time."""

        def __init__(self) -> None:
            self.file = open(tmp_path / "a", "rb", buffering=0)  # noqa: SIM115
            self.seek, self.close = self.file.seek, self.file.close

        def read(self, length: int) -> bytes:
            """Return at most three bytes."""
            return self.file.read(min(length, 3)) or b""

    with FILES.open(str(tmp_path / "a")) as handle:
        handle._file.close()
        handle._file = Slow()  # type: ignore[assignment]
        assert handle.read_at(1, 8) == b"12345678"
        assert handle.read_at(7, 8) == b"789"


def test_names_may_be_bytes_and_need_not_be_utf8(tmp_path: Path) -> None:
    """The handle's path is text that leads back to the bytes."""
    name = os.fsencode(tmp_path) + b"/caf\xe9.csv"
    Path(os.fsdecode(name)).write_bytes(b"1")
    with FILES.open(name) as handle:
        assert handle.read_at(0, 9) == b"1"
        assert os.fsencode(handle.path) == name
    assert FILES.stat(name).size == 1


def test_an_open_file_is_read_on_whatever_becomes_of_its_path(tmp_path: Path) -> None:
    """Deleted and replaced: the handle stays with the old file."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with FILES.open(str(path)) as handle:
        before = handle.stat()
        (tmp_path / "b").write_bytes(b"newer")
        (tmp_path / "b").rename(path)
        assert handle.read_at(0, 9) == b"old"
        assert handle.stat().inode == before.inode != FILES.stat(str(path)).inode


def test_a_missing_file_is_told_from_one_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing is FileMissing; a file as a directory is missing too; both may be tried again."""
    (tmp_path / "file").write_bytes(b"")
    for path in (tmp_path / "no", tmp_path / "file" / "no"):
        for ask in (FILES.open, FILES.stat, FILES.lstat):
            with pytest.raises(FileMissing) as caught:
                ask(str(path))
            assert caught.value.path == str(path)
            assert isinstance(caught.value, Retryable)
    with pytest.raises(FileMissing):
        list(FILES.scandir(str(tmp_path / "no")))


def test_an_error_carries_the_path_and_the_systems_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """EACCES and EIO are no missing files."""
    path = tmp_path / "a"
    path.write_bytes(b"1")

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    with FILES.open(str(path)) as handle:
        monkeypatch.setattr(os, "open", refuse)
        with pytest.raises(FileUnavailable) as caught:
            FILES.open(str(path))
        assert (str(caught.value), type(caught.value)) == (f"{path}: Permission denied", FileUnavailable)
        monkeypatch.undo()
        with pytest.raises(FileUnavailable, match="Invalid argument"):
            handle.read_at(-1, 1)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    """Directories, FIFOs, sockets and devices are refused at once; no FIFO blocks."""
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        old = os.getcwd()
        os.chdir(tmp_path)
        try:
            server.bind("sock")
        finally:
            os.chdir(old)
        for path, why in (
            (tmp_path, "a directory"),
            (tmp_path / "fifo", "not a regular file"),
            (tmp_path / "sock", "not a regular file"),
            (Path("/dev/null"), "not a regular file"),
        ):
            with pytest.raises(SpecialFile, match=why):
                FILES.open(str(path))


def test_links_are_followed_only_when_asked_to(tmp_path: Path) -> None:
    """At the last component; a directory on the way may be a link."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_bytes(b"1")
    (tmp_path / "link").symlink_to(tmp_path / "real" / "a")
    (tmp_path / "dir").symlink_to(tmp_path / "real")

    with pytest.raises(SpecialFile, match="symbolic link"):
        FILES.open(str(tmp_path / "link"))
    with FILES.open(str(tmp_path / "dir" / "a")) as handle:
        assert handle.read_at(0, 1) == b"1"
    with LocalFileSystem(follow_symlinks=True).open(str(tmp_path / "link")) as handle:
        assert handle.read_at(0, 1) == b"1"
    assert FILES.lstat(str(tmp_path / "link")).is_symlink
    assert FILES.stat(str(tmp_path / "link")).is_regular


def test_a_file_that_becomes_a_link_between_look_and_open_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was looked at need not be what is opened."""
    (tmp_path / "real").write_bytes(b"1")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setattr(os, "lstat", os.stat)
    monkeypatch.setattr(os.path, "islink", lambda _: True)
    with pytest.raises(SpecialFile, match="symbolic link"):
        FILES.open(str(tmp_path / "link"))


def test_nothing_stays_open(tmp_path: Path) -> None:
    """Neither after use nor after a refusal."""
    (tmp_path / "a").write_bytes(b"1")
    before = len(os.listdir("/proc/self/fd"))
    with FILES.open(str(tmp_path / "a")):
        assert len(os.listdir("/proc/self/fd")) == before + 1
    with pytest.raises(SpecialFile):
        FILES.open(str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before
