"""Options of a call as source settings, shared by backfill, preview and init."""

from __future__ import annotations

import json
from typing import Any

from filecollect.config import Config, SourceSettings, settings_from, unsupported
from filecollect.errors import ConfigError


def source_settings(
    options: dict[str, Any], config: Config | None
) -> tuple[SourceSettings, dict[str, Any], frozenset[str]]:
    """Return the settings of a call, the JSON values of those it names, and their names.

    Raises ConfigError for a wrong or not yet supported setting.
    """
    said: dict[str, Any] = {}
    if options.get("format_name"):
        said["format"] = options["format_name"]
    if options.get("key"):
        said["key"] = tuple(part.strip() for part in options["key"].split(",") if part.strip())
    if options.get("delimiter"):
        said["delimiter"] = options["delimiter"].replace("\\t", "\t")
    if options.get("no_header"):
        said["header"] = False
    if options.get("encoding"):
        said["encoding"] = options["encoding"]
    if options.get("nulls"):
        said["null"] = tuple(options["nulls"])
    if options.get("batch_rows"):
        said["batch_rows"] = options["batch_rows"]
    if options.get("table"):
        said["table"] = options["table"]
    base = checked(said)
    pairs = options.get("pairs") or ()
    if pairs:
        before = base.model_fields_set
        base = settings_from(pairs, base)
        said |= {name: getattr(base, name) for name in base.model_fields_set - before}
        said |= {pair.partition("=")[0].strip(): None for pair in pairs if pair.partition("=")[0].strip() in said}
    problems = unsupported(base)
    for one in config.source.values() if config else ():
        problems += unsupported(one)
    if problems:
        raise ConfigError(problems)
    values = base.model_dump(mode="json")
    changes = {name: values[name] for name in said if name not in {"table", "paths"} and name in values}
    return base, changes, frozenset(said)


def checked(said: dict[str, Any]) -> SourceSettings:
    """Return settings made of options; a wrong value is a ConfigError naming its option."""
    pairs = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in said.items()]
    try:
        return settings_from(pairs, SourceSettings.model_validate({"paths": ["."]}))
    except ConfigError as problem:
        options = {f"--set {name}": f"--{name.replace('_', '-')}" for name in said}
        mistakes = []
        for mistake in problem.mistakes:
            place = next((one for one in options if mistake.startswith((f"{one}:", f"{one}."))), None)
            mistakes.append(mistake if place is None else options[place] + mistake.removeprefix(place))
        raise ConfigError(mistakes) from problem
