"""Plain lines: each line that is not empty is a record with one field, `line`.

The line end (`\\n` or `\\r\\n`) is cut off, a `\\r` elsewhere is data. Empty lines are consumed but are no
records: they carry nothing, and an editor's last empty line is no row. A line that the encoding cannot
decode is quarantined as `bad_encoding`.
"""

from __future__ import annotations

from collections.abc import Sequence

from filecollect.domain.columns import Layout
from filecollect.parse.encoding import decoded
from filecollect.parse.framing import Built
from filecollect.parse.lineends import LineEnds
from filecollect.parse.spec import Spec
from filecollect.parse.table import text_table

COLUMN = "line"


class Lines:
    """The `lines` format."""

    name = "lines"

    def __init__(self, spec: Spec, layout: Layout) -> None:
        self.ends = LineEnds(spec.encoding, spec.newline)
        self.blank = self.ends.blank_lines()
        self._encoding = spec.encoding
        self._errors = spec.encoding_errors
        # No text of a line is NULL.
        self._table = text_table(layout, [COLUMN], frozenset())

    def is_whole(self, line: bytes) -> bool:
        """Return whether an unterminated line decodes: one cut inside a character does not."""
        try:
            line.decode(self._encoding)
        except UnicodeDecodeError as problem:
            return self._errors == "replace" and problem.end < len(line)
        return True

    def build(self, lines: Sequence[bytes]) -> Built:
        """Make values of lines."""
        texts, bad, replaced = decoded(lines, self._encoding, self._errors)
        texts = [text.removesuffix("\r") for text in texts]
        built = self._table.build([texts], len(texts), {}, {})
        built.blank = [index for index, text in enumerate(texts) if not text and index not in bad]
        built.bad |= bad
        built.replaced = replaced
        return built
