"""One scan: patterns become a list of files, and everything that could not be looked at.

A pattern is a file, a directory (all below it), or a glob with `**`, `*`, `?`, `[..]`; a path that
exists is literal even if it looks like a glob, and so is the directory that a pattern is relative to.
A glob enters only directories that can still lead to a match. Dotfiles and temporaries are ignored
unless named; a sign of a glob never stands for a leading dot, as in a shell.

Directory links below a pattern are not followed unless asked to. Then each directory is entered once,
under its own name rather than a link's where both are in reach, so loops end and runs agree.

What is never read (the database, the config, archives) is told by path and by device and inode, so no
other name of the same file leads there. Nothing is raised for what the file system says: it is in the
result. A file that vanishes while it is looked at is simply not there.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field

from filecollect.errors import FileUnavailable
from filecollect.files.filesystem import FileMissing, FileStat, FileSystem, LocalFileSystem, unavailable
from filecollect.files.paths import absolute

NOT_FOLLOWED = "a symbolic link is not followed; follow_symlinks = true does (/var/log/containers needs it)"
TEMPORARY = re.compile(r".*\.(tmp|part|swp|crdownload)|\.~.*", re.IGNORECASE | re.DOTALL)
_MAGIC = re.compile(r"[*?\[]")
_LOCAL = LocalFileSystem()

_Part = re.Pattern[str] | None
"""One part of a glob; None stands for `**`."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file of the scan; `explicit` when the user named it."""

    path: str
    stat: FileStat
    explicit: bool = False


@dataclass(frozen=True, slots=True)
class Problem:
    """A place that could not be looked at."""

    path: str
    message: str
    kind: str


@dataclass(slots=True)
class Scan:
    """What a scan found, sorted by path; `ignored` counts paths, each once."""

    files: list[Found] = field(default_factory=list)
    ignored: int = 0
    problems: list[Problem] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    special: list[tuple[str, str]] = field(default_factory=list)


def _part(part: str, *, dots: bool = False) -> _Part:
    """Return the expression of one part of a glob; with `dots` its signs may stand for a leading dot."""
    if part == "**":
        return None
    guard = "" if dots or part.startswith(".") else r"(?!\.)"
    return re.compile(guard + fnmatch.translate(part))


def _cut(pattern: str, base: str) -> tuple[str, list[str]]:
    """Return the literal directory that a glob starts from, and the parts that follow."""
    parts = pattern.split("/")
    fixed = next((number for number, part in enumerate(parts) if _MAGIC.search(part)), len(parts))
    root = "/" if pattern.startswith("/") else "."
    top = absolute("/".join(parts[:fixed]) or root, base)
    rest = os.path.normpath("/".join(parts[fixed:]) or ".")
    while rest == ".." or rest.startswith("../"):
        top, rest = os.path.dirname(top), rest[3:] or "."
    return top, [part for part in rest.split("/") if part != "."]


class _Glob:
    """The parts of a glob as a small automaton: a state is the number of the part that comes next."""

    def __init__(self, parts: Sequence[str], *, dots: bool = False) -> None:
        self.parts = [_part(part, dots=dots) for part in parts]
        self.dots = dots
        self.start = self._reach({0})

    def _reach(self, states: Iterable[int]) -> frozenset[int]:
        """Add what can be reached because `**` may stand for nothing."""
        reached = set(states)
        for state in sorted(reached):
            while state < len(self.parts) - 1 and self.parts[state] is None:
                state += 1
                reached.add(state)
        return frozenset(reached)

    def below(self, states: frozenset[int], name: str) -> frozenset[int]:
        """Return the states inside the directory `name`; none when nothing there can match."""
        following: set[int] = set()
        for state in states:
            part = self.parts[state]
            if part is None:
                if self.dots or not name.startswith("."):
                    following.add(state)
            elif state + 1 < len(self.parts) and part.match(name):
                following.add(state + 1)
        return self._reach(following)

    def ends(self, states: frozenset[int], name: str) -> bool:
        """Return whether `name` can be the last part."""
        last = len(self.parts) - 1
        if last not in states:
            return False
        part = self.parts[last]
        return part is None or part.match(name) is not None

    def names_dots(self, name: str) -> bool:
        """Return whether the last part asks for the dotfile `name` itself."""
        part = self.parts[-1]
        return part is not None and part.match(name) is not None

    def whole(self, names: Sequence[str]) -> bool:
        """Return whether the glob matches a whole path, given by its parts."""
        states = self.start
        for name in names[:-1]:
            states = self.below(states, name)
        return self.ends(states, names[-1])


