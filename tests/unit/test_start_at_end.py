"""Where a file that is entered at its end begins: behind the last whole line, in every encoding."""

from __future__ import annotations

import pytest

from filecollect.files.content import Content
from filecollect.parse.lineends import LineEnds
from filecollect.pipeline import record


class Bytes:
    """Content in memory, which a compressed file gives in pieces of any size."""

    def __init__(self, data: bytes, codec: str, piece: int) -> None:
        self.data = data
        self.codec = codec
        self.piece = piece

    def read_at(self, offset: int, length: int) -> bytes:
        """Return some bytes from `offset` on, all of them when plain."""
        most = length if self.codec == "plain" else min(length, self.piece)
        return self.data[offset : offset + most]


@pytest.mark.parametrize("codec", ["plain", "gzip"])
@pytest.mark.parametrize("window", [4, 8, 64])
@pytest.mark.parametrize(
    ("text", "encoding", "rest"),
    [
        ("one\ntwo\nthr", "utf-8", "thr"),
        ("one\ntwo\n", "utf-8", ""),
        ("one\r\ntwo\r\nĊĊĊ\u0a0a", "utf-16-le", "ĊĊĊ\u0a0a"),
        ("one\ntwo\n\u0a0aĊ\u0a00\u000ax", "utf-16-be", "x"),
        ("\n\u0a0a\u0100", "utf-16-le", "\u0a0a\u0100"),
        ("one\nĊ", "utf-32-be", "Ċ"),
        ("ĊĊ\u0a0a", "utf-16-le", None),
        ("none", "utf-8", None),
    ],
)
def test_the_end_of_the_last_line_is_found(
    monkeypatch: pytest.MonkeyPatch, text: str, encoding: str, rest: str | None, window: int, codec: str
) -> None:
    """Bytes of a line end inside other characters are none, wherever the windows are cut."""
    monkeypatch.setattr(record, "LINE_READ", window)
    data = text.encode(encoding)
    expected = 0 if rest is None else len(data) - len(rest.encode(encoding))
    content: Content = Bytes(data, codec, 5 if encoding == "utf-8" else 7)  # type: ignore[assignment]
    for half in (b"", b"\0") if encoding != "utf-8" else (b"",):
        content.data = data + half  # type: ignore[attr-defined]
        assert record._last_line_end(content, LineEnds(encoding), len(data) + len(half)) == expected
