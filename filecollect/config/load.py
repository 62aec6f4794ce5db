"""From a TOML file to a Config, or to the whole list of its mistakes.

The file is read once and bounded. Every mistake is found in one go: each table is checked by itself,
and where single fields are wrong, the checks between the remaining ones still run. Whether the
database's directory exists is asked later, when that database is chosen (`database.py`).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from filecollect.config.database import absolute_url
from filecollect.config.expand import absolute, absolute_exclude, absolute_pattern, expand
from filecollect.config.mistakes import Mistake, dotted, key_lines, sentences
from filecollect.config.mistakes import Path as KeyPath
from filecollect.config.settings import SECRETS, SHAPES, Config, Settings, SinkSettings, SourceSettings, WorkerSettings
from filecollect.config.values import MIB, is_path, name_problem
from filecollect.config.wording import CROSS, did_you_mean, known_keys, show, translate, unknown
from filecollect.errors import ConfigError, UsageError

ENVIRONMENT = "FILECOLLECT_CONFIG"
FILE_NAME = "filecollect.toml"
SYSTEM_FILE = Path("/etc/filecollect/filecollect.toml")
MAX_BYTES = 4 * MIB

_ELSEWHERE = {
    **dict.fromkeys(known_keys(SourceSettings), "[source.NAME]"),
    **dict.fromkeys(known_keys(WorkerSettings), "[worker]"),
    "database": "the top of the file",
    "schema": "the top of the file",
}
_M = TypeVar("_M", bound=Settings)


def find_config(explicit: str | None, environ: Mapping[str, str], cwd: Path) -> Path | None:
    """Return the config file: `-c`, else FILECOLLECT_CONFIG, ./filecollect.toml, /etc/filecollect.

    Raises ConfigError when one that was named does not exist.
    """
    named = explicit if explicit is not None else environ.get(ENVIRONMENT) or None
    if named is not None:
        where = "-c" if explicit is not None else ENVIRONMENT
        path = cwd / named
        if not named or not os.path.exists(path):
            raise ConfigError([f"{where} {named}: expected a config file, got a path that does not exist"], path=named)
        return path
    for path in (cwd / FILE_NAME, SYSTEM_FILE):
        if os.path.lexists(path):
            return path
    return None


def load_config(path: Path, environ: Mapping[str, str]) -> Config:
    """Return the settings of a config file; raise ConfigError with every mistake in it."""
    shown = _shown(path)
    text = _read(path, shown)
    raw = _parse(text, path, shown)
    config, mistakes = _Builder(raw, Path(os.path.abspath(path)), environ).build()
    if config is None:
        raise ConfigError(sentences(mistakes, shown, key_lines(text)), path=str(path))
    return config


def settings_from(pairs: Iterable[str], base: SourceSettings, *, cwd: Path | None = None) -> SourceSettings:
    """Return `base` changed by `--set KEY=TOML` pairs; raise ConfigError with every mistake.

    KEY may be dotted (`columns.zip=text`). A value that is no TOML is taken as text. With `cwd`,
    relative paths are made absolute from there.
    """
    raw = base.model_dump(exclude_unset=True, by_alias=True)
    mistakes: list[Mistake] = []
    for pair in pairs:
        key, equals, value = pair.partition("=")
        keys = _key(key.strip())
        if not equals or not keys:
            mistakes.append(Mistake((pair,), f"expected KEY=VALUE, got {show(pair)}"))
        else:
            _put(raw, keys, _value(value.strip()), mistakes)
    if cwd is not None:
        raw = _made_absolute(raw, cwd, None)
    settings, found = _check(SourceSettings, raw, ())
    mistakes += found
    if settings is None or mistakes:
        raise ConfigError([f"--set {_set_place(mistake)}: {mistake.text}" for mistake in mistakes])
    return settings


def _set_place(mistake: Mistake) -> str:
    return str(mistake.at[0]) if len(mistake.at) == 1 else dotted(mistake.at)


def _shown(path: Path) -> str:
    """Return the path as a person at this directory would write it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (ValueError, OSError):
        return str(path)


