"""Timestamps with formats and zones: hand-worked instants, and what does not exist."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from filecollect.domain.columns import Column, Layout
from filecollect.errors import Unsupported
from filecollect.parse.api import Tail
from filecollect.parse.build import make_parser
from filecollect.parse.infer import Inference
from filecollect.parse.spec import Spec
from filecollect.parse.times import Times, zone_of

BERLIN = Times(("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y"), ZoneInfo("Europe/Berlin"))


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("01.11.2026 12:00:00", "2026-11-01 11:00:00"),
        ("01.07.2026 12:00", "2026-07-01 10:00:00"),
        ("2026-11-01 12:00:00.5", "2026-11-01 11:00:00.500000"),
        ("2026-11-01T12:00:00+00:00", "2026-11-01 12:00:00"),
        # 02:30 comes twice on 25 October 2026: the first one is summer time.
        ("25.10.2026 02:30", "2026-10-25 00:30:00"),
        ("25.10.2026 03:30", "2026-10-25 02:30:00"),
        # 02:30 does not come on 29 March 2026.
        ("29.03.2026 02:30", None),
        ("2026-03-29 02:30:00", None),
        ("29.03.2026 03:00", "2026-03-29 01:00:00"),
        ("31.02.2026 12:00", None),
        ("1.11.26 12:00", None),
        ("０１.11.2026 12:00", None),
        ("yesterday", None),
    ],
)
def test_local_times_are_stored_in_utc(text: str, stored: str | None) -> None:
    """The first of two equal hours, none for an hour that is left out."""
    assert BERLIN.timestamp(text, zoned=True) == stored
    assert BERLIN.kind(text) == (None if stored is None else "zoned")


def test_formats_are_tried_in_order_and_before_iso() -> None:
    """So a day and a month are never exchanged by guessing."""
    assert Times(("%m/%d/%Y", "%d/%m/%Y")).date("03/04/2026") == "2026-03-04"
    assert Times(("%m/%d/%Y", "%d/%m/%Y")).date("13/04/2026") == "2026-04-13"
    assert Times(("%Y-%d-%m",)).date("2026-03-04") == "2026-04-03"
    assert Times(("%d/%m/%Y %H:%M %z",)).timestamp("03/04/2026 12:00 +0200", zoned=True) == "2026-04-03 10:00:00"
    assert Times(("%d/%m/%Y %H:%M",)).timestamp("03/04/2026 12:00", zoned=False) == "2026-04-03 12:00:00"
    assert Times(("%d/%m/%Y %H:%M",)).timestamp("03/04/2026 12:00", zoned=True) is None


@pytest.mark.parametrize(
    ("form", "text", "stored"),
    [
        ("epoch", "0", "1970-01-01 00:00:00"),
        ("epoch", "1793534400", "2026-11-01 12:00:00"),
        ("epoch", "1793534400.25", "2026-11-01 12:00:00.250000"),
        ("epoch", "-1", "1969-12-31 23:59:59"),
        ("epoch_ms", "1793534400123", "2026-11-01 12:00:00.123000"),
        ("epoch_us", "1793534400123456", "2026-11-01 12:00:00.123456"),
        ("epoch_ns", "1793534400123456789", "2026-11-01 12:00:00.123456"),
        ("epoch", "99999999999999", None),
        ("epoch", "1e9", None),
        ("epoch", "", None),
    ],
)
def test_counts_since_1970_are_instants(form: str, text: str, stored: str | None) -> None:
    """Exact to the microsecond, never through a float."""
    assert Times((form,)).timestamp(text, zoned=True) == stored


@pytest.mark.parametrize(
    ("spec", "data"),
    [
        (Spec("csv", time_formats=("epoch_ms",)), b"id,at\n1,1793534400000\n"),
        (Spec("jsonl", time_formats=("epoch_ms",)), b'{"id":1,"at":1793534400000}\n'),
        (Spec("jsonl", time_formats=("epoch",)), b'{"id":1,"at":"1793534400"}\n'),
        (Spec("json", time_zone="America/New_York"), b'[{"id":1,"at":"2026-11-01 07:00:00"}]'),
    ],
)
def test_a_declared_column_takes_them(spec: Spec, data: bytes) -> None:
    """And only a declared one: any number could be a count."""
    votes = Inference(spec)
    votes.add(data)
    columns = votes.columns({"at": "timestamp"})
    assert columns[1] == Column("at", "at", "timestamp", declared=True, zoned=True)
    parsed = make_parser(spec, Layout(columns), None).parse(data, offset=0, line=1, limit=9, tail=Tail.TAKE)
    assert list(zip(*parsed.records.columns, strict=True)) == [(1, "2026-11-01 12:00:00")]
    if spec.time_formats and b'"1' not in data:
        assert votes.columns({})[1].type == "integer"


def test_a_zone_or_a_format_changes_what_is_inferred() -> None:
    """Local forms become timestamps and dates; a naive ISO form is in the zone."""
    votes = Inference(Spec("csv", time_formats=("%d/%m/%Y %H:%M", "%d/%m/%Y"), time_zone="+02:00"))
    votes.add(b"a,b,c,d\n01/02/2026 10:00,01/02/2026,2026-02-01 10:00:00,20260201\n")
    assert [(column.type, column.zoned) for column in votes.columns({})] == [
        ("timestamp", True),
        ("date", False),
        ("timestamp", True),
        ("integer", False),
    ]


def test_a_zone_without_rules_is_told() -> None:
    """Instead of taking another one."""
    assert zone_of("-03:30").utcoffset(None) == -zone_of("+03:30").utcoffset(None)  # type: ignore[operator]
    with pytest.raises(Unsupported, match="Mars/Olympus"):
        zone_of("Mars/Olympus")
