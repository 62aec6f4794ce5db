"""Family names beyond the contract's own table: dates, ids, scripts, siblings, table-name safety."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filecollect.domain.families import OUR_NAMES, families, family_name

UUID = "0b7c2f3e-59a1-4c5d-8e2f-6a7b8c9d0e1f"


@pytest.mark.parametrize(
    ("path", "family"),
    [
        # rotation with dates after the format suffix
        ("app.log.2026-11-01", "app"),
        ("app.log.2026-11-01_12", "app"),
        ("app.log.2026-11-01.gz", "app"),
        ("app.log.1699999999", "app"),
        ("access.log-20261101-1699999999", "access"),
        ("access.log.20261101T120000Z.zst", "access"),
        ("app.log.1.gz", "app"),
        ("app.log.old.gz", "app"),
        ("messages-20261101", "messages"),
        ("syslog.1", "syslog"),
        ("app.1.log", "app"),
        ("catalina.2026-11-01.log", "catalina"),
        ("catalina.out", "catalina"),
        ("stderr.err.3", "stderr"),
        ("dump.Z", "data"),
        # dates and times as tokens
        ("orders_2026-11.csv", "orders"),
        ("orders-2026-W45.csv", "orders"),
        ("orders_01-11-2026_eu.csv", "orders_eu"),
        ("orders_01Nov2026.csv", "orders"),
        ("march_2026_orders.csv", "orders"),
        ("may_orders.csv", "may_orders"),
        ("orders_20261101_120000.csv", "orders"),
        ("orders 2026-11-01 12.30.00.csv", "orders"),
        ("eu_2026-11-01_orders.csv", "eu_orders"),
        ("eu_1699999999_orders.csv", "eu_orders"),
        ("eu_1699999999123_orders.csv", "eu_orders"),
        ("orders_2026-11-01T12:00:00+01:00.csv", "orders"),
        ("Wed-orders.csv", "orders"),
        ("thursday.csv", "data"),
        # numbers that are no dates stay in the middle, go at the ends
        ("acct_12345678_tx.csv", "acct_12345678_tx"),
        ("001_orders_17.csv", "orders"),
        ("top_40_hits.csv", "top_40_hits"),
        ("mp3.csv", "mp3"),
        ("utf8_names.csv", "utf8_names"),
        ("2fa_codes.csv", "2fa_codes"),
        # ids
        (f"orders-{UUID}.csv", "orders"),
        ("in/deadbeefcafe.csv", "in"),
        ("orders-d41d8cd98f00b204e9800998ecf8427e.csv", "orders"),
        ("orders-decade.csv", "orders_decade"),
        # copies
        ("orders (12).csv", "orders"),
        ("orders - Copy (2).csv", "orders"),
        ("orders copy 2.csv", "orders"),
        ("Copy of orders.csv", "orders"),
        ("orders.csv (1)", "orders"),
        # generic words take the nearest directory that is no date and no k=v
        ("/srv/sales/dt=2026-11-01/hour=12/data.csv", "sales"),
        ("/srv/sales/2026-11/part-0001.csv", "sales"),
        ("/srv/sales/Nov-2026/report.csv", "sales"),
        (f"/srv/sales/{UUID}/chunk_7.jsonl", "sales"),
        ("/srv/data/2026-11-01.csv", "data"),
        ("/srv/EU Sales/export.csv", "eu_sales"),
        ("/2026-11-01.csv", "data"),
        # scripts
        ("订单-2026-11-01.csv", "订单"),
        ("हिन्दी-2026-11-01.csv", "हिन्दी"),
        ("Cafe\u0301.csv", "caf\u00e9"),
        ("ΣΊΣΥΦΟΣ.csv", "σίσυφοσ"),
        ("a--b..c__d.csv", "a_b_c_d"),
        ("🙂.csv", "data"),
        # names that are all suffix
        (".csv", "csv"),
        ("x/~", "x"),
        # table names that somebody else owns
        ("worker.log.1", "worker_data"),
        ("Outbox Message.csv", "outbox_message_data"),
        ("sqlite_stats.csv", "data_sqlite_stats"),
    ],
)
def test_a_path_has_this_family(path: str, family: str) -> None:
    """Each row was decided by hand from the rule."""
    assert family_name(path) == family


def test_every_rotation_of_one_log_has_the_same_family() -> None:
    """Whatever tool rotates it."""
    names = [
        "app.log",
        "app.log.1",
        "app.log.2.gz",
        "app.log-20261101",
        "app.log.2026-11-01",
        "app-2026-11-01-1.log.xz",
    ]
    assert {family_name(f"/var/log/{name}") for name in names} == {"app"}


def test_long_names_are_cut_and_stay_different() -> None:
    """A database cuts at 63 bytes without a word, and two tables would be one."""
    one, other = family_name("订" * 40 + "a.csv"), family_name("订" * 40 + "b.csv")
    assert one != other
    assert one.startswith("订" * 18 + "_")
    assert len(one.encode()) == 63


@given(st.lists(st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1), min_size=1))
def test_a_family_is_always_a_usable_table_name(parts: list[str]) -> None:
    """Never empty, none of ours, never too long; asked twice, the same."""
    family = family_name("/" + "/".join(parts))
    assert family
    assert family not in OUR_NAMES
    assert not family.startswith("sqlite_")
    assert len(family.encode()) <= 63
    assert family == family_name("/" + "/".join(parts))


HEADER = ("id", "name")


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["d/orders1.csv", "d/orders2.csv"], ["orders", "orders"]),
        (["d/s3_access1.csv", "d/s3_access2.csv"], ["s3_access", "s3_access"]),
        (["d/a1_b1.csv", "d/a2_b1.csv"], ["a_b1", "a_b1"]),
        (["ev/part1.csv", "ev/part2.csv"], ["ev", "ev"]),
        (["d/worker1.csv", "d/worker2.csv"], ["worker_data", "worker_data"]),
        (["d/orders1.csv", "d/orders1.csv.gz"], ["orders1", "orders1"]),
        (["d/orders1.csv", "e/orders2.csv"], ["orders1", "orders2"]),
        (["d/orders1.csv", "d/items2.csv"], ["orders1", "items2"]),
    ],
)
def test_siblings_merge_only_where_their_digits_differ(paths: list[str], expected: list[str]) -> None:
    """Digits that are the same in all of them are part of the name."""
    found = families([(path, HEADER) for path in paths])
    assert [found[path] for path in paths] == expected


def test_siblings_without_a_header_or_with_another_stay_apart() -> None:
    """Nothing says that they hold the same."""
    assert families([("d/web1.log", None), ("d/web2.log", None)]) == {"d/web1.log": "web1", "d/web2.log": "web2"}
    assert families([("d/ipv4.csv", ("a",)), ("d/ipv6.csv", ("b",))]) == {"d/ipv4.csv": "ipv4", "d/ipv6.csv": "ipv6"}
