"""Make the parser for a source's spec, a table's layout and, when resuming, the state in the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from filecollect.domain.columns import Layout
from filecollect.errors import CheckpointError
from filecollect.parse.api import Parser
from filecollect.parse.csvfile import CsvParser
from filecollect.parse.framing import LineParser
from filecollect.parse.jsonl import JsonLines
from filecollect.parse.lines import Lines
from filecollect.parse.spec import Spec


def make_parser(spec: Spec, layout: Layout, state: Mapping[str, Any] | None) -> Parser:
    """Return a parser that starts at the top (`state` None) or resumes with what `state()` returned.

    A generation keeps its encoding and dialect, whatever the source's are by now. Raises
    CheckpointError for a state of another format, or one that is damaged.
    """
    header = None
    if state:
        try:
            if state["format"] != spec.format:
                raise CheckpointError(f"the checkpoint is one of {state['format']}, the source is {spec.format}")
            spec = replace(spec, encoding=state["encoding"], **(state["dialect"] or {}))
            header = state["header"]
        except (KeyError, TypeError) as problem:
            raise CheckpointError(f"the parser's state in the checkpoint is damaged: {problem}") from problem
    if spec.format == "csv":
        return CsvParser(spec, layout, header)
    return LineParser(spec, layout, JsonLines(spec, layout) if spec.format == "jsonl" else Lines(spec, layout))
