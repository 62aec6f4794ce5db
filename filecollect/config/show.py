"""A config told to people: every setting that holds, without secrets, and remarks that are no mistakes."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import Any

from filecollect.config.database import redacted_url
from filecollect.config.mistakes import dotted
from filecollect.config.settings import After, Config

HIDDEN = "***"


def public_config(config: Config) -> dict[str, Any]:
    """Return all settings with their defaults as JSON values; passwords, tokens and headers are `***`."""
    shown: dict[str, Any] = {"config": config.origin} | config.model_dump(mode="json", by_alias=True)
    if shown["database"] is not None:
        shown["database"] = redacted_url(shown["database"])
    for sink in shown["sink"].values():
        sink["url"] = redacted_url(sink["url"])
        sink["headers"] = dict.fromkeys(sink["headers"], HIDDEN)
        for name in ("password", "token"):
            sink[name] = sink[name] and HIDDEN
    return shown


def remarks(config: Config) -> list[str]:
    """Return sentences about settings that work but may surprise."""
    said = []
    for name, settings in config.source.items():
        if isinstance(settings.after, After):
            archive = settings.after.archive
            inside = [pattern for pattern in settings.paths if _reaches(pattern, archive)]
            if inside:
                place = dotted(("source", name, "after", "archive"))
                said.append(f"{place}: {archive} lies inside {inside[0]}; files in it are never collected")
    return said


def _reaches(pattern: str, directory: str) -> bool:
    """Return whether a glob can match files that lie in `directory`."""
    parts, names = pattern.split(os.sep), directory.split(os.sep)
    is_recursive = "**" in parts or not any(sign in pattern for sign in "*?[")
    fixed = parts.index("**") if "**" in parts else len(parts) if is_recursive else len(parts) - 1
    if is_recursive and len(names) < fixed:
        return False
    if not is_recursive and len(names) != fixed:
        return False
    return all(fnmatchcase(name, part) for name, part in zip(names, parts[:fixed], strict=False))
