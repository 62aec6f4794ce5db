"""Family names, decided by hand."""

from __future__ import annotations

import pytest

from filecollect.domain.families import families, family_name
from filecollect.domain.rotation import age_order

UUID = "4f0c2b1e-7a1d-4b8e-9c3a-0123456789ab"


@pytest.mark.parametrize(
    ("path", "family"),
    [
        ("net/ipv4.csv", "ipv4"),
        ("net/ipv6.csv", "ipv6"),
        ("log4j.log", "log4j"),
        ("s3_access.log", "s3_access"),
        ("covid19.csv", "covid19"),
        ("web01.log", "web01"),
        ("users_v2.csv", "users_v2"),
        ("report_Q3.csv", "report_q3"),
        ("orders/2026-11-01.csv", "orders"),
        ("orders/20261101.csv", "orders"),
        (f"events/part-00000-{UUID}.jsonl", "events"),
        (f"events/{UUID}.jsonl", "events"),
        ("订单-2026-11-01.csv", "订单"),
        ("Größe-2026.csv", "grösse"),
        ("orders (1).csv", "orders"),
        ("orders - Copy.csv", "orders"),
        ("orders.csv~", "orders"),
        ("orders.csv.bak", "orders"),
        ("orders.csv.old", "orders"),
        ("app.log", "app"),
        ("app.log.1", "app"),
        ("app.log.2.gz", "app"),
        ("app.log.10.zst", "app"),
        ("app.2026-11-01.log", "app"),
        ("app-2026-11-01-12.log", "app"),
        ("access.log-20261101", "access"),
        ("access.log-20261101.gz", "access"),
        ("syslog", "syslog"),
        ("syslog.1", "syslog"),
        ("orders_Mon.csv", "orders"),
        ("orders_Tue.csv", "orders"),
        ("friday-orders.csv", "orders"),
        ("1699999999_metrics.jsonl", "metrics"),
        ("metrics-1699999999.jsonl", "metrics"),
        ("sales/export_20261101T120000Z.csv", "sales"),
        ("sales/dt=2026-11-01/data.csv", "sales"),
        ("sales/2026/11/01/part-0001.csv", "sales"),
        ("a/b/dump.csv", "b"),
        ("data.csv", "data"),
        ("Orders Export.CSV", "orders_export"),
        ("my.app.events.jsonl", "my_app_events"),
        ("deadbeef0123.csv", "data"),
        ("orders-deadbeef01234567.csv", "orders"),
        ("worker.csv", "worker_data"),
        ("file_event.csv", "file_event_data"),
    ],
)
def test_a_path_has_its_family(path: str, family: str) -> None:
    """Dates, counters, ids, copies and suffixes go; names stay."""
    assert family_name(path) == family


def test_siblings_that_differ_only_in_digits_share_a_family_only_with_one_header() -> None:
    """orders1 and orders2 are one table, ipv4 and ipv6 are two."""
    found = families(
        [
            ("d/orders1.csv", ("id", "name")),
            ("d/orders2.csv", ("id", "name")),
            ("d/ipv4.csv", ("a", "b")),
            ("d/ipv6.csv", ("a", "b", "c")),
            ("e/orders1.csv", ("id", "name")),
        ]
    )
    assert found == {
        "d/orders1.csv": "orders",
        "d/orders2.csv": "orders",
        "d/ipv4.csv": "ipv4",
        "d/ipv6.csv": "ipv6",
        "e/orders1.csv": "orders1",
    }


def test_rotations_of_one_moment_are_ordered_oldest_first() -> None:
    """By time, then the higher number, dates upwards, the live file last."""
    names = ["app.log", "app.log.1", "app.log.10", "app.log.2", "b.log", "b.log-20261102", "b.log-20261101"]
    ordered = [path for path, _ in age_order([(f"/l/{name}", 5) for name in names])]
    assert ordered[:4] == ["/l/app.log.10", "/l/app.log.2", "/l/app.log.1", "/l/app.log"]
    assert ordered[4:] == ["/l/b.log-20261101", "/l/b.log-20261102", "/l/b.log"]
    assert age_order([("/new", 9), ("/old", 1)]) == [("/old", 1), ("/new", 9)]
