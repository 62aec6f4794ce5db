"""One scan: patterns become a list of files, and everything that could not be looked at.

A pattern is a file, a directory (all below it), or a glob with `**`, `*`, `?`, `[..]`; a path that
exists is literal even if it looks like a glob. Dotfiles and temporaries are ignored unless named.
Directory links are not followed unless asked to, and then each directory is entered once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, field

from filecollect.files.filesystem import FileStat
from filecollect.files.paths import absolute

TEMPORARY = re.compile(r".*\.(tmp|part|swp|crdownload)|\.~.*", re.IGNORECASE)
_MAGIC = re.compile(r"[*?\[]")


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
    """What a scan found, sorted by path."""

    files: list[Found] = field(default_factory=list)
    ignored: int = 0
    problems: list[Problem] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    special: list[tuple[str, str]] = field(default_factory=list)


def glob_regex(pattern: str) -> re.Pattern[str]:
    """Return the expression of a glob over a whole path: `*` stays in its part, `**` crosses parts.

    A part that begins with a sign never matches a dotfile, as in a shell.
    """
    parts = pattern.split("/")
    out = []
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            out.append(r"(?:[^/.][^/]*(?:/[^/.][^/]*)*)" if last else r"(?:[^/.][^/]*/)*")
            continue
        guard = r"(?!\.)" if part[:1] in {"*", "?", "["} else ""
        out.append(guard + _part_regex(part) + ("" if last else "/"))
    return re.compile("".join(out), re.DOTALL)


def _part_regex(part: str) -> str:
    out, at = "", 0
    while at < len(part):
        sign = part[at]
        end = part.find("]", at + 2) if sign == "[" else -1
        if sign == "*":
            out += "[^/]*"
        elif sign == "?":
            out += "[^/]"
        elif end > 0:
            body = part[at + 1 : end].replace("\\", "\\\\")
            out += "[" + ("^" + body[1:] if body[0] in "!^" else body.replace("[", "\\[")) + "]"
            at = end
        else:
            out += re.escape(sign)
        at += 1
    return out


class _Scanner:
    def __init__(self, base: str, exclude: Sequence[str], never: Container[str], follow: bool) -> None:
        self.base = base
        self.never = never
        self.follow = follow
        self.scan = Scan()
        self.found: dict[str, Found] = {}
        self.odd: dict[str, str] = {}
        self.names = [glob_regex(pattern) for pattern in exclude if "/" not in pattern]
        self.paths = [glob_regex(absolute(pattern, base)) for pattern in exclude if "/" in pattern]

    def excluded(self, path: str, name: str) -> bool:
        return any(one.fullmatch(name) for one in self.names) or any(one.fullmatch(path) for one in self.paths)

    def take(self, path: str, stat: os.stat_result, explicit: bool) -> bool:
        """Take a file unless it is never read or ignored; return whether it was taken."""
        name = os.path.basename(path)
        if path in self.never:
            self.scan.ignored += 1
            return False
        if not explicit and (name.startswith(".") or TEMPORARY.fullmatch(name) or self.excluded(path, name)):
            self.scan.ignored += 1
            return False
        facts = FileStat.of(stat)
        if not facts.is_regular:
            link = facts.is_symlink
            self.odd[path] = (
                "a symbolic link is not followed" if link else "not a regular file (FIFO, socket or device)"
            )
            return True
        before = self.found.get(path)
        self.found[path] = Found(path, facts, explicit or (before is not None and before.explicit))
        return True

    def walk(self, top: str, wanted: Callable[[str], bool]) -> int:
        """Take every wanted file below a directory; return how many."""
        count = 0
        entered: set[tuple[int, int]] = set()
        waiting = [top]
        while waiting:
            directory = waiting.pop()
            for entry in self.entries(directory):
                try:
                    if entry.is_dir(follow_symlinks=self.follow):
                        if entry.name.startswith(".") or self.excluded(entry.path, entry.name):
                            continue
                        if self.follow:
                            stat = entry.stat()
                            if (stat.st_dev, stat.st_ino) in entered:
                                continue
                            entered.add((stat.st_dev, stat.st_ino))
                        waiting.append(entry.path)
                    elif wanted(entry.path):
                        count += self.take(entry.path, entry.stat(follow_symlinks=self.follow), False)
                except OSError as problem:
                    self.trouble(entry.path, problem)
        return count

    def entries(self, directory: str) -> Iterator[os.DirEntry[str]]:
        try:
            with os.scandir(directory) as entries:
                yield from list(entries)
        except OSError as problem:
            self.trouble(directory, problem)

    def trouble(self, path: str, problem: OSError) -> None:
        kind = "permission_denied" if isinstance(problem, PermissionError) else "unreadable"
        self.scan.problems.append(Problem(path, problem.strerror or str(problem), kind))

    def pattern(self, pattern: str) -> None:
        path = absolute(pattern, self.base)
        try:
            stat = os.stat(path) if self.follow else os.lstat(path)
            if os.path.isdir(path):
                self.walk(path, lambda _: True)
            else:
                self.take(path, stat, True)
            return
        except FileNotFoundError:
            pass
        except OSError as problem:
            self.trouble(path, problem)
            return
        if not _MAGIC.search(pattern):
            self.scan.missing.append(pattern)
            return
        parts = path.split("/")
        fixed = next(number for number, part in enumerate(parts) if _MAGIC.search(part))
        top = "/".join(parts[:fixed]) or "/"
        expression = glob_regex(path)
        if not os.path.isdir(top) or not self.walk(top, lambda one: expression.fullmatch(one) is not None):
            self.scan.unmatched.append(pattern)


def find(
    patterns: Sequence[str],
    *,
    base: str,
    exclude: Sequence[str] = (),
    never: Container[str] = frozenset(),
    follow_symlinks: bool = False,
) -> Scan:
    """Return the files that `patterns` name, relative ones from `base`; `never` holds absolute paths.

    Nothing is raised: what cannot be looked at is in the result.
    """
    scanner = _Scanner(base, exclude, never, follow_symlinks)
    for pattern in patterns:
        scanner.pattern(pattern)
    scan = scanner.scan
    scan.files = [scanner.found[path] for path in sorted(scanner.found)]
    scan.special = sorted(scanner.odd.items())
    return scan
