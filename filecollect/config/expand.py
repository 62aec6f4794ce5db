"""Text of the config made concrete: environment variables, `~`, and paths relative to the file.

`${NAME}` and `${NAME:-default}` work as in a shell (the default also replaces an empty value);
`$${` stands for a plain `${`. What was put in is never expanded again. A path becomes absolute and
normalised, symlinks are not resolved.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping
from pathlib import Path

_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{")


def expand(text: str, environ: Mapping[str, str]) -> str:
    """Return `text` with its variables replaced; raise ValueError saying what was expected."""

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if found[0] == "$${":
            return "${"
        if name is None:
            raise ValueError("expected ${NAME} or ${NAME:-default} (a plain ${ is written $${), got an open ${")
        if default is not None:
            return environ.get(name) or default
        if name not in environ:
            raise ValueError(f"expected the environment variable {name} (or ${{{name}:-default}}), got nothing")
        return environ[name]

    return _VARIABLE.sub(value, text)


def _without_tilde(text: str, home: str | None) -> str:
    if not text.startswith("~"):
        return text
    if home and (text == "~" or text.startswith("~/")):
        return home + text[1:]
    return os.path.expanduser(text)


def absolute(text: str, base: Path, home: str | None = None) -> str:
    """Return a path as absolute and normalised, relative ones from `base`; `home` is `~`."""
    # normpath keeps two leading slashes, which mean nothing on the systems we run on
    return os.path.normpath("/" + os.path.join(base, _without_tilde(text, home)).lstrip("/"))


def absolute_pattern(text: str, base: Path, home: str | None = None) -> str:
    """Return a glob as absolute; what stands before it is never read as a glob itself."""
    whole = _without_tilde(text, glob.escape(home) if home else None)
    return absolute(whole, Path(glob.escape(str(base))))


def absolute_exclude(text: str, base: Path, home: str | None = None) -> str:
    """Return an exclude: without a slash it is a base name, beginning with `**/` it fits anywhere."""
    if "/" not in text:
        return text
    return f"/{text}" if text.startswith("**/") else absolute_pattern(text, base, home)