class _Exclude:
    """Excludes: without a slash a base name at any depth, with one a path."""

    def __init__(self, patterns: Sequence[str], base: str) -> None:
        self.names = [_Glob([pattern], dots=True) for pattern in patterns if "/" not in pattern]
        self.literal = {absolute(pattern, base) for pattern in patterns if "/" in pattern}
        self.paths = []
        for pattern in patterns:
            if "/" in pattern:
                top, parts = _cut(pattern, base)
                if parts:
                    self.paths.append((top.rstrip("/") + "/", _Glob(parts, dots=True)))

    def covers(self, path: str, name: str) -> bool:
        """Return whether a path is excluded."""
        if path in self.literal or any(one.ends(one.start, name) for one in self.names):
            return True
        return any(path.startswith(top) and one.whole(path[len(top) :].split("/")) for top, one in self.paths)


class _Never:
    """Paths that are never read, under whatever name."""

    def __init__(self, never: Container[str] | Callable[[str], bool], files: FileSystem) -> None:
        self.named: Callable[[str], bool] = never if callable(never) else never.__contains__
        self.inodes: set[tuple[int, int]] = set()
        paths: Iterable[str] = never if isinstance(never, Iterable) else ()
        for path in paths:
            try:
                stat = files.stat(path)
            except (FileUnavailable, ValueError):
                continue
            self.inodes.add((stat.device, stat.inode))

    def covers(self, path: str, stat: FileStat | None) -> bool:
        """Return whether a path, or the file that it is, is never read."""
        return self.named(path) or (stat is not None and (stat.device, stat.inode) in self.inodes)


class _Scanner:
    def __init__(self, files: FileSystem, base: str, exclude: _Exclude, never: _Never, follow: bool) -> None:
        self.files = files
        self.base = base
        self.exclude = exclude
        self.never = never
        self.follow = follow
        self.found: dict[str, Found] = {}
        self.ignored: set[str] = set()
        self.odd: dict[str, str] = {}
        self.problems: dict[str, Problem] = {}
        self.unmatched: list[str] = []
        self.missing: list[str] = []

    def take(self, path: str, name: str, stat: FileStat, *, explicit: bool, dots: bool = False) -> bool:
        """Take a file unless it is never read or ignored; return whether it was taken."""
        hidden = name.startswith(".") and not dots
        if self.never.covers(path, stat) or (
            not explicit and (hidden or TEMPORARY.fullmatch(name) or self.exclude.covers(path, name))
        ):
            self.ignored.add(path)
            return False
        if stat.is_regular:
            before = self.found.get(path)
            self.found[path] = Found(path, stat, explicit or (before is not None and before.explicit))
        else:
            self.odd[path] = NOT_FOLLOWED if stat.is_symlink else "not a regular file (FIFO, socket or device)"
        return True

    def walk(self, top: str, glob: _Glob) -> int:
        """Take every wanted file below a directory; return how many."""
        count = 0
        entered: set[tuple[int, int, frozenset[int]]] = set()
        waiting = [(top, glob.start)]
        links: list[tuple[str, frozenset[int]]] = []
        while waiting or links:
            if not waiting:
                links.sort(reverse=True)
                waiting.append(links.pop())
            directory, states = waiting.pop()
            if self.follow and not self.first_time(directory, states, entered):
                continue
            for entry in self.entries(directory):
                name = entry.name
                try:
                    if entry.is_dir(follow_symlinks=self.follow):
                        below = glob.below(states, name)
                        if below and not self.shut(entry):
                            (links if entry.is_symlink() else waiting).append((entry.path, below))
                    elif glob.ends(states, name):
                        stat = FileStat.of(entry.stat(follow_symlinks=self.follow))
                        dots = name.startswith(".") and glob.names_dots(name)
                        count += self.take(entry.path, name, stat, explicit=False, dots=dots)
                except FileNotFoundError:
                    if entry.is_symlink():
                        self.odd[entry.path] = "a symbolic link that leads nowhere"
                except OSError as problem:
                    self.trouble(entry.path, unavailable(entry.path, problem))
        return count

    def first_time(self, directory: str, states: frozenset[int], entered: set[tuple[int, int, frozenset[int]]]) -> bool:
        """Note a directory as entered; return False when it was before."""
        try:
            stat = self.files.stat(directory)
        except FileUnavailable as problem:
            self.trouble(directory, problem)
            return False
        here = (stat.device, stat.inode, states)
        if here in entered:
            return False
        entered.add(here)
        return True

    def shut(self, entry: os.DirEntry[str]) -> bool:
        """Return whether a directory is excluded or never read."""
        stat = FileStat.of(entry.stat()) if self.never.inodes else None
        if self.never.covers(entry.path, stat):
            self.ignored.add(entry.path)
            return True
        return self.exclude.covers(entry.path, entry.name)

    def entries(self, directory: str) -> list[os.DirEntry[str]]:
        """Return what is in a directory; what cannot be listed is a problem."""
        try:
            return list(self.files.scandir(directory))
        except FileMissing:
            return []
        except FileUnavailable as problem:
            self.trouble(directory, problem)
            return []

    def trouble(self, path: str, problem: FileUnavailable) -> None:
        """Note a place that could not be looked at."""
        kind = "permission_denied" if isinstance(problem.__cause__, PermissionError) else "unreadable"
        self.problems[path] = Problem(path, problem.message, kind)

    def literal(self, path: str) -> bool:
        """Take a pattern as a path; return False when there is no such thing."""
        try:
            stat = self.files.stat(path) if self.follow else self.files.lstat(path)
        except (FileMissing, ValueError):
            return False
        except FileUnavailable as problem:
            self.trouble(path, problem)
            return True
        directory = _directory(self.files, path)
        if directory is None:
            self.take(path, os.path.basename(path), stat, explicit=True)
        elif self.never.covers(path, directory):
            self.ignored.add(path)
        else:
            self.walk(path, _Glob(["**"]))
        return True

    def pattern(self, pattern: str) -> None:
        """Take what one pattern names."""
        if self.literal(absolute(pattern, self.base)):
            return
        if "\0" in pattern or not _MAGIC.search(pattern):
            self.missing.append(pattern)
            return
        top, parts = _cut(pattern, self.base)
        if not parts or _directory(self.files, top) is None or not self.walk(top, _Glob(parts)):
            self.unmatched.append(pattern)


