"""Plain lines: one row a line, in the one column `line`. Empty lines are no records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from filecollect.parse.convert import json_text
from filecollect.parse.linewise import LineParser


class LinesParser(LineParser):
    """Parse plain lines; everything but the line end is data."""

    blank_chars = b"\r"

    def records(self, lines: Sequence[bytes]) -> tuple[list[Sequence[Any]], dict[int, str], dict[int, tuple[str, str]]]:
        """Return the decoded lines."""
        encoding = self.spec.encoding
        wrong: dict[int, tuple[str, str]] = {}
        try:
            texts = [line.decode(encoding) for line in lines]
        except UnicodeDecodeError:
            texts = []
            for index, line in enumerate(lines):
                try:
                    texts.append(line.decode(encoding))
                except UnicodeDecodeError as problem:
                    wrong[index] = ("bad_encoding", f"byte {problem.start} of the line is not {encoding}")
                    texts.append("")
        if self.layout.kind == "items":
            return [[json_text({"line": text}) for text in texts], [None] * len(texts)], {}, wrong
        names = [column.source_name for column in self.layout.columns]
        return [texts if name == "line" else [None] * len(texts) for name in names], {}, wrong
