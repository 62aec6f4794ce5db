"""The file-system seam: open, read at an offset, stat, list.

Every operating-system error becomes FileUnavailable with the path; a missing file is a FileMissing.
Files are opened without following a link at the last component (unless asked to), without blocking on
FIFOs, and only regular ones are accepted: looked at before, because opening a device can act on it,
and again on the open file, because the path may be another one by then.
Reads seek first: a handle is used by one thread.
"""

from __future__ import annotations

import errno
import os
import stat as st
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, Self

from filecollect.errors import FileUnavailable


class FileMissing(FileUnavailable):
    """There is no such file now."""

    code = "file_missing"


class SpecialFile(FileUnavailable):
    """The path is a link, directory, FIFO, socket or device."""

    code = "special_file"


@dataclass(frozen=True, slots=True)
class FileStat:
    """What the file system says of a file: sizes in bytes, times in nanoseconds."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    is_regular: bool = True
    is_symlink: bool = False
    ctime_ns: int = 0
    links: int = 1
    is_directory: bool = False

    @property
    def changed_ns(self) -> int:
        """Return when the file was last changed in any way; a tool may set mtime back, but not ctime."""
        return max(self.mtime_ns, self.ctime_ns)

    @classmethod
    def of(cls, result: os.stat_result) -> FileStat:
        """Take over a stat result."""
        return cls(
            result.st_dev,
            result.st_ino,
            result.st_size,
            result.st_mtime_ns,
            st.S_ISREG(result.st_mode),
            st.S_ISLNK(result.st_mode),
            result.st_ctime_ns,
            result.st_nlink,
            st.S_ISDIR(result.st_mode),
        )


def unavailable(path: str, problem: OSError) -> FileUnavailable:
    """Return an operating-system error as ours."""
    said = problem.strerror or str(problem)
    if isinstance(problem, FileNotFoundError | NotADirectoryError) or problem.errno == errno.ENAMETOOLONG:
        return FileMissing(said, path=path)
    return FileUnavailable(said, path=path)


def _enter(root: str, path: str) -> tuple[int, str]:
    """Return a descriptor of the directory of `path`, reached from `root` without any link, and the last name.

    The user chose the root; what lies below may belong to anybody, who could put a link in the place of
    a directory between two looks at it.
    """
    *directories, name = path[len(root) :].lstrip("/").split("/")
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
    here = os.open(root, flags)
    for one in directories:
        try:
            below = os.open(one, flags | os.O_NOFOLLOW, dir_fd=here)
        finally:
            os.close(here)
        here = below
    return here, name


def _has_link(path: str, root: str | None) -> bool:
    while True:
        if os.path.islink(path):
            return True
        path = os.path.dirname(path)
        if root is None or len(path) <= len(root):
            return False


class FileHandle:
    """An open regular file."""

    def __init__(self, path: str | bytes, *, follow_symlinks: bool, root: str | None = None) -> None:
        """Open `path`; without following links, no directory below `root` is entered through one either."""
        path = os.fsdecode(path)
        self.path = path
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
        if not follow_symlinks:
            flags |= getattr(os, "O_NOFOLLOW", 0)
        directory: int | None = None
        try:
            name = path
            if root is not None and not follow_symlinks:
                directory, name = _enter(root, path)
            self._refuse(os.stat(name, dir_fd=directory, follow_symlinks=follow_symlinks))
            self._file = open(  # noqa: SIM115
                name, "rb", buffering=0, opener=lambda name, _: os.open(name, flags, dir_fd=directory)
            )
        except OSError as problem:
            if problem.errno in {errno.ELOOP, errno.ENOTDIR} and not follow_symlinks and _has_link(path, root):
                raise SpecialFile("a symbolic link is not followed", path=path) from problem
            if isinstance(problem, IsADirectoryError):
                raise SpecialFile("a directory, not a regular file", path=path) from problem
            raise unavailable(path, problem) from problem
        finally:
            if directory is not None:
                os.close(directory)
        try:
            self._refuse(os.fstat(self._file.fileno()))
        except BaseException:
            self._file.close()
            raise

    def _refuse(self, result: os.stat_result) -> None:
        if st.S_ISLNK(result.st_mode):
            raise SpecialFile("a symbolic link is not followed", path=self.path)
        if st.S_ISDIR(result.st_mode):
            raise SpecialFile("a directory, not a regular file", path=self.path)
        if not st.S_ISREG(result.st_mode):
            raise SpecialFile("not a regular file", path=self.path)

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`; fewer only at the end of the file."""
        parts = []
        try:
            self._file.seek(offset)
            while length > 0 and (data := self._file.read(length)):
                parts.append(data)
                length -= len(data)
        except OSError as problem:
            raise unavailable(self.path, problem) from problem
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def data_from(self, offset: int, size: int) -> int:
        """Return where data begins at or after `offset`: holes of a sparse file need not be read."""
        try:
            return os.lseek(self._file.fileno(), offset, os.SEEK_DATA)
        except OSError as problem:
            return size if problem.errno == errno.ENXIO else offset
        except AttributeError:  # no such call on this system
            return offset

    def stat(self) -> FileStat:
        """Return the open file's facts, whatever its path is now."""
        try:
            return FileStat.of(os.fstat(self._file.fileno()))
        except OSError as problem:
            raise unavailable(self.path, problem) from problem

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileSystem(Protocol):
    """What is needed of a file system."""

    def trusting(self, roots: Iterable[str], *, follow_symlinks: bool) -> FileSystem:
        """Return this file system with links followed, or with none followed below `roots`."""

    def open(self, path: str | bytes) -> FileHandle:
        """Open a regular file; raise FileUnavailable."""

    def stat(self, path: str | bytes) -> FileStat:
        """Return the facts of what the path leads to; raise FileUnavailable."""

    def lstat(self, path: str | bytes) -> FileStat:
        """Return the facts of the path itself; raise FileUnavailable."""

    def scandir(self, path: str) -> Iterator[os.DirEntry[str]]:
        """Return a directory's entries; raise FileUnavailable."""


class LocalFileSystem:
    """The machine's own file system."""

    def __init__(self, *, follow_symlinks: bool = False, roots: Iterable[str] = ()) -> None:
        self.follow_symlinks = follow_symlinks
        self.roots = sorted({root.rstrip("/") for root in roots}, key=len, reverse=True)

    def trusting(self, roots: Iterable[str], *, follow_symlinks: bool) -> FileSystem:
        """Return this file system with links followed, or with none followed below `roots`."""
        return LocalFileSystem(follow_symlinks=follow_symlinks, roots=roots)

    def open(self, path: str | bytes) -> FileHandle:
        """Open a regular file; raise FileUnavailable."""
        path = os.fsdecode(path)
        root = next((root for root in self.roots if path.startswith(root + "/")), None)
        return FileHandle(path, follow_symlinks=self.follow_symlinks, root=root)

    def stat(self, path: str | bytes) -> FileStat:
        """Return the facts of what the path leads to; raise FileUnavailable."""
        try:
            return FileStat.of(os.stat(path))
        except OSError as problem:
            raise unavailable(os.fsdecode(path), problem) from problem

    def lstat(self, path: str | bytes) -> FileStat:
        """Return the facts of the path itself; raise FileUnavailable."""
        try:
            return FileStat.of(os.lstat(path))
        except OSError as problem:
            raise unavailable(os.fsdecode(path), problem) from problem

    def scandir(self, path: str) -> Iterator[os.DirEntry[str]]:
        """Return a directory's entries; raise FileUnavailable."""
        try:
            with os.scandir(path) as entries:
                yield from entries
        except OSError as problem:
            raise unavailable(path, problem) from problem
