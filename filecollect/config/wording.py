"""pydantic's errors as sentences that a person can act on: `expected ..., got ...`.

Most checks word themselves (see `values.py`); this translates what pydantic finds on its own:
missing and unknown keys, wrong kinds, closed lists of words. A value that may hold a secret (the
database, everything in [sink.*]) is never repeated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import date, datetime, time
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

from filecollect.config.mistakes import Mistake, Path, dotted

CROSS = "cross"
"""The error type with which a model reports mistakes between its fields."""

_SHOWN = 60
_KINDS = {
    "bool_type": "true or false",
    "tuple_type": "a list in brackets",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}
_REQUIRED = {"paths": 'a list of paths such as ["logs/*.csv"]', "type": "the kind of sink", "url": "the sink's URL"}


def show(value: object) -> str:
    """Return a value as it is written in TOML, shortened."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= _SHOWN else f'{text[: _SHOWN - 4]}..."'
    if isinstance(value, date | time | datetime):
        return value.isoformat()
    if isinstance(value, BaseModel):
        return show(value.model_dump(by_alias=True, exclude_unset=True))
    if isinstance(value, Mapping):
        return _short("{ " + ", ".join(f"{dotted((str(k),))} = {show(v)}" for k, v in value.items()) + " }", "a table")
    if isinstance(value, list | tuple):
        return _short(f"[{', '.join(map(show, value))}]", "a list")
    return str(value)


def _short(text: str, otherwise: str) -> str:
    return text if len(text) <= _SHOWN else otherwise


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word most like `word`, or None when none is near."""
    by_folded = {name.casefold(): name for name in known}
    found = get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean ...?)` for a near miss, else nothing."""
    near = nearest(word, known)
    return "" if near is None else f" (did you mean {show(near)}?)"


def known_keys(model: type[BaseModel]) -> list[str]:
    """Return the keys of a model as users write them."""
    return [field.alias or name for name, field in model.model_fields.items() if not field.exclude]


def translate(
    error: ValidationError,
    at: Path,
    *,
    known: Callable[[Path], list[str]],
    elsewhere: Mapping[str, str],
    secrets: Collection[str],
) -> list[Mistake]:
    """Return one mistake for each of pydantic's errors in the table at `at`.

    `known` gives the valid keys of a table inside it, `elsewhere` tells for keys of other tables
    where they belong; the values of `secrets` are not repeated.
    """
    mistakes = []
    for line in error.errors(include_url=False):
        inside = tuple(key for key in line["loc"] if key != "[key]")
        place = (*at, *inside)
        if line["type"] == CROSS:
            mistakes += [Mistake((*place, *key), text) for key, text, _ in line["ctx"]["mistakes"]]
        elif line["type"] == "extra_forbidden":
            mistakes.append(Mistake(place, unknown(str(inside[-1]), known(inside[:-1]), elsewhere)))
        else:
            mistakes.append(Mistake(place, _wrong(line, secret=bool(secrets) and (not inside or inside[0] in secrets))))
    return mistakes


def unknown(key: str, known: list[str], elsewhere: Mapping[str, str]) -> str:
    """Return the sentence for a key that is no setting, with the nearest one or the table it belongs in."""
    if key in elsewhere:
        return f"expected a known setting, got {show(key)}, which belongs in {elsewhere[key]}"
    near = nearest(key, known)
    if near is None:
        return f"expected one of {', '.join(known)}, got the unknown setting {show(key)}"
    return f"expected a known setting, got {show(key)} (did you mean {show(near)}?)"


def _wrong(line: Any, *, secret: bool) -> str:
    kind, value = line["type"], line["input"]
    got = "another value" if secret and value is not None else show(value)
    if kind == "missing":
        return f"expected {_REQUIRED.get(line['loc'][-1], 'a value')}, got nothing"
    if kind == "value_error":
        text = str(line["ctx"]["error"])
        return text if ", got " in text else f"{text}, got {got}"
    if kind == "literal_error":
        wanted = re.findall(r"'([^']*)'", line["ctx"]["expected"])
        hint = did_you_mean(value, wanted) if isinstance(value, str) else ""
        if len(wanted) == 1:
            return f"expected {show(wanted[0])}, got {got}{hint}"
        return f"expected {', '.join(map(show, wanted[:-1]))} or {show(wanted[-1])}, got {got}{hint}"
    return f"expected {_KINDS.get(kind, 'another kind of value')}, got {got}"
