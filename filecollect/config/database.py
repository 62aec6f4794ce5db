"""Which database: one URL in one form, made absolute, told without its password.

Only the text is judged here, and for SQLite whether the file's directory is there. Nothing is
opened, no driver is looked for, and network file systems are not recognised.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from filecollect.config.expand import absolute
from filecollect.config.wording import show
from filecollect.errors import UsageError

if TYPE_CHECKING:
    from filecollect.config.settings import Config

ENVIRONMENT = "FILECOLLECT_DB"
DEFAULT = "sqlite:///filecollect.db"
ACCEPTED = "a file's path, sqlite:///FILE or postgresql://USER@HOST/NAME"

_SQLITE = "sqlite:///"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_NOT_A_FILE = re.compile(r"(?:postgres|postgresql|mysql|sqlite|file):|(?:^|\s)(?:host|dbname|user|port)=", re.I)
_ENDS = re.compile(r"[/?#]")
_PORT = re.compile(r"[^:@/?#]*(?::\d*)?[/?#]")
_SECRET = re.compile(
    r"((?:^|[?&;\s])[^=?&;\s]*(?:password|passwd|pwd|token|secret|key|signature|sig|auth)[^=?&;\s]*=)[^&;#\s]*", re.I
)


def redacted_url(url: str) -> str:
    """Return a URL in which passwords and tokens are `***`.

    Where a password holds characters that should have been escaped, rather too much is hidden.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return _without_secrets(url)
    is_database = scheme.lower().startswith(("postgres", "sqlite"))
    at = _userinfo_end(rest, greedy=is_database)
    if at is not None:
        user, colon, _ = rest[:at].partition(":")
        # A lone user is a name for a database, but a token for NATS and many HTTP services.
        shown = f"{user}:***" if colon else user if is_database else "***"
        return f"{scheme}://{shown}{_without_secrets(rest[at:])}"
    return f"{scheme}://{_without_secrets(rest)}"


def _without_secrets(text: str) -> str:
    return _SECRET.sub(r"\1***", text)


def _userinfo_end(rest: str, *, greedy: bool) -> int | None:
    """Return where the `@` after user and password stands in what follows `scheme://`."""
    authority = _ENDS.search(rest)
    until = rest.find("?") if greedy else authority.start() if authority else -1
    for end, is_sure in ((until if until >= 0 else len(rest), True), (len(rest), False)):
        at = rest.rfind("@", 0, end)
        if at >= 0 and (is_sure or not _PORT.match(rest)):
            return at
    return None


def absolute_url(text: str, base: Path, home: str | None = None) -> str:
    """Return the database's URL with an absolute file path; raise UsageError naming what is accepted."""
    refused = UsageError(f"expected {ACCEPTED}, got {show(redacted_url(text))}")
    scheme, rest = "", text
    if found := _SCHEME.fullmatch(text):
        scheme, rest = found[1].lower(), found[2]
    if scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        return f"postgresql+psycopg://{rest}"
    if scheme in ("sqlite", "sqlite+pysqlite"):
        if rest not in ("", "/") and not rest.startswith("/"):
            raise UsageError(f"expected three slashes for a file, as in sqlite:///{rest}, got {show(text)}")
        rest = rest[1:]
    elif scheme or _NOT_A_FILE.search(text):
        raise refused
    if rest == ":memory:" or (scheme and not rest):
        raise UsageError(f"expected a database file (one in memory would be lost at the end), got {show(text)}")
    if not rest.strip() or "\0" in rest or rest.startswith("file:"):
        raise refused
    if "?" in rest:
        raise UsageError(f'expected a database file without "?" in its name and without options, got {show(text)}')
    if rest.endswith("/"):
        raise UsageError(f"expected a database file, got the directory {show(rest)}")
    return _SQLITE + absolute(rest, base, home)


def sqlite_file(url: str) -> Path | None:
    """Return the file of an absolute SQLite URL, None for another database."""
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def database_url(text: str, base: Path) -> str:
    """Return the database's absolute URL; a relative file is meant from `base`.

    Raises UsageError for anything but SQLite files and PostgreSQL, and for a missing directory.
    """
    url = absolute_url(text, base)
    file = sqlite_file(url)
    if file is not None and file.is_dir():
        raise UsageError(f"expected a database file, got the directory {file}")
    if file is not None and not file.parent.is_dir():
        parent = str(file.parent)
        what = "which is no directory" if os.path.lexists(parent) else "which does not exist"
        raise UsageError(
            f"expected the database file in an existing directory, got {parent}, {what}",
            path=None,
            hint=f"mkdir -p {shlex.quote(parent)}",
        )
    return url


def choose_database(option: str | None, config: Config | None, environ: Mapping[str, str], cwd: Path) -> str:
    """Return the URL to use: `--db`, else the config's, else FILECOLLECT_DB, else a file in `cwd`.

    Raises UsageError, naming where the unusable one was said.
    """
    if option is not None:
        said, where = option, "--db"
    elif config is not None and config.database is not None:
        said, where = config.database, f"{config.origin or 'config'} database"
    elif environ.get(ENVIRONMENT):
        said, where = environ[ENVIRONMENT], ENVIRONMENT
    else:
        said, where = DEFAULT, "the default database"
    try:
        return database_url(said, cwd)
    except UsageError as problem:
        raise UsageError(f"{where}: {problem.message}", hint=problem.hint) from None
