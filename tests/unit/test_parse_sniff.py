"""Which format a file has: by content, name and wish, and what is refused with one sentence."""

from __future__ import annotations

import random

import pytest

from filecollect.errors import Unsupported
from filecollect.parse.encoding import usable_encoding
from filecollect.parse.sniff import Sniffed, record_suffix, sniff
from filecollect.parse.spec import Spec, Wanted


def look(head: bytes, name: str, wanted: Wanted | None = None, complete: bool = True) -> Sniffed:
    """Sniff a small file."""
    return sniff(head, complete=complete, name=name, wanted=wanted or Wanted())


@pytest.mark.parametrize(
    ("head", "name", "expected"),
    [
        (b'{"a":1}\n{"a":2}\n', "x.jsonl", "jsonl"),
        (b'{"a":1}\n{"a":2}\n', "app.log", "jsonl"),
        (b'{"id":1}\n{"id":2', "p.jsonl", "jsonl"),
        (b"not json\n", "x.ndjson", "jsonl"),
        (b'{"a":1}', "one.json", "jsonl"),
        (b"id,name\n1,a\n", "x.csv", "csv"),
        (b"id,name\n1,a\n", "x.txt", "csv"),
        (b"id,name\n1,a\n", "x", "csv"),
        (b"name\nalice\nbob\n", "x.csv", "csv"),
        (b"x\ty\n1\t2\n", "x.tsv", "csv"),
        (b"Hello, world\nBye, moon\n", "notes.txt", "lines"),
        (b"2024-01-01 ERROR a, b\n2024-01-01 INFO c, d\n", "app.log", "lines"),
        (b"alice,paris\nbob,rome\n", "app.log.2", "lines"),
        (b"[2024-01-01 10:00:00] INFO started\n[2024-01-01 10:00:01] x\n", "app.log", "lines"),
        (b'{"a":1}\nplain\nplain\n', "app.log", "lines"),
        (b"a|b|c\n", "app.out", "lines"),
        (b"one line", "x.txt", "lines"),
    ],
)
def test_the_format_is_told_by_content_and_name(head: bytes, name: str, expected: str) -> None:
    """A log stays lines, whatever its punctuation; a record suffix is believed."""
    assert look(head, name).spec.format == expected


@pytest.mark.parametrize(
    ("head", "delimiter"),
    [
        (b"a;b\n1,5;2,5\n3,5;4,5\n", ";"),
        (b"a\tb\n1,2\t3\n", "\t"),
        (b"a|b|c\n1|2|3\n", "|"),
        (b'a,b\n"x;y",1\n"z;w",2\n', ","),
        (b"name;value, EUR;x\na;1;2\nb;3;4\n", ";"),
        (b"only\n1\n2\n", ","),
    ],
)
def test_header_and_whole_sample_decide_the_delimiter(head: bytes, delimiter: str) -> None:
    """A decimal comma is no delimiter."""
    assert look(head, "x.csv").spec.delimiter == delimiter


@pytest.mark.parametrize(
    ("head", "header"),
    [
        (b"id,name\n1,a\n2,b\n", True),
        (b"1,a\n2,b\n", False),
        (b"name,city\nalice,paris\n", True),
        (b"2023,2024\nx,y\n", False),
        (b"city,2023,2024\nrome,1,2\n", False),
        (b",a,b\n0,1,2\n1,3,4\n", True),
        (b"a,a\nx,y\n", False),
        (b"id,name\n", True),
        (b"7,x\n", False),
        (b"when\n2024-01-01\n", True),
    ],
)
def test_typed_columns_tell_a_header(head: bytes, header: bool) -> None:
    """A first cell that fits its column speaks against one; without types looks decide."""
    assert look(head, "x.csv").spec.header is header


def test_every_decision_says_why() -> None:
    """For `preview`: encoding, format, delimiter and header, a sentence each."""
    assert look(b"id,name\n1,a\n", "x.csv").why == (
        "encoding UTF-8: all of the sample is ASCII",
        "format csv: the name ends in .csv",
        "delimiter comma: 100% of the sample's records have 2 fields",
        "header: 'id' stands over a column of type integer",
    )