def _directory(files: FileSystem, path: str) -> FileStat | None:
    """Return the facts of the directory that a path leads to, None when it leads to none."""
    try:
        stat = files.stat(path)
    except (FileUnavailable, ValueError):
        return None
    return stat if stat.is_directory else None


def find(
    patterns: Sequence[str],
    *,
    base: str,
    exclude: Sequence[str] = (),
    never: Container[str] | Callable[[str], bool] = frozenset(),
    follow_symlinks: bool = False,
    files: FileSystem = _LOCAL,
) -> Scan:
    """Return the files that `patterns` name, relative ones from `base`.

    `never` holds absolute paths of files and directories, or tells of one; nothing leads there.
    Nothing is raised: what cannot be looked at is in the result.
    """
    scanner = _Scanner(files, base, _Exclude(exclude, base), _Never(never, files), follow_symlinks)
    for pattern in patterns:
        scanner.pattern(pattern)
    return Scan(
        files=[scanner.found[path] for path in sorted(scanner.found)],
        ignored=len(scanner.ignored - scanner.found.keys()),
        problems=[scanner.problems[path] for path in sorted(scanner.problems)],
        unmatched=scanner.unmatched,
        missing=scanner.missing,
        special=sorted(scanner.odd.items()),
    )


def roots(patterns: Sequence[str], base: str, *, files: FileSystem = _LOCAL) -> list[tuple[str, bool]]:
    """Return the directories in which files that match may come and go, and whether all below counts."""
    found = []
    for pattern in patterns:
        path = absolute(pattern, base)
        if _directory(files, path) is not None:
            found.append((path, True))
        elif not _MAGIC.search(pattern) or _is_there(files, path):
            found.append((os.path.dirname(path), False))
        else:
            top, parts = _cut(pattern, base)
            found.append((top, len(parts) > 1 or parts == ["**"]))
    return found


def _is_there(files: FileSystem, path: str) -> bool:
    try:
        files.lstat(path)
    except (FileUnavailable, ValueError):
        return False
    return True


def literal_root(pattern: str) -> str:
    """Return the part of an absolute pattern that stands before its first wildcard, as a directory."""
    magic = _MAGIC.search(pattern)
    return pattern if magic is None else pattern[: magic.start()].rpartition("/")[0] or "/"