def _read(path: Path, shown: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise _unusable(path, f"{shown}: expected a config file, got a directory") from None
    except (FileNotFoundError, NotADirectoryError):
        raise _unusable(path, f"{shown}: expected a config file, got a path that does not exist") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise _unusable(path, f"{shown}: expected a config file that can be read, got: {reason}") from None
    if len(data) > MAX_BYTES:
        raise _unusable(path, f"{shown}: expected a config file of at most {MAX_BYTES} bytes, got more")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line, byte = data.count(b"\n", 0, problem.start) + 1, data[problem.start]
        raise _unusable(path, f"{shown}:{line}: expected UTF-8 text, got the byte 0x{byte:02x}") from None


def _unusable(path: Path, sentence: str) -> ConfigError:
    return ConfigError([sentence], path=str(path))


def _parse(text: str, path: Path, shown: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        message = str(problem)
        found = re.search(r" \(at (?:line (\d+), column (\d+)|end of document)\)$", message)
        place = shown
        if found:
            lines = text.split("\n")
            line, column = (found[1], found[2]) if found[1] else (len(lines), len(lines[-1]) + 1)
            place, message = f"{shown}:{line}:{column}", message[: found.start()]
        if isinstance(problem, RecursionError):
            message = "nested too deeply"
        wrong = message[:1].lower() + message[1:]
        raise _unusable(path, f"{place}: expected valid TOML, got a mistake in its syntax: {wrong}") from None


def _known(model: type[Settings]) -> Callable[[KeyPath], list[str]]:
    def known(inside: KeyPath) -> list[str]:
        return known_keys(SHAPES[str(inside[0])]) if inside else known_keys(model)

    return known


def _check(model: type[_M], raw: Any, at: KeyPath) -> tuple[_M | None, list[Mistake]]:
    """Return the checked table, or its mistakes; those between fields too, when other fields are wrong."""
    elsewhere = {key: place for key, place in _ELSEWHERE.items() if key not in known_keys(model)}
    secrets = SECRETS if model is SinkSettings else ()
    try:
        return model.model_validate(raw), []
    except ValidationError as problem:
        mistakes = translate(problem, at, known=_known(model), elsewhere=elsewhere, secrets=secrets)
        wrong = {line["loc"][0] for line in problem.errors(include_url=False) if line["loc"]}
    if wrong and isinstance(raw, dict):
        remaining = {"paths": ["*"]} if model is SourceSettings else {}
        remaining |= {key: value for key, value in raw.items() if key not in wrong}
        try:
            model.model_validate(remaining)
        except ValidationError as problem:
            for line in problem.errors(include_url=False):
                between = line["ctx"]["mistakes"] if line["type"] == CROSS and not line["loc"] else ()
                mistakes += [Mistake((*at, *key), text) for key, text, keys in between if not wrong & set(keys)]
    return None, mistakes


class _Builder:
    """One config on its way from raw TOML to settings, with the mistakes found so far."""

    def __init__(self, raw: dict[str, Any], path: Path, environ: Mapping[str, str]) -> None:
        self.raw = raw
        self.path = path
        self.base = path.parent
        self.home = environ.get("HOME") or None
        self.environ = environ
        self.mistakes: list[Mistake] = []

    def build(self) -> tuple[Config | None, list[Mistake]]:
        rest = {key: value for key, value in self.raw.items() if key not in ("source", "sink", "worker", "database")}
        if rest.pop("origin", None) is not None:  # a field of Config, but no setting
            self.mistakes.append(Mistake(("origin",), unknown("origin", known_keys(Config), {})))
        database = self._database()
        worker = self._checked(WorkerSettings, self.raw.get("worker", {}), ("worker",))
        sinks = {
            name: self._checked(SinkSettings, self._expanded(table, ("sink", name)), ("sink", name))
            for name, table in self._tables("sink").items()
        }
        sources = {
            name: self._checked(SourceSettings, self._concrete(table, ("source", name)), ("source", name))
            for name, table in self._tables("source").items()
        }
        self._sinks_exist()
        config = self._checked(Config, rest, ())
        if self.mistakes or config is None:
            return None, self.mistakes
        found = {"database": database, "worker": worker, "source": sources, "sink": sinks, "origin": str(self.path)}
        return config.model_copy(update=found), []

    def _checked(self, model: type[_M], raw: Any, at: KeyPath) -> _M | None:
        settings, mistakes = _check(model, raw, at)
        self.mistakes += mistakes
        return settings

    def _tables(self, kind: str) -> dict[str, Any]:
        tables = self.raw.get(kind, {})
        if not isinstance(tables, dict):
            self.mistakes.append(Mistake((kind,), f"expected tables [{kind}.NAME], got {show(tables)}"))
            return {}
        for name in tables:
            if problem := name_problem(name):
                self.mistakes.append(Mistake((kind, name), problem))
        return tables

    def _database(self) -> str | None:
        said = self.raw.get("database")
        if said is None:
            return None
        if not isinstance(said, str):
            self.mistakes.append(Mistake(("database",), f"expected text in quotes, got {show(said)}"))
            return None
        try:
            return absolute_url(expand(said, self.environ), self.base, self.home)
        except (ValueError, UsageError) as problem:
            self.mistakes.append(Mistake(("database",), str(problem)))
            return None

    def _expanded(self, value: Any, at: KeyPath) -> Any:
        if isinstance(value, dict):
            return {key: self._expanded(inner, (*at, key)) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._expanded(inner, (*at, index)) for index, inner in enumerate(value)]
        if not isinstance(value, str):
            return value
        try:
            return expand(value, self.environ)
        except ValueError as problem:
            self.mistakes.append(Mistake(at, str(problem)))
            return value

    def _concrete(self, table: Any, at: KeyPath) -> Any:
        """Return a source's table with expanded, absolute paths; wrong kinds are left for the check."""
        if not isinstance(table, dict):
            return table
        table = dict(table)
        if isinstance(table.get("paths"), list):
            table["paths"] = self._expanded(table["paths"], (*at, "paths"))
        if isinstance(table.get("after"), dict) and "archive" in table["after"]:
            archive = self._expanded(table["after"]["archive"], (*at, "after", "archive"))
            table["after"] = table["after"] | {"archive": archive}
        return _made_absolute(table, self.base, self.home)

    def _sinks_exist(self) -> None:
        known = self._tables_quietly("sink")
        for name, table in self._tables_quietly("source").items():
            wanted = table.get("sinks") if isinstance(table, dict) else None
            for index, sink in enumerate(wanted if isinstance(wanted, list) else []):
                if isinstance(sink, str) and sink and sink not in known:
                    text = f"expected the name of a [sink.NAME] table, got {show(sink)}{did_you_mean(sink, known)}"
                    self.mistakes.append(Mistake(("source", name, "sinks", index), text))

    def _tables_quietly(self, kind: str) -> dict[str, Any]:
        tables = self.raw.get(kind, {})
        return tables if isinstance(tables, dict) else {}


def _made_absolute(table: dict[str, Any], base: Path, home: str | None) -> dict[str, Any]:
    """Return a source's table with absolute paths; what is no path is left for the check to refuse."""

    def every(key: str, change: Callable[[str, Path, str | None], str]) -> None:
        if isinstance(table.get(key), list | tuple):
            changed[key] = [change(one, base, home) if is_path(one) else one for one in table[key]]

    changed: dict[str, Any] = {}
    every("paths", absolute_pattern)
    every("exclude", absolute_exclude)
    after = table.get("after")
    if isinstance(after, dict) and is_path(after.get("archive")):
        changed["after"] = after | {"archive": absolute(after["archive"], base, home)}
    return table | changed


def _key(text: str) -> list[str]:
    """Return the parts of a dotted TOML key, none when it is no key."""
    try:
        found: Any = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        return []
    keys: list[str] = []
    while isinstance(found, dict) and len(found) == 1:
        ((key, found),) = found.items()
        keys.append(key)
    return keys if found == 0 else []


def _value(text: str) -> Any:
    """Return a TOML value; what is none is text, unless it was clearly meant as TOML."""
    try:
        found = tomllib.loads(f"v = {text}")
    except (ValueError, RecursionError) as problem:
        if text[:1] in tuple("[{\"'"):
            return _Broken(str(problem), text)
        return text
    return found["v"] if set(found) == {"v"} else text


class _Broken:
    """A value that begins like TOML but is none."""

    def __init__(self, problem: str, text: str) -> None:
        self.problem = re.sub(r" \(at .*\)$", "", problem)
        self.text = text


def _put(raw: dict[str, Any], keys: list[str], value: Any, mistakes: list[Mistake]) -> None:
    if isinstance(value, _Broken):
        wrong = value.problem[:1].lower() + value.problem[1:]
        mistakes.append(Mistake(tuple(keys), f"expected a TOML value ({wrong}), got {show(value.text)}"))
        return
    table = raw
    for key in keys[:-1]:
        inner = table.get(key)
        table[key] = dict(inner) if isinstance(inner, dict) else {}
        table = table[key]
    table[keys[-1]] = value
