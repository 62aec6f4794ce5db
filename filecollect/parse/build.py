"""Make the parser for a source's spec, a table's layout and, when resuming, the state in the checkpoint.

A byte order mark at the top of a file outweighs the source's encoding: files of one source may come
from different programs. The generation then keeps its encoding, as it keeps its dialect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from filecollect.domain.columns import Layout
from filecollect.errors import CheckpointError
from filecollect.parse.api import Parsed, Parser, Skip, Tail
from filecollect.parse.csvfile import CsvParser
from filecollect.parse.encoding import marked_encoding, may_become_mark
from filecollect.parse.framing import LineParser
from filecollect.parse.jsonfile import JsonParser
from filecollect.parse.jsonl import JsonLines
from filecollect.parse.lineends import LineEnds
from filecollect.parse.lines import Lines
from filecollect.parse.spec import Spec


def make_parser(spec: Spec, layout: Layout, state: Mapping[str, Any] | None) -> Parser:
    """Return a parser that starts at the top (`state` None) or resumes with what `state()` returned.

    Raises CheckpointError for a state of another format, or one that is damaged.
    """
    if not state:
        return _FromTop(spec, layout)
    try:
        if state["format"] != spec.format:
            raise CheckpointError(f"the checkpoint is one of {state['format']}, the source is {spec.format}")
        spec = replace(spec, encoding=state["encoding"], **(state["dialect"] or {}))
        return _parser(spec, layout, state["header"], state.get("array"))
    except (KeyError, TypeError) as problem:
        raise CheckpointError(f"the parser's state in the checkpoint is damaged: {problem}") from problem


def _parser(spec: Spec, layout: Layout, header: list[str] | None, array: str | None) -> Parser:
    if spec.format == "csv":
        return CsvParser(spec, layout, header)
    if spec.format == "json":
        return JsonParser(spec, layout, array)
    return LineParser(spec, layout, JsonLines(spec, layout) if spec.format == "jsonl" else Lines(spec, layout))


class _FromTop:
    """A Parser that looks for a byte order mark first."""

    def __init__(self, spec: Spec, layout: Layout) -> None:
        self._spec = spec
        self._layout = layout
        self._parser = _parser(spec, layout, None, None)
        self._begun = False

    @property
    def ends(self) -> LineEnds:
        """Return how lines end in this file."""
        return self._parser.ends

    def parse(self, data: bytes, *, offset: int, line: int, limit: int, tail: Tail) -> Parsed:
        """Parse at most `limit` records; see `Parser.parse`."""
        if offset == 0:
            if tail is Tail.WAIT and may_become_mark(data):
                return Parsed()
            marked = marked_encoding(data)
            if marked is not None and marked != self._spec.encoding:
                self._spec = replace(self._spec, encoding=marked)
                self._parser = _parser(self._spec, self._layout, None, None)
        parsed = self._parser.parse(data, offset=offset, line=line, limit=limit, tail=tail)
        self._begun = self._begun or parsed.consumed > 0
        return parsed

    def skip(self) -> Skip:
        """Return what finds the end of a record too long to be held."""
        self._begun = True
        return self._parser.skip()

    def state(self) -> dict[str, Any]:
        """Return what a resume needs: nothing as long as it must look for the mark again."""
        return self._parser.state() if self._begun else {}
