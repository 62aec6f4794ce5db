"""Encodings: which one, what a line end is in it, exact places, and undecodable bytes by policy."""

from __future__ import annotations

import pytest

from filecollect.domain.columns import Column, Layout
from filecollect.parse.api import Parsed, Tail
from filecollect.parse.build import make_parser
from filecollect.parse.encoding import decide_encoding
from filecollect.parse.lineends import LineEnds
from filecollect.parse.spec import Spec

TABLE = Layout((Column("id", "id", "integer"), Column("name", "name", "text")))
LINES = Layout((Column("line", "line", "text"),))
ITEMS = Layout((Column("payload", "*", "json"), Column("source_item_id", "*", "text")), (), "items")


def parse(data: bytes, spec: Spec, layout: Layout = TABLE, tail: Tail = Tail.TAKE) -> Parsed:
    """Parse a whole file from its top."""
    return make_parser(spec, layout, None).parse(data, offset=0, line=1, limit=100, tail=tail)


def rows(parsed: Parsed) -> list[tuple[object, ...]]:
    """Return the records as rows."""
    return list(zip(*parsed.records.columns, strict=True))


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("id,name\n1,a\n", "utf-16-le"),
        ("id,name\n1,a\n", "utf-16-be"),
        ("id,name\n1,a\n", "utf-32-le"),
        ("id,name\n1,a\n", "utf-32-be"),
        ("номер;имя\r\n1;Иван Петров\r\n2;Анна Кузнецова\r\n", "utf-16-le"),
        ("番号,名前\r\n1,山田太郎\r\n2,佐藤花子\r\n3,鈴木一郎\r\n", "utf-16-be"),
        ("番号,名前\r\n1,山田太郎\r\n2,佐藤花子\r\n3,鈴木一郎\r\n", "cp932"),
        ("编号,姓名,城市\n1,王小明,北京\n2,李小红,上海\n", "gb18030"),
        ("編號,姓名,城市\n1,王小明,臺北\n2,李小紅,高雄\n", "big5"),
        ("番号,名前,都市\n1,山田太郎,東京\n2,佐藤花子,大阪\n", "euc_jp"),
        ("번호,이름,도시\n1,김철수,서울\n2,이영희,부산\n", "cp949"),
    ],
)
def test_encodings_are_told_without_a_mark(text: str, encoding: str) -> None:
    """Wide ones by where their NULs stand, others by their statistics."""
    assert decide_encoding(text.encode(encoding), None)[0] == encoding


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-8"])
def test_a_mark_outweighs_what_was_asked_for(encoding: str) -> None:
    """It cannot stand there by chance, and it belongs to no record."""
    data = "\ufeffid,name\n1,ü\n".encode(encoding)
    assert decide_encoding(data, "cp1252")[0] == encoding
    parsed = parse(data, Spec("csv", encoding="cp1252"))
    assert rows(parsed) == [(1, "ü")]
    assert parsed.records.offsets == [len("\ufeffid,name\n".encode(encoding))]


@pytest.mark.parametrize("data", [b"one\0two\nthree\0four\nfive\n", b"plain text\n", b"a\0\nb\0\nc\0\n", b"\0"])
def test_a_few_nuls_do_not_make_text_wide(data: bytes) -> None:
    """They are data."""
    assert decide_encoding(data, None)[0] == "utf-8"


@pytest.mark.parametrize(
    ("asked", "encoding"), [("utf-16", "utf-16-be"), ("utf-16", "utf-16-le"), ("utf-32", "utf-32-be")]
)
def test_a_byte_order_that_was_not_said_is_found(asked: str, encoding: str) -> None:
    """By the NULs, as without a wish."""
    assert decide_encoding("id,name\n".encode(encoding), asked)[0] == encoding


@pytest.mark.parametrize(
    "encoding",
    ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "latin-1", "cp1252", "cp932", "gb18030", "big5",
     "euc_jp", "cp949"],
)  # fmt: skip
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_places_count_the_bytes_of_the_file(encoding: str, newline: str) -> None:
    """Offsets, lengths and lines of quoted records in every encoding and with every line end."""
    word = {"latin-1": "größe", "cp1252": "größe €", "cp949": "한국어", "big5": "許功蓋"}.get(encoding, "十表")
    lines = ["id,name", f'1,"{word}, x{newline}y"', f"2,{word}", ""]
    data = newline.join(lines).encode(encoding)
    parsed = parse(data, Spec("csv", encoding=encoding, newline="\r" if newline == "\r" else "\n"))
    first = len((lines[0] + newline).encode(encoding))
    second = first + len((lines[1] + newline).encode(encoding))
    assert rows(parsed) == [(1, f"{word}, x{newline}y"), (2, word)]
    assert parsed.records.offsets == [first, second]
    assert parsed.records.lengths == [second - first, len(data) - second]
    assert list(parsed.records.lines) == [2, 4]
    assert (parsed.consumed, parsed.lines) == (len(data), 4)