def test_what_was_asked_for_is_taken() -> None:
    """Format, delimiter, header, encoding and the limits go into the spec as they are."""
    wanted = Wanted(format="csv", delimiter="#", header=False, encoding="latin-1", null=("-",), ragged="pad")
    spec = look(b"1#\xff\n", "x.bin", wanted).spec
    assert spec == Spec("csv", encoding="iso8859-1", delimiter="#", header=False, null=("-",), ragged="pad")
    assert look(b"id,name\n1,a\n", "x.csv", Wanted(format="lines")).spec.format == "lines"
    assert look(b"# top\nid,name\n1,a\n", "x.csv", Wanted(skip_lines=1)).spec.header is True


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ("id,name\n1,ü\n".encode(), "utf-8"),
        ("\ufeffid,name\n1,ü\n".encode(), "utf-8"),
        ("id,name\n1,ü".encode()[:-1], "utf-8"),
        (("name\n" + "größe\n" * 40).encode() + b"\xff\n", "utf-8"),
        ("name,stadt\nMüller,Köln\nJäger,Düsseldorf\nStraße,Gießen\n".encode("cp1252"), "cp1252"),
        ("имя,город\nИван,Москва\nАнна,Казань\n".encode("cp1251"), "cp1251"),
        ("名前,都市\n山田太郎,東京\n佐藤花子,大阪\n".encode("cp932"), "cp932"),
    ],
)
def test_the_encoding_is_told_by_its_bytes(head: bytes, encoding: str) -> None:
    """UTF-8 also with a cut last character or a few broken bytes; legacy ones by their statistics."""
    assert look(head, "x.csv").spec.encoding == encoding


@pytest.mark.parametrize(
    ("head", "name", "part"),
    [
        (random.Random(7).randbytes(4000), "orders-21.csv", "binary content"),
        (b"\0" * 50, "x.log", "binary content"),
    ],
)
def test_what_cannot_be_read_is_refused_with_one_sentence(head: bytes, name: str, part: str) -> None:
    """Never read as something else."""
    with pytest.raises(Unsupported, match=part) as raised:
        look(head, name)
    assert "\n" not in raised.value.message


def test_some_nuls_in_text_are_data() -> None:
    """And a run of them at the end is not yet written."""
    assert look(b"one\0two\nthree\n" + b"\0" * 4096, "app.log").spec.format == "lines"


@pytest.mark.parametrize("name", ["utf-7", "iso2022_jp", "hz", "rot13", "no-such"])
def test_encodings_that_cannot_be_read_from_the_middle_are_refused(name: str) -> None:
    """With shift sequences a line means nothing without the lines before it."""
    with pytest.raises(Unsupported):
        usable_encoding(name)


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("orders.csv", ".csv"),
        ("ORDERS.CSV.gz", ".csv"),
        ("app.log.2", ".log"),
        ("app.log.2.gz", ".log"),
        ("app.log-20261101", ".log"),
        ("orders (1).csv", ".csv"),
        ("orders.csv.bak", ".csv"),
        ("x.jsonl~", ".jsonl"),
        ("syslog", ""),
        ("syslog.1", ""),
        (".hidden", ""),
    ],
)
def test_rotation_and_packing_do_not_hide_the_suffix(name: str, suffix: str) -> None:
    """The suffix that tells the format is found behind them."""
    assert record_suffix(name) == suffix


def test_a_spec_survives_its_stored_form() -> None:
    """Also names given instead of a header, and a form that an older version stored."""
    spec = Spec("csv", header=("a", "b"), null=("NA",), delimiter=";")
    assert Spec.from_json(spec.to_json()) == spec
    assert Spec.from_json({"format": "lines", "unknown": 1}) == Spec("lines")


@pytest.mark.parametrize(
    ("head", "name", "expected", "bare"),
    [
        (b'[\n{"a":1},\n{"a":2}\n]\n', "x.json", "json", False),
        (b'[{"a":1},{"a":2}]', "export.txt", "json", False),
        (b'[{"a":1},{"a":2}]\n', "x.jsonl", "json", False),
        (b'{\n  "a": 1\n}\n', "x.json", "json", False),
        (b'{\n  "a": 1\n}\n{\n  "a": 2\n}\n', "x.txt", "json", False),
        (b'{"a":1}{"a":2}\n', "x.jsonl", "json", False),
        (b'{"a":1},\n{"a":2}\n', "x.jsonl", "json", False),
        (b'[{"a":1}, {"a":nope}]', "x.json", "json", False),
        (b"[1,2]\n[3,4]\n", "x.jsonl", "jsonl", True),
        (b"[1,\n2]\n", "x.json", "json", True),
        (b"1\n2\n", "x.ndjson", "jsonl", True),
        (b"[1,2]\n[3,4]\n", "x.txt", "lines", False),
        (b"1\n2\n", "x.txt", "lines", False),
        (b"{ not json }\n{ either }\n", "x.log", "lines", False),
        (b'{"a":1} and text\n{"a":2} and text\n', "x.log", "lines", False),
        (b"[info] {a}\n[info] {b}\n", "x.log", "lines", False),
    ],
)
def test_the_shape_of_json_is_told_by_content(head: bytes, name: str, expected: str, bare: bool) -> None:
    """Lines, documents, and values that are no objects; text with brackets is text."""
    spec = look(head, name).spec
    assert (spec.format, spec.bare) == (expected, bare)


