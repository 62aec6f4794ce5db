"""Inferred columns: types that lose nothing, whatever the order of files and records."""

from __future__ import annotations

import itertools

import pytest

from filecollect.domain.columns import Column
from filecollect.parse.infer import Inference
from filecollect.parse.spec import Spec


def csv_types(*values: str, spec: Spec | None = None) -> str:
    """Return the type of a one-column CSV."""
    inference = Inference(spec or Spec("csv"))
    inference.add(("x,y\n" + "".join(f"{value},\n" for value in values)).encode())
    return inference.columns({})[0].type


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-2", ""], "integer"),
        (["0", "1"], "integer"),
        (["1", "2.5"], "real"),
        (["1", "1.2345678901234567"], "decimal"),
        (["2.5", "12345678901234567890"], "decimal"),
        (["2.5", "9007199254740993"], "decimal"),
        (["94105", "00501"], "text"),
        (["1", "true"], "text"),
        (["true", "FALSE"], "boolean"),
        (["2024-01-01"], "date"),
        (["2024-01-01", "2024-01-01T10:00"], "text"),
        (["2024-01-01T10:00", "2024-01-01 10:00:00.5"], "timestamp"),
        (["2024-01-01T10:00", "2024-01-01T10:00Z"], "text"),
        (["1.10", "1.9.0"], "text"),
        (["", ""], "text"),
        (["yes", "no"], "text"),
    ],
)
def test_a_type_fits_every_value_in_any_order(values: list[str], kind: str) -> None:
    """The first value has no more to say than the last."""
    for order in itertools.permutations(values):
        assert csv_types(*order) == kind


def test_zip_codes_in_two_files_are_text_in_either_order() -> None:
    """A leading zero in one file is enough."""
    files = [b"zip\n94105\n", b"zip\n00501\n"]
    for order in (files, files[::-1]):
        inference = Inference(Spec("csv"))
        for one in order:
            inference.add(one)
        assert inference.columns({}) == (Column("zip", "zip", "text"),)


def test_columns_of_several_files_are_united_in_the_order_first_seen() -> None:
    """Equal names are told by their number of occurrence, and names made over all of them."""
    inference = Inference(Spec("csv"))
    inference.add(b"a,A,a,a_1\n1,2,3,4\n")
    inference.add(b"b,a\nx,5\n")
    names = [(column.name, column.source_name, column.type) for column in inference.columns({})]
    assert names == [
        ("a", "a", "integer"),
        ("A_2", "A", "integer"),
        ("a_3", "a", "integer"),
        ("a_1", "a_1", "integer"),
        ("b", "b", "text"),
    ]


def test_declared_types_win_and_unseen_columns_are_added() -> None:
    """A declaration names the source's column or the table's; zones are told by the sample."""
    inference = Inference(Spec("csv"))
    inference.add(b"_offset,at,n\n1,2024-01-01T10:00Z,1\n")
    declared = {"_offset_2": "text", "at": "timestamp", "later": "date"}
    assert inference.columns(declared) == (
        Column("_offset_2", "_offset", "text", declared=True),
        Column("at", "at", "timestamp", declared=True, zoned=True),
        Column("n", "n", "integer"),
        Column("later", "later", "date", declared=True),
    )


def test_null_words_do_not_vote() -> None:
    """NA says nothing about the type."""
    assert csv_types("1", "NA", spec=Spec("csv", null=("NA",))) == "integer"
    assert csv_types("1", "NA") == "text"


def test_json_types_win_over_looks() -> None:
    """Strings stay text, mixtures of scalars become text, anything nested becomes JSON."""
    inference = Inference(Spec("jsonl"))
    inference.add(
        b'{"s":"007","i":1,"r":1.5,"m":1,"x":1,"n":null,"o":{"a":1},"b":true,"big":9223372036854775808,"d":"2024-01-01"}\n'
        b'{"i":2,"r":2,"m":"a","o":3,"big":1,"long":0.1234567890123456,"e":1e5,"x":true}\n'
    )
    assert {column.name: column.type for column in inference.columns({})} == {
        "s": "text",
        "i": "integer",
        "r": "real",
        "m": "text",
        "x": "text",
        "n": "text",
        "o": "json",
        "b": "boolean",
        "big": "decimal",
        "d": "text",
        "long": "decimal",
        "e": "real",
    }


def test_a_cut_sample_does_not_vote_with_its_cut_records() -> None:
    """Neither the end of the head nor the beginning of the tail says anything."""
    inference = Inference(Spec("csv"))
    inference.add(b"id,v\n1,1.5\n2,1.", b"garbage,x\n3,2.5\n4,3.5\n")
    assert [column.type for column in inference.columns({})] == ["integer", "real"]
    broken = Inference(Spec("csv"))
    broken.add(b'id,v\n1,a\n2,"', b"x\none\ntwo,b\n3,c\n")
    assert [column.type for column in broken.columns({})] == ["integer", "text"]


def test_only_the_first_thousand_and_the_last_hundred_records_count() -> None:
    """A word in the middle is a later misfit, one near either end is not."""

    def kind(at: int) -> str:
        values = ["1"] * 1200
        values[at] = "x"
        return csv_types(*values)

    assert [kind(at) for at in (999, 1000, 1099, 1100)] == ["text", "integer", "integer", "text"]


def test_an_unterminated_record_of_a_whole_file_votes_if_it_is_whole() -> None:
    """A complete object does, half of one does not."""
    inference = Inference(Spec("jsonl"))
    inference.add(b'{"a":1}\n{"b":2}')
    inference.add(b'{"a":1}\n{"c":2')
    assert [column.name for column in inference.columns({})] == ["a", "b"]


def test_plain_lines_and_files_without_a_header() -> None:
    """One column `line`; c1 to cN by the usual number of fields."""
    lines = Inference(Spec("lines"))
    lines.add(b"x\n")
    assert lines.columns({}) == (Column("line", "line", "text"),)
    bare = Inference(Spec("csv", header=False))
    bare.add(b"1,a\n2,b\n3,c,d\n")
    assert bare.columns({}) == (Column("c1", "c1", "integer"), Column("c2", "c2", "text"))
