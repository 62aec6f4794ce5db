"""The config file that `filecollect init` writes: what was found, and each common setting explained.

The text loads unchanged. Settings that were found are active; the others stand as commented
examples. Nothing that this version does not act on is offered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from filecollect.config.mistakes import dotted

_COLUMN = 44
_TIMESTAMP = '# timestamp = { formats = ["%d/%m/%Y %H:%M"], zone = "Europe/Berlin" }  # also "epoch", "epoch_ms"'


@dataclass(frozen=True, slots=True)
class TemplateSource:
    """A source to be written: its name, absolute or relative globs, format, and what may be its key."""

    name: str
    paths: tuple[str, ...]
    format: str = "auto"
    follow: bool = True
    keys: tuple[str, ...] = ()


def template(sources: Sequence[TemplateSource], database: str) -> str:
    """Return a commented config for `sources`; `database` is written as it is."""
    lines = [
        "# The settings of filecollect. `filecollect check` shows what they match; nothing is changed by it.",
        "# Relative paths are meant from this file's directory. ${NAME} and ${NAME:-default} are replaced",
        "# in database and paths.",
        "",
        _setting("database", database, "a SQLite file, or postgresql://USER@HOST/NAME"),
        _example("schema", "public", "PostgreSQL only: where the tables are"),
        "",
        "[worker]",
        _example("workers", 2, "processes; default: one a core, at most 4 on SQLite"),
        _example("lease_s", 90, "after this long a silent worker's files are taken over"),
        _example("durability", "relaxed", 'or "full": wait for the disk at every commit'),
    ]
    for source in sources:
        lines += ["", *_source(source)]
    if not sources:
        lines += ["", "# [source.app]", '# paths = ["/var/log/app/*.log*"]']
    return "\n".join(lines) + "\n"


def _source(source: TemplateSource) -> list[str]:
    keys = list(source.keys or ("id",))
    replaced = "append" if source.follow else "replace"
    typed = f"# columns = {{ {dotted((keys[0],))} = {_text('integer')} }}"
    return [
        f"[{dotted(('source', source.name))}]",
        "paths = [",
        *(f"    {_text(_pattern(path))}," for path in source.paths),
        "]",
        _example("exclude", ["*.bak"], "not these; without a slash it is a file's name"),
        _setting("follow", source.follow, "true: the file may grow; false: it is finished when it appears"),
        _setting("format", source.format, '"auto", "csv", "json", "jsonl" or "lines"'),
        _example("encoding", "auto", 'or "utf-8", "cp1252", ...'),
        _example("encoding_errors", "quarantine", 'or "replace": U+FFFD for what cannot be decoded'),
        *(_CSV if source.format in ("auto", "csv") else ()),
        *(_JSON if source.format in ("auto", "json", "jsonl") else ()),
        _TIMESTAMP,
        _example("table", source.name, 'the table; "collected_item" for one JSON table'),
        _example("key", keys, "a later record with the same key wins"),
        _example("on_conflict", "update", 'beside key; or "ignore", "quarantine"'),
        f"{typed.ljust(_COLUMN)}  # types, where they are not to be guessed",
        _example("on_replace", replaced, "rows of a file that was replaced"),
        _example("lineage", ["file", "line"], "also keep where each row came from, as columns"),
    ]


def _setting(key: str, value: object, comment: str) -> str:
    return f"{f'{key} = {_toml(value)}'.ljust(_COLUMN)}  # {comment}"


def _example(key: str, value: object, comment: str) -> str:
    return _setting(f"# {key}", value, comment)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return _text(value) if isinstance(value, str) else str(value)


def _text(text: str) -> str:
    """Return a TOML string; JSON's form is one, but for the character DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _pattern(path: str) -> str:
    """Return a glob that load_config leaves as it is; a byte that is no UTF-8 is matched by `?`."""
    return re.sub("[\ud800-\udfff]", "?", path).replace("${", "$${")


_CSV = (
    _example("null", ["NULL"], "words that mean NULL in CSV"),
    _example("comment", "#", "lines of CSV that begin with it are skipped"),
    _example("decimal", ",", "0,12 is a number in CSV"),
)
_JSON = (_example("flatten", 1, "levels of nested JSON objects that become columns a.b"),)