def test_a_line_end_counts_only_at_a_whole_unit() -> None:
    """U+0A0A and U+010A hold the byte of a line end, and are none."""
    ends = LineEnds("utf-16-le")
    data = "\u0a0aĊ\n\u000a".encode("utf-16-le")
    assert ends.after(data, 0) == 6
    # 41 0A, 00 41, 0A 00: the first 0A 00 lies across two characters.
    assert ends.after("\u0a41\u4100\n".encode("utf-16-le"), 0) == 6
    assert ends.after_last(data) == 8
    assert ends.after_last(data[:4]) == -1
    assert ends.after_last("\nĊ\u0a0a".encode("utf-16-le")) == 2
    assert ends.split(data, 9) == ["\u0a0aĊ".encode("utf-16-le"), b"", b""]
    parsed = parse(data + "x\n".encode("utf-16-le"), Spec("lines", encoding="utf-16-le"), LINES)
    assert rows(parsed) == [("\u0a0aĊ",), ("x",)]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_a_long_line_is_passed_over_in_pieces_that_cut_characters(size: int) -> None:
    """The end is found at the same byte."""
    data = ("Ċ" * 20 + "\n" + "next\n").encode("utf-16-le")
    skip = LineEnds("utf-16-le").skip()
    position, found = 0, -1
    while found < 0:
        found = skip.feed(data[position : position + size])
        position += found if found >= 0 else size
    assert (position, skip.lines) == (42, 1)


@pytest.mark.parametrize(
    ("spec", "layout", "data", "good"),
    [
        (Spec("csv"), TABLE, b"id,name\n1,\xff\n2,b\n", [(1, "\ufffd"), (2, "b")]),
        (Spec("jsonl"), TABLE, b'{"id":1,"name":"\xff"}\n{"id":2,"name":"b"}\n', [(1, "\ufffd"), (2, "b")]),
        (Spec("json"), TABLE, b'[{"id":1,"name":"\xff"},{"id":2,"name":"b"}]', [(1, "\ufffd"), (2, "b")]),
        (Spec("lines"), LINES, b"a\xffb\nc\n", [("a\ufffdb",), ("c",)]),
    ],
)
def test_undecodable_bytes_are_quarantined_or_replaced_and_counted(
    spec: Spec, layout: Layout, data: bytes, good: list[tuple[object, ...]]
) -> None:
    """A replaced one stays in `_extra` in hex."""
    from dataclasses import replace

    refused = parse(data, spec, layout)
    assert (rows(refused), [one.reason for one in refused.bad]) == (good[1:], ["bad_encoding"])
    replaced = parse(data, replace(spec, encoding_errors="replace"), layout)
    assert (rows(replaced), replaced.bad) == (good, [])
    assert replaced.records.extras == {0: '{"_undecodable":"ff"}'}
    assert replaced.misfits == {"_undecodable": 1}


def test_a_replaced_byte_stands_beside_other_extras() -> None:
    """The JSON stays one object."""
    spec = Spec("jsonl", encoding_errors="replace")
    parsed = parse(b'{"id":1,"x":"\xff\xfe"}\n', spec)
    assert parsed.records.extras == {0: '{"x":"\ufffd\ufffd","_undecodable":"ff fe"}'}


def test_an_unpaired_surrogate_in_utf_16_is_undecodable() -> None:
    """That record only."""
    data = "id,name\n1,".encode("utf-16-le") + b"\x00\xd8" + "\n2,b\n".encode("utf-16-le")
    parsed = parse(data, Spec("csv", encoding="utf-16-le"))
    assert (rows(parsed), [one.reason for one in parsed.bad]) == ([(2, "b")], ["bad_encoding"])
    assert "00 d8" in parsed.bad[0].message


def test_half_a_character_at_the_end_waits() -> None:
    """And is told when it may wait no longer."""
    data = "id,name\n1,a\n2,b".encode("utf-16-le")[:-1]
    assert parse(data, Spec("csv", encoding="utf-16-le"), tail=Tail.TRY).consumed == 24
    taken = parse(data, Spec("csv", encoding="utf-16-le"))
    assert (rows(taken), [(one.offset, one.length, one.reason) for one in taken.bad]) == (
        [(1, "a")],
        [(24, 5, "truncated_record")],
    )


def test_a_half_mark_waits() -> None:
    """FF FE may become UTF-32's mark, so nothing is decided on it."""
    parser = make_parser(Spec("lines"), LINES, None)
    for size in (1, 2, 3):
        data = "\ufeffx\n".encode("utf-32-le")[:size]
        assert parser.parse(data, offset=0, line=1, limit=9, tail=Tail.WAIT).consumed == 0
    whole = parser.parse("\ufeffx\n".encode("utf-32-le"), offset=0, line=1, limit=9, tail=Tail.WAIT)
    assert (rows(whole), parser.state()["encoding"]) == ([("x",)], "utf-32-le")
