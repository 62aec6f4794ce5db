"""Is a sample JSON, and in which shape: an object a line, or values in an array or over several lines?

Lines win where (nearly) every line is an object. Otherwise what begins like an object or an array of
objects is JSON if (nearly) everything in the sample is one. A file of numbers, strings or arrays is JSON
only by its name or by wish; then its records are `bare` and become a column `value`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from filecollect.parse.jsonfile import sample_values

JSONL_SUFFIXES = frozenset({".jsonl", ".ndjson"})
_JSON_SUFFIXES = JSONL_SUFFIXES | {".json"}
_NEARLY_ALL = 0.95
_OBJECT_BEGINS = re.compile(r'[\[\s]*\{\s*["}]')
_ARRAY_OF_OBJECTS = re.compile(r"\s*\[\s*\{")
_decode = msgspec.json.Decoder(msgspec.Raw).decode


@dataclass(frozen=True, slots=True)
class Json:
    """The shape of JSON, and a sentence why."""

    format: str
    bare: bool
    why: str


def judge_json(
    text: str, lines: Sequence[str], open_line: str, *, cut: bool, asked: str | None, named: str
) -> Json | None:
    """Return the shape of a sample, None when it is no JSON.

    `lines` are its lines that are not blank, `open_line` what follows the last line end; `asked` is the
    format that the user said, `named` the suffix of the file.
    """
    lines = list(lines)
    # An unterminated last line may be half written: it counts only when it is whole.
    if not cut and open_line.strip() and (is_json(open_line) or not lines):
        lines.append(open_line)
    objects = sum(_is_object(line) for line in lines)
    share = objects / len(lines) if lines else 0.0
    values = sum(map(is_json, lines))
    bare_lines = bool(lines) and objects == 0 and values >= _NEARLY_ALL * len(lines)
    if asked == "jsonl":
        return Json("jsonl", bare_lines, "format jsonl: as asked for")
    if asked is None and share >= _NEARLY_ALL:
        return Json("jsonl", False, "format jsonl: (nearly) all lines of the sample are JSON objects")
    by_line = bare_lines and named in _JSON_SUFFIXES and (len(lines) > 1 or named in JSONL_SUFFIXES)
    if asked is None and by_line and not any(map(_ARRAY_OF_OBJECTS.match, lines)):
        return Json("jsonl", True, "format jsonl: (nearly) all lines of the sample are JSON, none is an object")
    found = _document(text, cut=cut, asked=asked is not None, suffix=named)
    if found is not None:
        return found
    if named in JSONL_SUFFIXES:
        return Json("jsonl", False, f"format jsonl: the name ends in {named}")
    if not lines and text.lstrip().startswith('{"') and cut:
        return Json("jsonl", False, "format jsonl: the first line, longer than the sample, begins like a JSON object")
    return None


def _document(text: str, *, cut: bool, asked: bool, suffix: str) -> Json | None:
    begins = _OBJECT_BEGINS.match(text) is not None
    by_name = suffix in _JSON_SUFFIXES
    if not (asked or by_name or begins):
        return None
    values, bad = sample_values(text, cut=cut)
    good = [value for value in values if is_json(value)]
    objects = sum(value.startswith("{") for value in good)
    bare = bool(good) and objects == 0
    if asked:
        return Json("json", bare, "format json: as asked for")
    total = len(values) + bad
    if not total:
        # The first value is longer than the sample, or is not there yet.
        pretty = begins and cut and text.lstrip()[:2] != '{"'
        return Json("json", False, "format json: it begins like JSON objects over several lines") if pretty else None
    if bare and by_name and len(good) >= _NEARLY_ALL * total:
        return Json("json", True, "format json: values that are no objects")
    if begins and objects >= _NEARLY_ALL * total:
        if text.lstrip().startswith("["):
            return Json("json", False, "format json: an array of objects")
        return Json("json", False, "format json: objects over several lines, or several on one")
    if begins and suffix == ".json":
        # What is broken in it is told record by record.
        return Json("json", False, "format json: by its name, and it begins like JSON")
    return None


def is_json(text: str) -> bool:
    """Return whether a text is one JSON value."""
    try:
        _decode(text.strip())
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True


def _is_object(line: str) -> bool:
    return line.lstrip().startswith("{") and is_json(line)
