"""Make the parser of a source for one generation."""

from __future__ import annotations

from typing import Any

from filecollect.domain.columns import Layout
from filecollect.errors import Unsupported
from filecollect.parse.api import Parser
from filecollect.parse.csvfile import CsvParser
from filecollect.parse.jsonl import JsonlParser
from filecollect.parse.lines import LinesParser
from filecollect.parse.spec import Spec


def make_parser(spec: Spec, layout: Layout, state: dict[str, Any] | None) -> Parser:
    """Return a parser; `state` is the checkpoint's, None at the start. Raises Unsupported."""
    if spec.format == "csv":
        return CsvParser(spec, layout, (state or {}).get("header"))
    if spec.format == "jsonl":
        return JsonlParser(spec, layout)
    if spec.format == "lines":
        return LinesParser(spec, layout)
    raise Unsupported(f"format {spec.format!r} is not read by this version")