def test_a_json_document_longer_than_the_sample_is_told_by_its_begin() -> None:
    """No value of it has ended yet."""
    head = b'[\n  {\n    "a": [' + b"1,\n" * 100
    assert look(head, "x.txt", complete=False).spec.format == "json"
    assert look(b'{"a": [' + b"1, " * 100, "x.txt", complete=False).spec.format == "jsonl"


@pytest.mark.parametrize(
    ("head", "skip_lines", "delimiter"),
    [
        (b"Sales 2026\nby region\n\nid,name,amt\n1,a,2\n2,b,3\n", 3, ","),
        (b"Report;;\n;;\nid;name;amt\n1;a;2\n2;b;3\n", 2, ";"),
        (b"sep=;\nid;name\n1;a\n", 1, ";"),
        (b'"sep=|"\r\nid|name\r\n1|a\r\n', 1, "|"),
        (b"id,name,amt\n1,a,2\n2,b\n3,c,4\n", 0, ","),
        (b"a,b,c\n1,2,3,4\n1,2,3,4\n", 0, ","),
        (b"name\nalice, smith\nbob, brown\n", 0, ","),
    ],
)
def test_titles_above_the_header_are_passed_over(head: bytes, skip_lines: int, delimiter: str) -> None:
    """Only where nearly all rows below are as wide as the header; a ragged file has no titles."""
    found = look(head, "x.csv")
    assert (found.spec.skip_lines, found.spec.delimiter) == (skip_lines, delimiter)
    assert any("passed over" in sentence for sentence in found.why) is bool(skip_lines)


@pytest.mark.parametrize(
    ("head", "comment"),
    [
        (b"# made today\nid,name\n1,a\n", "#"),
        (b"# made, today\nid,name\n1,a\n", "#"),
        (b"#id,name\n1,a\n", ""),
        (b"#name,city\nalice,paris\nbob,rome\n", ""),
        (b"id,name\n#1,a\n", ""),
    ],
)
def test_comments_are_told_at_the_top(head: bytes, comment: str) -> None:
    """A header that begins with the sign is a header."""
    assert look(head, "x.csv").spec.comment == comment


@pytest.mark.parametrize(
    ("head", "name", "quote", "escape"),
    [
        (b"1\ta\t\\N\n2\tb\tc\n", "x.tsv", "", "\\"),
        (b'1\t"a"\t\\N\n2\tb\tc\n', "x.tsv", "", "\\"),
        (b'"1","a",\\N\n"2","b","c"\n', "x.csv", '"', "\\"),
        (b"1,a\\b\n2,c\n", "x.csv", '"', ""),
    ],
)
def test_a_database_dump_is_told_by_its_null(head: bytes, name: str, quote: str, escape: str) -> None:
    """In the text format of COPY quotes are data; a backslash alone proves nothing."""
    spec = look(head, name).spec
    assert (spec.quote, spec.escape) == (quote, escape)


@pytest.mark.parametrize(
    ("head", "name", "newline"),
    [
        (b"id,name\r1,a\r2,b\r", "x.csv", "\r"),
        (b'{"a":1}\r{"a":2}\r', "x.jsonl", "\r"),
        (b"one\rtwo\rthree\r", "x.txt", "\r"),
        (b"10%\r20%\r30%\r", "x.log", "\n"),
        (b"id,name\r\n1,a\r\n", "x.csv", "\n"),
        (b"id,name\r", "x.csv", "\n"),
    ],
)
def test_lines_of_old_macs_end_in_a_return(head: bytes, name: str, newline: str) -> None:
    """A progress bar in a log does, too, and is no file of lines."""
    assert look(head, name).spec.newline == newline
