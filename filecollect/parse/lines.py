"""Plain lines: each line that is not empty is a record with one field, `line`.

The line end (`\\n` or `\\r\\n`) is cut off, a `\\r` elsewhere is data. Empty lines are consumed but are no
records: they carry nothing, and an editor's last empty line is no row. A line that the encoding cannot
decode is quarantined as `bad_encoding`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from filecollect.domain.columns import Layout
from filecollect.parse.framing import Built
from filecollect.parse.spec import Spec
from filecollect.parse.table import TextItems, TextTable

COLUMN = "line"


def decoded(lines: Sequence[bytes], encoding: str) -> tuple[list[str], dict[int, tuple[str, str]]]:
    """Return the texts of lines; the undecodable ones are refused by position (and have an empty text)."""
    try:
        texts = b"\n".join(lines).decode(encoding).split("\n")
        if len(texts) == len(lines):
            return texts, {}
    except UnicodeDecodeError:
        pass
    texts, bad = [], {}
    for index, line in enumerate(lines):
        try:
            texts.append(line.decode(encoding))
        except UnicodeDecodeError as problem:
            texts.append("")
            bad[index] = ("bad_encoding", encoding_message(problem))
    return texts, bad


def encoding_message(problem: UnicodeDecodeError) -> str:
    """Return the sentence that refuses undecodable bytes."""
    found = problem.object[problem.start : problem.end][:8].hex(" ")
    return f"the bytes {found} at position {problem.start} of the record are not {problem.encoding}"


class Lines:
    """The `lines` format."""

    name = "lines"
    blank = re.compile(rb"(?:\r?\n)++")

    def __init__(self, spec: Spec, layout: Layout) -> None:
        self._encoding = spec.encoding
        table = TextItems if layout.kind == "items" else TextTable
        # No text of a line is NULL.
        self._table = table(layout, [COLUMN], frozenset())

    def is_whole(self, line: bytes) -> bool:
        """Return whether an unterminated line decodes: one cut inside a character does not."""
        try:
            line.decode(self._encoding)
        except UnicodeDecodeError:
            return False
        return True

    def build(self, lines: Sequence[bytes]) -> Built:
        """Make values of lines."""
        texts, bad = decoded(lines, self._encoding)
        texts = [text.removesuffix("\r") for text in texts]
        built = self._table.build([texts], len(texts), {}, {})
        built.blank = [index for index, text in enumerate(texts) if not text and index not in bad]
        built.bad |= bad
        return built
