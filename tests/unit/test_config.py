"""The config: what is accepted, and that each mistake is told once, at its line, in one sentence."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from filecollect import config as api
from filecollect.config import (
    NOT_YET,
    After,
    Config,
    Ready,
    SourceSettings,
    TemplateSource,
    WorkerSettings,
    choose_database,
    database_url,
    find_config,
    load_config,
    public_config,
    redacted_url,
    remarks,
    settings_from,
    template,
    unsupported,
    unsupported_in,
)
from filecollect.config import load as loading
from filecollect.config.mistakes import dotted, key_lines, line_of
from filecollect.errors import ConfigError, UsageError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory that is the working directory, so that files are shown by their short name."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(home: Path, text: str, **environ: str) -> Config:
    """Load `text` as ./filecollect.toml."""
    (home / "filecollect.toml").write_text(text, encoding="utf-8")
    return load_config(home / "filecollect.toml", environ)


def mistakes(home: Path, text: str, **environ: str) -> list[str]:
    """Return what loading `text` complains about, without the file's name."""
    with pytest.raises(ConfigError) as caught:
        load(home, text, **environ)
    assert all(sentence.startswith("filecollect.toml") for sentence in caught.value.mistakes)
    return [sentence.removeprefix("filecollect.toml:") for sentence in caught.value.mistakes]


def source(home: Path, body: str, **environ: str) -> SourceSettings:
    """Load one source named `s` with paths and the lines of `body`."""
    return load(home, f'[source.s]\npaths = ["*"]\n{body}\n', **environ).source["s"]


def source_mistakes(home: Path, body: str) -> list[str]:
    """Return the mistakes of a source `s` whose `body` begins on line 3."""
    return mistakes(home, f'[source.s]\npaths = ["*"]\n{body}\n')


# Reading a right config


def test_an_empty_file_means_all_defaults(home: Path) -> None:
    """Nothing said is the same as no config, but for the file's own path."""
    found = load(home, "")
    assert found == Config(origin=str(home / "filecollect.toml"))
    assert found.worker == WorkerSettings()
    assert (found.worker.lease_s, found.worker.heartbeat_s, found.worker.workers) == (90, 30, None)


def test_the_contract_example_loads(home: Path) -> None:
    """The example of the contract is accepted as written."""
    found = load(
        home,
        """
database = "sqlite:///filecollect.db"
schema = "logs"
[worker]
workers = 2
lease_s = 90
heartbeat_s = 30
[source.app]
paths   = ["/var/log/app/*.log*"]
follow  = true
start   = "beginning"
format  = "auto"
[source.orders]
paths  = ["/srv/drop/orders/*.csv*"]
ready  = { stable_s = 5 }
table  = "orders"
key    = ["order_id"]
on_conflict = "update"
columns = { order_id = "integer", amount = "decimal(12,2)", placed_at = "datetime" }
after  = { archive = "/srv/drop/done" }
sinks  = ["hook"]
[sink.hook]
type = "http"
url  = "https://example.org/in"
""",
    )
    orders = found.source["orders"]
    assert found.database == f"sqlite:///{home}/filecollect.db"
    assert found.db_schema == "logs"
    assert found.worker.workers == 2
    assert found.source["app"].follow is True
    assert orders.ready == Ready(stable_s=5)
    assert orders.follow is False
    assert orders.after == After(archive="/srv/drop/done")
    assert orders.columns == {"order_id": "integer", "amount": "decimal(12,2)", "placed_at": "timestamp"}
    assert found.sink["hook"].url == "https://example.org/in"


def test_defaults_of_a_source_are_those_of_the_contract() -> None:
    """Sizes, times and policies that are documented hold when nothing is said."""
    found = SourceSettings(paths=("*",))
    assert found.follow is True
    assert (found.max_record_bytes, found.batch_rows, found.batch_bytes) == (1048576, 5000, 4194304)
    assert (found.batch_wait_ms, found.settle_s, found.quarantine_raw_bytes) == (50, 10, 65536)
    assert (found.drift, found.ragged, found.names, found.duplicates) == ("extra", "quarantine", "keep", "skip")
    assert (found.header, found.delimiter, found.encoding, found.table) == (None, None, None, None)
    assert (found.create, found.shared, found.follow_symlinks) == (True, False, False)


def test_a_config_is_frozen() -> None:
    """Settings are only read once they are checked."""
    with pytest.raises(ValidationError):
        Config().worker.workers = 3


def test_every_accepted_shape_of_a_setting_is_kept(home: Path) -> None:
    """Shapes with several forms arrive as the value that was meant."""
    assert source(home, 'ready = "closed"').ready == "closed"
    assert source(home, 'ready = { marker = "{name}.done" }').ready == Ready(marker="{name}.done")
    assert source(home, 'after = "keep"').follow is False
    assert source(home, "follow = false").follow is False
    assert source(home, 'header = ["a", "b"]').header == ("a", "b")
    assert source(home, 'header = "auto"').header is None
    assert source(home, "header = false").header is False
    assert source(home, 'delimiter = "\\t"').delimiter == "\t"
    assert source(home, 'encoding = "Latin-1"').encoding == "iso8859-1"
    assert source(home, 'encoding = "UTF8"').encoding == "utf-8"
    assert source(home, 'encoding = "utf-16-le"').encoding == "utf-16-le"
    assert source(home, 'table = "sales.orders"').table == "sales.orders"
    assert source(home, "settle_s = 0.5").settle_s == 0.5
    assert source(home, 'path_columns = "/(?P<day>[^/]+)/"').path_columns == "/(?P<day>[^/]+)/"
    multiline = source(home, 'multiline = { continue = "^\\\\s" }').multiline
    assert multiline is not None
    assert multiline.continuation == "^\\s"
    timestamp = source(home, 'timestamp = { formats = ["%d/%m/%Y"], zone = "Europe/Berlin" }').timestamp
    assert timestamp is not None
    assert (timestamp.formats, timestamp.zone) == (("%d/%m/%Y",), "Europe/Berlin")


def test_replaced_drops_replace_and_followed_files_append() -> None:
    """What happens to a replaced file's rows depends on follow, unless it is said."""
    assert SourceSettings(paths=("*",)).effective_on_replace == "append"
    assert SourceSettings(paths=("*",), follow=False).effective_on_replace == "replace"
    assert SourceSettings(paths=("*",), follow=False, on_replace="append").effective_on_replace == "append"


def test_a_shorter_lease_shortens_the_heartbeat(home: Path) -> None:
    """Saying lease_s alone must not contradict the heartbeat's default."""
    assert load(home, "[worker]\nlease_s = 6").worker.heartbeat_s == 2


def test_the_number_of_workers_has_a_limit_only_by_default() -> None:
    """On SQLite more than four workers are used only when asked for."""
    assert WorkerSettings(workers=9).worker_count(sqlite=True) == 9
    assert 1 <= WorkerSettings().worker_count(sqlite=True) <= 4
    assert WorkerSettings().worker_count(sqlite=False) >= 1


def test_a_byte_order_mark_and_crlf_are_no_mistake(home: Path) -> None:
    """Files from other editors load, and lines are counted right."""
    (home / "filecollect.toml").write_bytes(b"\xef\xbb\xbf[worker]\r\nworkers = 3\r\n")
    assert load_config(home / "filecollect.toml", {}).worker.workers == 3
    (home / "filecollect.toml").write_bytes(b"\xef\xbb\xbf[worker]\r\nworkers = 0\r\n")
    with pytest.raises(ConfigError, match=r"^filecollect.toml:2 worker.workers: "):
        load_config(home / "filecollect.toml", {})


# Mistakes


def test_every_mistake_is_reported_at_once_in_the_order_of_the_file(home: Path) -> None:
    """Wrong kinds, unknown keys, contradictions and missing settings all come in one go."""
    assert mistakes(
        home,
        """[worker]
workers = "2"
leas_s = 5
[source.orders]
ready = { stable_s = -1 }
on_conflict = "ignore"
sinks = ["hok"]
[source.x]
paths = ["a",
  3]
[sink.hook]
type = "http"
url = "https://example.org"
""",
    ) == [
        '2 worker.workers: expected a whole number from 1 to 256, got "2"',
        '3 worker.leas_s: expected a known setting, got "leas_s" (did you mean "lease_s"?)',
        '4 source.orders.paths: expected a list of paths such as ["logs/*.csv"], got nothing',
        "5 source.orders.ready.stable_s: expected a number above 0, got -1",
        '6 source.orders.on_conflict: expected a key beside it, got "ignore" without one',
        '7 source.orders.sinks[0]: expected the name of a [sink.NAME] table, got "hok" (did you mean "hook"?)',
        "10 source.x.paths[1]: expected text in quotes, got 3",
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("follow = 1", "3 source.s.follow: expected true or false, got 1"),
        ('follow = "no"', '3 source.s.follow: expected true or false, got "no"'),
        ("batch_rows = true", "3 source.s.batch_rows: expected a whole number from 1 to 1000000, got true"),
        ("batch_rows = 1.0", "3 source.s.batch_rows: expected a whole number from 1 to 1000000, got 1.0"),
        ("settle_s = nan", "3 source.s.settle_s: expected a number of at least 0, got nan"),
        ("settle_s = true", "3 source.s.settle_s: expected a number of at least 0, got true"),
        ('null = "NA"', '3 source.s.null: expected a list in brackets, got "NA"'),
        ("null = [1979-05-27]", "3 source.s.null[0]: expected text in quotes, got 1979-05-27"),
        ("columns = [1]", "3 source.s.columns: expected a table, got [1]"),
        (
            'columns = { a = "strin" }',
            "3 source.s.columns.a: expected one of boolean, date, decimal, integer, json, real, text, timestamp,"
            ' got "strin"',
        ),
        (
            'columns."a b" = "decimal(2,9)"',
            '3 source.s.columns."a b": expected decimal(digits, decimals) with 1 to 1000 digits and not more decimals'
            ' than digits, got "decimal(2,9)"',
        ),
        ('start = "ende"', '3 source.s.start: expected "beginning" or "end", got "ende" (did you mean "end"?)'),
        (
            'ready = "close"',
            '3 source.s.ready: expected { stable_s = SECONDS }, { marker = "{name}.done" } or "closed", got "close"',
        ),
        ("ready = {}", "3 source.s.ready: expected either stable_s or marker, got neither"),
        ('ready = { stable_s = 1, marker = "x" }', "3 source.s.ready: expected either stable_s or marker, got both"),
        (
            "ready = { stable = 1 }",
            '3 source.s.ready.stable: expected a known setting, got "stable" (did you mean "stable_s"?)',
        ),
        (
            'ready = { marker = "{stem}.ok" }',
            "3 source.s.ready.marker: expected a file name in which only {name} is replaced, such as"
            ' "{name}.done", got "{stem}.ok"',
        ),
        ('after = "move"', '3 source.s.after: expected { archive = DIRECTORY }, "keep" or "delete", got "move"'),
        (
            'delimiter = ";;"',
            '3 source.s.delimiter: expected one character such as ";" or "\\t" (no quote, no line end), or "auto",'
            ' got ";;"',
        ),
        ("header = 1", '3 source.s.header: expected true, false, "auto" or a list of column names, got 1'),
        (
            'encoding = "iso2022_jp"',
            '3 source.s.encoding: expected an encoding such as "utf-8", "cp1252" or "shift_jis", or "auto",'
            ' got "iso2022_jp"',
        ),
        (
            'encoding = "base64"',
            '3 source.s.encoding: expected an encoding such as "utf-8", "cp1252" or "shift_jis", or "auto",'
            ' got "base64"',
        ),
        (
            'encoding = "cp500"',
            '3 source.s.encoding: expected an encoding such as "utf-8", "cp1252" or "shift_jis", or "auto",'
            ' got "cp500"',
        ),
        (
            "table = true",
            '3 source.s.table: expected a table name such as "orders" or "schema.orders", or false, got true',
        ),
        (
            'table = "a.b.c"',
            '3 source.s.table: expected a table name such as "orders" or "schema.orders", or false, got "a.b.c"',
        ),
        ("table = false", "3 source.s.table: expected sinks beside it (else the records would go nowhere), got false"),
        ('key = ["a", "a"]', '3 source.s.key: expected each name once, got ["a", "a"]'),
        ('newer = "at"', '3 source.s.newer: expected a key beside it, got "at" without one'),
        (
            'path_columns = "(?P<a>"',
            "3 source.s.path_columns: expected a regular expression (missing ), unterminated subpattern at position 0),"
            ' got "(?P<a>"',
        ),
        (
            'path_columns = "a"',
            '3 source.s.path_columns: expected a regular expression with a named group such as (?P<day>...), got "a"',
        ),
        (
            'lineage = ["file", "lin"]',
            '3 source.s.lineage[1]: expected "file", "line", "at" or "host", got "lin" (did you mean "line"?)',
        ),
        (
            'timestamp = { zone = "Mars/Base" }',
            '3 source.s.timestamp.zone: expected a time zone such as "Europe/Berlin", "UTC" or "+02:00",'
            ' got "Mars/Base"',
        ),
        ('format = "jsonl"\ndelimiter = ";"', '4 source.s.delimiter: expected format = "csv" beside it, got "jsonl"'),
        ("lease_s = 3", '3 source.s.lease_s: expected a known setting, got "lease_s", which belongs in [worker]'),
        (
            'follow = true\nafter = "delete"',
            "3 source.s.follow: expected false beside after (it is for finished files), got true",
        ),
        (
            'follow = false\nstart = "end"',
            '4 source.s.start: expected "beginning" for finished files (follow = false), got "end"',
        ),
    ],
)
def test_a_wrong_setting_gives_one_sentence(home: Path, body: str, expected: str) -> None:
    """Each says where, what was expected and what was found; nothing else is complained about."""
    assert source_mistakes(home, body) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("workers = 2", '1 workers: expected a known setting, got "workers", which belongs in [worker]'),
        ("\n[sources.a]", '2 sources: expected a known setting, got "sources" (did you mean "source"?)'),
        (
            "zzz = 1",
            '1 zzz: expected one of database, schema, worker, source, sink, got the unknown setting "zzz"',
        ),
        (
            'origin = "x"',
            '1 origin: expected one of database, schema, worker, source, sink, got the unknown setting "origin"',
        ),
        ("source = 3", "1 source: expected tables [source.NAME], got 3"),
        ("[[source]]\na = 1", "1 source: expected tables [source.NAME], got [{ a = 1 }]"),
        ("worker = 3", "1 worker: expected a table, got 3"),
        ("[source]\napp = 3", "2 source.app: expected a table, got 3"),
        ("database = 3", "1 database: expected text in quotes, got 3"),
        (
            "[worker]\nlease_s = 10\nheartbeat_s = 6",
            "3 worker.heartbeat_s: expected at most half of lease_s (10), got 6",
        ),
        ("[worker]\nheartbeat_s = 60", "2 worker.heartbeat_s: expected at most half of lease_s (90), got 60"),
        ('[source.""]\npaths = ["a"]', '1 source."": expected a name of 1 to 128 bytes, got 0'),
        (
            '[source."a\\nb"]\npaths = ["a"]',
            '1 source."a\\nb": expected a name without control characters and without spaces around it',
        ),
        ("[source.a]\npaths = []", "2 source.a.paths: expected at least one path, got []"),
        ('[source.a]\npaths = "x"', '2 source.a.paths: expected a list in brackets, got "x"'),
        ('[source.a]\npaths = [""]', '2 source.a.paths[0]: expected text that is not empty, got ""'),
        (
            '[source.a]\npaths = ["https://x/y"]',
            '2 source.a.paths[0]: expected paths of local files (download the file first), got "https://x/y"',
        ),
        (
            '[source.a]\npaths = ["-"]',
            '2 source.a.paths[0]: expected paths of files (save standard input to a file first), got "-"',
        ),
        (
            'database = "mysql://u:secret@h/x"',
            "1 database: expected a file's path, sqlite:///FILE or postgresql://USER@HOST/NAME,"
            ' got "mysql://u:***@h/x"',
        ),
        (
            '[sink.a]\ntype = "http"\nurl = "https://x"\ntoken = 12345',
            "4 sink.a.token: expected text in quotes, got another value",
        ),
        (
            '[sink.a]\ntype = "nats"\nurl = "nats://x"',
            "1 sink.a.subject: expected the subject to publish to, got nothing",
        ),
    ],
)
def test_a_wrong_config_gives_one_sentence(home: Path, text: str, expected: str) -> None:
    """Mistakes outside of sources have their place too, and secrets are not repeated."""
    assert mistakes(home, text) == [expected]


def test_a_name_of_128_bytes_is_the_longest(home: Path) -> None:
    """The limit counts bytes of UTF-8, as the tables do."""
    assert list(load(home, f'[source."{"é" * 64}"]\npaths = ["a"]').source) == ["é" * 64]
    assert "got 129" in mistakes(home, f'[source."{"é" * 64}x"]\npaths = ["a"]')[0]


def test_a_contradiction_is_not_reported_when_one_of_its_sides_is_wrong_itself(home: Path) -> None:
    """A misspelt key must not make `on_conflict` look wrong as well."""
    assert source_mistakes(home, 'key = "id"\non_conflict = "ignore"') == [
        '3 source.s.key: expected a list in brackets, got "id"'
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = ", "1:5: expected valid TOML, got a mistake in its syntax: invalid value"),
        ("[worker]\nworkers = [1,\n2", "3:2: expected valid TOML, got a mistake in its syntax: unclosed array"),
        ("a = 1\na = 2\n", "2:6: expected valid TOML, got a mistake in its syntax: cannot overwrite a value"),
    ],
)
def test_a_syntax_error_has_its_line_and_column(home: Path, text: str, expected: str) -> None:
    """What is no TOML is told with its place."""
    assert mistakes(home, text) == [expected]


def test_a_deeply_nested_file_is_a_mistake_and_no_crash(home: Path) -> None:
    """Recursion of the TOML reader ends in a sentence."""
    (sentence,) = mistakes(home, "a = " + "[" * 100_000)
    assert "expected valid TOML" in sentence


def test_a_file_that_cannot_be_used_gives_one_sentence(home: Path) -> None:
    """Missing, a directory, a loop of links, not UTF-8, too large: each says what it is."""
    (home / "loop").symlink_to("loop")
    (home / "latin").write_bytes(b"a = 1\nb = '\xe9'\n")
    (home / "large").write_bytes(b"#" * (loading.MAX_BYTES + 1))

    def sentence(name: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load_config(home / name, {})
        assert caught.value.exit_code == 2
        (only,) = caught.value.mistakes
        return only

    assert sentence("none") == "none: expected a config file, got a path that does not exist"
    assert sentence("latin/x") == "latin/x: expected a config file, got a path that does not exist"
    assert sentence(".") == ".: expected a config file, got a directory"
    assert sentence("loop").startswith("loop: expected a config file that can be read, got: ")
    assert sentence("latin") == "latin:2: expected UTF-8 text, got the byte 0xe9"
    assert sentence("large") == "large: expected a config file of at most 4194304 bytes, got more"


# The line finder


def test_lines_are_found_in_a_tricky_layout() -> None:
    """Strings, comments and dates that look like structure do not mislead the scan."""
    text = (
        "# [not.a.table]\n"
        'text = """\n'
        "[no]\n"
        'x = 1 \\""" still""""\n'
        "raw = '''\n"
        "it''s = 2'''' \n"
        '[ a . "b.c" ] # spaces, a quoted key\n'
        "d.e . 'f' = { g = [1, { h = 2 }], \"i\\u0041\" = '#}' } # ] }\n"
        "when = 1979-05-27 07:32:00\n"
        "list = [ # a comment with ]\n"
        '  "x#", # one\n'
        "\n"
        "  [\n"
        "    2 ],\n"
        "]\n"
        "[a]\n"
        "z = -inf\n"
        "[[t]]\n"
        "n = 1\n"
        "[[t]]\n"
        "[t.sub]\n"
        "n = 2\n"
        "[[t.sub2]]\n"
        "m = {}"
    )
    assert tomllib.loads(text)["a"]["b.c"]["d"]["e"]["f"]["iA"] == "#}"
    assert key_lines(text) == {
        ("text",): 2,
        ("raw",): 5,
        ("a",): 16,
        ("a", "b.c"): 7,
        ("a", "b.c", "d"): 8,
        ("a", "b.c", "d", "e"): 8,
        ("a", "b.c", "d", "e", "f"): 8,
        ("a", "b.c", "d", "e", "f", "g"): 8,
        ("a", "b.c", "d", "e", "f", "g", 0): 8,
        ("a", "b.c", "d", "e", "f", "g", 1): 8,
        ("a", "b.c", "d", "e", "f", "g", 1, "h"): 8,
        ("a", "b.c", "d", "e", "f", "iA"): 8,
        ("a", "b.c", "when"): 9,
        ("a", "b.c", "list"): 10,
        ("a", "b.c", "list", 0): 11,
        ("a", "b.c", "list", 1): 13,
        ("a", "b.c", "list", 1, 0): 14,
        ("a", "z"): 17,
        ("t",): 18,
        ("t", 0): 18,
        ("t", 0, "n"): 19,
        ("t", 1): 20,
        ("t", 1, "sub"): 21,
        ("t", 1, "sub", "n"): 22,
        ("t", 1, "sub2"): 23,
        ("t", 1, "sub2", 0): 23,
        ("t", 1, "sub2", 0, "m"): 24,
    }


def test_what_stands_nowhere_has_the_line_of_its_parent() -> None:
    """A missing setting is shown at the table that lacks it."""
    lines = key_lines("\n[source.a]\nx = 1\n")
    assert line_of(lines, ("source", "a", "paths", 0)) == 2
    assert line_of(lines, ("sink", "b")) is None


def test_key_paths_are_written_as_in_toml() -> None:
    """Keys are quoted where TOML needs it; elements have their index."""
    assert dotted(("source", "my logs", "paths", 0)) == 'source."my logs".paths[0]'


_KEYS = st.text(st.sampled_from("ab_-.# \"'\\é[]={}"), min_size=1, max_size=4)
_TEXTS = st.text(st.sampled_from("ab\"'\\#[]{}=,\n\t é"), max_size=8)
_SCALARS = st.one_of(_TEXTS, st.integers(-9, 9), st.booleans(), st.just(1.5))
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)
_DOCUMENTS = st.dictionaries(_KEYS, st.dictionaries(_KEYS, _VALUES, max_size=4), max_size=4)


class _Writer:
    """Write TOML in a layout drawn at random and remember on which line each path begins."""

    def __init__(self, draw: st.DataObject) -> None:
        self.draw = draw
        self.text = ""
        self.lines: dict[tuple[str | int, ...], int] = {}

    def pick(self, *choices: str) -> str:
        return self.draw.draw(st.sampled_from(choices))

    def note(self, path: tuple[str | int, ...]) -> None:
        self.lines[path] = self.text.count("\n") + 1

    def basic(self, text: str) -> str:
        for plain, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
            text = text.replace(plain, escaped)
        return f'"{text}"'

    def string(self, text: str) -> str:
        literal = f"'{text}'" if not set(text) & {"'", "\n"} else self.basic(text)
        lines = '"""\n' + text.replace("\\", "\\\\").replace('"', '\\"') + '"""'
        raw = "'''\n" + text + "'''" if "'''" not in text and not text.startswith("\n") else lines
        return self.pick(self.basic(text), literal, lines, raw)

    def value(self, path: tuple[str | int, ...], value: Any) -> None:
        if isinstance(value, dict):
            self.text += "{"
            for index, (key, inner) in enumerate(value.items()):
                self.text += ", " if index else self.pick("", " ")
                self.note((*path, key))
                self.text += self.basic(key) + self.pick("=", " = ")
                self.value((*path, key), inner)
            self.text += "}"
        elif isinstance(value, list):
            self.text += "["
            for index, inner in enumerate(value):
                self.text += self.pick("", " ", "\n  ", " # ] , [\n\n")
                self.note((*path, index))
                self.value((*path, index), inner)
                self.text += self.pick(",", "\n,", " , # '\n")
            self.text += self.pick("", "\n") + "]"
        elif isinstance(value, str):
            self.text += self.string(value)
        else:
            self.text += str(value).lower()

    def document(self, tables: dict[str, dict[str, Any]]) -> None:
        for name, table in tables.items():
            self.text += self.pick("", "\n", "# [x]\n")
            self.note((name,))
            self.text += f"[{self.pick('', ' ')}{self.basic(name)}]\n"
            for key, value in table.items():
                self.note((name, key))
                self.text += f"{self.basic(key)} ="
                self.value((name, key), value)
                self.text += self.pick("\n", ' # "\n', "\n\n")


@given(_DOCUMENTS, st.data())
def test_every_path_of_any_layout_has_its_own_line(tables: dict[str, dict[str, Any]], data: st.DataObject) -> None:
    """Whatever the layout, the scan finds each key and element on the line it was written on."""
    writer = _Writer(data)
    writer.document(tables)
    assert tomllib.loads(writer.text) == tables
    assert key_lines(writer.text) == writer.lines


@given(st.text(st.sampled_from("ab=[]{}\"'.,#\n \\"), max_size=30))
def test_the_line_finder_never_raises(text: str) -> None:
    """Any text at all gives some lines or none."""
    key_lines(text)


# Finding the file


def test_the_config_is_looked_for_in_the_stated_order(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """-c wins over the environment, that over the working directory, that over the system's file."""
    system = home / "etc" / "filecollect.toml"
    monkeypatch.setattr(loading, "SYSTEM_FILE", system)
    assert find_config(None, {}, home) is None
    system.parent.mkdir()
    system.touch()
    assert find_config(None, {}, home) == system
    (home / "filecollect.toml").touch()
    assert find_config(None, {}, home) == home / "filecollect.toml"
    (home / "e.toml").touch()
    assert find_config(None, {"FILECOLLECT_CONFIG": "e.toml"}, home) == home / "e.toml"
    (home / "o.toml").touch()
    assert find_config("o.toml", {"FILECOLLECT_CONFIG": "e.toml"}, home) == home / "o.toml"
    assert find_config(None, {"FILECOLLECT_CONFIG": ""}, home) == home / "filecollect.toml"


def test_a_named_config_that_is_missing_is_refused(home: Path) -> None:
    """Neither -c nor the variable falls back to another file."""
    (home / "filecollect.toml").touch()
    with pytest.raises(ConfigError) as option:
        find_config("none.toml", {}, home)
    assert str(option.value) == "-c none.toml: expected a config file, got a path that does not exist"
    with pytest.raises(ConfigError, match=r"^FILECOLLECT_CONFIG none.toml: expected"):
        find_config(None, {"FILECOLLECT_CONFIG": "none.toml"}, home)


# Variables and paths


def test_variables_are_expanded_where_the_contract_says(home: Path) -> None:
    """Database, paths, archive and sinks are expanded; everything else is taken as written."""
    found = load(
        home,
        """database = "${DB:-x.db}"
[source.a]
paths = ["${ROOT}/*.log", "$${ROOT}/x", "$HOME/y"]
after = { archive = "${ROOT}/done" }
null = ["${ROOT}"]
[sink.s]
type = "http"
url = "https://${HOST}/in"
headers = { X = "${EMPTY:-d}${EMPTY}" }
""",
        ROOT="/data",
        HOST="h",
        EMPTY="",
    )
    assert found.database == f"sqlite:///{home}/x.db"
    assert found.source["a"].paths == ("/data/*.log", f"{home}/${{ROOT}}/x", f"{home}/$HOME/y")
    assert found.source["a"].after == After(archive="/data/done")
    assert found.source["a"].null == ("${ROOT}",)
    assert found.sink["s"].url == "https://h/in"
    assert found.sink["s"].headers == {"X": "d"}


def test_a_variable_that_is_not_set_is_a_mistake(home: Path) -> None:
    """Each has its place; an unfinished one as well."""
    assert mistakes(home, 'database = "${A}"\n[source.s]\npaths = ["${B}/x", "${c"]') == [
        "1 database: expected the environment variable A (or ${A:-default}), got nothing",
        "3 source.s.paths[0]: expected the environment variable B (or ${B:-default}), got nothing",
        "3 source.s.paths[1]: expected ${NAME} or ${NAME:-default} (a plain ${ is written $${), got an open ${",
    ]


def test_values_of_variables_are_not_expanded_again(home: Path) -> None:
    """What a variable holds is data."""
    assert load(home, 'database = "${A}"', A="/${B}").database == "sqlite:////${B}"


def test_relative_paths_are_meant_from_the_config_file(home: Path) -> None:
    """The working directory does not matter; `..` and `~` are resolved; symlinks are not."""
    (home / "real").mkdir()
    (home / "conf").symlink_to("real")
    (home / "conf" / "c.toml").write_text(
        'database = "sqlite:///db/x.db"\n'
        "[source.s]\n"
        'paths = ["in/*.csv", "../up.csv", "/abs/./x//y", "~/z", "~"]\n'
        'exclude = ["*.bak", "old/*.csv", "**/tmp/*", "/abs/no"]\n'
        'after = { archive = "done" }\n'
    )
    found = load_config(home / "conf" / "c.toml", {"HOME": "/home/me"})
    base = f"{home}/conf"
    assert found.origin == f"{base}/c.toml"
    assert found.database == f"sqlite:///{base}/db/x.db"
    settings = found.source["s"]
    assert settings.paths == (f"{base}/in/*.csv", f"{home}/up.csv", "/abs/x/y", "/home/me/z", "/home/me")
    assert settings.exclude == ("*.bak", f"{base}/old/*.csv", "/**/tmp/*", "/abs/no")
    assert settings.after == After(archive=f"{base}/done")


def test_brackets_in_the_directory_of_the_config_are_no_glob(home: Path) -> None:
    """Only what the user wrote as a glob is one."""
    (home / "a[1]").mkdir()
    (home / "a[1]" / "c.toml").write_text('[source.s]\npaths = ["*.csv"]\nafter = { archive = "done" }\n')
    settings = load_config(home / "a[1]" / "c.toml", {}).source["s"]
    assert settings.paths == (f"{home}/a[[]1]/*.csv",)
    assert settings.after == After(archive=f"{home}/a[1]/done")


# The database


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("x.db", "sqlite:///{base}/x.db"),
        ("/x.db", "sqlite:////x.db"),
        ("sqlite:///x.db", "sqlite:///{base}/x.db"),
        ("sqlite:////x.db", "sqlite:////x.db"),
        ("sqlite+pysqlite:///x.db", "sqlite:///{base}/x.db"),
        ("postgres://u:p@h/d", "postgresql+psycopg://u:p@h/d"),
        ("postgresql://h/d?sslmode=require", "postgresql+psycopg://h/d?sslmode=require"),
        ("postgresql://", "postgresql+psycopg://"),
        ("postgresql+psycopg:///d", "postgresql+psycopg:///d"),
    ],
)
def test_a_database_is_one_url(tmp_path: Path, text: str, url: str) -> None:
    """Bare paths, SQLite and PostgreSQL URLs come out in one form, and stay as they are the second time."""
    expected = url.format(base=tmp_path)
    assert database_url(text, tmp_path) == expected
    assert database_url(expected, Path("/")) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mysql://u:secret@h/d", 'got "mysql://u:***@h/d"'),
        ("postgresql+asyncpg://h/d", "expected a file's path, sqlite:///FILE or postgresql://USER@HOST/NAME"),
        ("postgres:x", "expected a file's path"),
        ("host=h password=secret", 'got "host=h password=***"'),
        (":memory:", "one in memory would be lost"),
        ("sqlite://", "one in memory would be lost"),
        ("sqlite:///", "one in memory would be lost"),
        ("sqlite:///:memory:", "one in memory would be lost"),
        ("sqlite://x.db", "sqlite:///x.db"),
        ("sqlite:///x.db?mode=ro", "without options"),
        ("sqlite:///file:x.db", "expected a file's path"),
        ("", 'got ""'),
        ("x/", "got the directory"),
        (".", "got the directory"),
        ("missing/x.db", "which does not exist"),
        ("file/x.db", "which is no directory"),
    ],
)
def test_another_database_is_refused_in_one_sentence(tmp_path: Path, text: str, words: str) -> None:
    """What is accepted is named, and no password is repeated."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError) as caught:
        database_url(text, tmp_path)
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_directory_of_the_database_names_the_way_out(tmp_path: Path) -> None:
    """The hint can be pasted into a shell."""
    with pytest.raises(UsageError) as caught:
        database_url("a b/x.db", tmp_path)
    assert caught.value.hint == f"mkdir -p '{tmp_path}/a b'"


def test_the_database_is_chosen_in_the_stated_order(tmp_path: Path) -> None:
    """--db wins over the config, that over the variable, that over the default."""
    config = Config(database="sqlite:////c.db")
    environ = {"FILECOLLECT_DB": "e.db"}
    assert choose_database("o.db", config, environ, tmp_path) == f"sqlite:///{tmp_path}/o.db"
    assert choose_database(None, config, environ, tmp_path) == "sqlite:////c.db"
    assert choose_database(None, Config(), environ, tmp_path) == f"sqlite:///{tmp_path}/e.db"
    assert choose_database(None, None, {"FILECOLLECT_DB": ""}, tmp_path) == f"sqlite:///{tmp_path}/filecollect.db"


def test_an_unusable_database_says_where_it_was_named(tmp_path: Path) -> None:
    """The sentence begins with the option, the config's file or the variable."""
    config = Config(database="sqlite:////none/c.db", origin="/etc/c.toml")
    with pytest.raises(UsageError, match=r"^--db: expected"):
        choose_database("", config, {}, tmp_path)
    with pytest.raises(UsageError, match=r"^/etc/c.toml database: expected .* got /none, which does not exist$"):
        choose_database(None, config, {}, tmp_path)
    with pytest.raises(UsageError, match=r"^FILECOLLECT_DB: expected"):
        choose_database(None, None, {"FILECOLLECT_DB": ":memory:"}, tmp_path)


def test_a_missing_directory_in_the_config_does_not_matter_when_another_database_is_used(home: Path) -> None:
    """The config loads; only the chosen database must be usable."""
    config = load(home, 'database = "none/x.db"')
    assert choose_database("o.db", config, {}, home) == f"sqlite:///{home}/o.db"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:secret@h:5432/d", "postgresql://u:***@h:5432/d"),
        ("postgresql://u:se@cr/et@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u:se?cret@h/d", "postgresql://u:***@h/d"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgresql://h:5432/d?user=a@b", "postgresql://h:5432/d?user=a@b"),
        ("postgresql://h/d?password=secret&x=1", "postgresql://h/d?password=***&x=1"),
        ("postgresql://:secret@h/d", "postgresql://:***@h/d"),
        ("https://example.org:8080/in?m=a@b", "https://example.org:8080/in?m=a@b"),
        ("https://example.org/in?access_token=secret#x", "https://example.org/in?access_token=***#x"),
        ("nats://secret@h:4222", "nats://***@h:4222"),
        ("sqlite:////data/a@b.db", "sqlite:////data/a@b.db"),
        ("x.db", "x.db"),
    ],
)
def test_a_url_is_shown_without_its_secrets(url: str, shown: str) -> None:
    """Passwords and tokens are hidden wherever a URL can hold them."""
    assert redacted_url(url) == shown


# --set


def test_set_changes_a_copy_of_the_settings() -> None:
    """Values are TOML, bare words are text, dotted keys reach inside, the base stays as it was."""
    base = SourceSettings(paths=("/x",), columns={"a": "integer"})
    found = settings_from(
        [
            "format=csv",
            'key=["id"]',
            "columns.zip=text",
            "ready.stable_s = 5",
            "delimiter=;",
            "batch_rows=7",
            "header=auto",
        ],
        base,
    )
    assert (found.format, found.key, found.delimiter, found.batch_rows) == ("csv", ("id",), ";", 7)
    assert found.columns == {"a": "integer", "zip": "text"}
    assert (found.ready, found.follow, found.header) == (Ready(stable_s=5), False, None)
    assert base == SourceSettings(paths=("/x",), columns={"a": "integer"})


def test_set_keeps_what_the_base_has(home: Path) -> None:
    """Every shape of a setting survives being changed beside it."""
    base = source(
        home,
        'after = { archive = "/d" }\ntable = false\nsinks = ["h"]\nmultiline = { continue = "x" }\n'
        'header = ["a"]\nlineage = ["at"]\n[sink.h]\ntype = "http"\nurl = "https://x"',
    )
    assert settings_from([], base) == base
    assert settings_from(["batch_rows=5000"], base).model_dump() == base.model_dump()


def test_set_makes_paths_absolute_when_told_from_where() -> None:
    """A relative path on the command line is meant from the working directory."""
    found = settings_from(['paths=["a"]'], SourceSettings(paths=("/x",)), cwd=Path("/w"))
    assert found.paths == ("/w/a",)


def test_set_reports_every_mistake_with_its_key() -> None:
    """The sentences are those of the config, with `--set` as their place."""
    with pytest.raises(ConfigError) as caught:
        settings_from(
            ["frmat=csv", "batch_rows=x", "key=[1", "nonsense", "ready.stable_s=0"], SourceSettings(paths=("x",))
        )
    assert caught.value.mistakes == (
        '--set key: expected a TOML value (unclosed array), got "[1"',
        '--set nonsense: expected KEY=VALUE, got "nonsense"',
        "--set ready.stable_s: expected a number above 0, got 0",
        '--set batch_rows: expected a whole number from 1 to 1000000, got "x"',
        '--set frmat: expected a known setting, got "frmat" (did you mean "format"?)',
    )


def test_set_cannot_smuggle_in_a_second_setting() -> None:
    """A line end inside a value stays part of the value."""
    with pytest.raises(ConfigError, match="--set newer: expected a key beside it"):
        settings_from(["newer=1\nbatch_rows = 3"], SourceSettings(paths=("x",)))


# What is not acted on, and what is shown


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ('multiline = { start = "x" }', "multiline"),
        ('redact = ["x"]', "redact"),
        ('ready = { marker = "x" }', "ready"),
        ('ready = "closed"', "ready"),
        ('after = "delete"', "after"),
        ('drift = "add"', "drift"),
        ('path_columns = "(?P<a>.)"', "path_columns"),
        ("shared = true", "shared"),
        ("quarantine_stop = 1", "quarantine_stop"),
        ("outbox_limit = 1", "outbox_limit"),
        ('format = "syslog"', "format"),
    ],
)
def test_a_setting_that_is_not_acted_on_is_named(home: Path, body: str, key: str) -> None:
    """One sentence each, so that nothing is ignored silently."""
    (sentence,) = unsupported(source(home, body))
    assert sentence.startswith(f"{key}: this version does not act on {key} = ")


def test_what_is_acted_on_is_not_named(home: Path) -> None:
    """Defaults, and values that change nothing, are fine."""
    assert unsupported(SourceSettings(paths=("*",))) == []
    body = 'ready = { stable_s = 3 }\nafter = "keep"\ndrift = "extra"\nencoding = "utf-16"\nformat = "json"'
    body += '\ntimestamp = { zone = "UTC" }'
    assert unsupported(source(home, body)) == []


def test_sinks_are_not_acted_on(home: Path) -> None:
    """The config as a whole names sources and sinks by their key."""
    found = load(
        home,
        '[source."a b"]\npaths = ["x"]\nsinks = ["h"]\ntable = false\n[sink.h]\ntype = "http"\nurl = "https://x"\n',
    )
    assert unsupported_in(found) == [
        'source."a b".table: this version does not act on table = false yet',
        'source."a b".sinks: this version does not act on sinks = ["h"] yet',
        "sink.h: this version does not deliver to sinks yet",
    ]


def test_every_name_in_not_yet_is_a_setting() -> None:
    """The table cannot go stale by a renamed setting."""
    assert {name.partition(".")[0] for name in NOT_YET} <= set(SourceSettings.model_fields)


def test_a_shown_config_holds_everything_but_secrets(home: Path) -> None:
    """Defaults are included; passwords, tokens and headers are hidden, also in the values' own text."""
    found = load(
        home,
        'database = "postgres://u:secret@h/d"\n[source.a]\npaths = ["/x"]\nready = { stable_s = 5 }\n'
        '[sink.h]\ntype = "http"\nurl = "https://u:secret@h/?token=secret"\ntoken = "secret"\n'
        'password = "secret"\nheaders = { Authorization = "secret" }\n',
    )
    shown = public_config(found)
    assert shown["config"] == str(home / "filecollect.toml")
    assert shown["database"] == "postgresql+psycopg://u:***@h/d"
    assert shown["schema"] is None
    assert shown["worker"]["rescan_s"] == 10
    assert shown["source"]["a"]["ready"] == {"stable_s": 5, "marker": None}
    assert shown["sink"]["h"]["url"] == "https://u:***@h/?token=***"
    assert shown["sink"]["h"]["headers"] == {"Authorization": "***"}
    assert shown["sink"]["h"]["username"] is None
    assert "secret" not in str(shown)
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    ("pattern", "archive", "is_said"),
    [
        ("/d/**/*.csv", "/d/done", True),
        ("/d/*.csv", "/d/done", False),
        ("/d/*.csv", "/d", True),
        ("/d/*/x.csv", "/d/done", True),
        ("/d", "/d/done", True),
        ("/d/in/**", "/d/done", False),
    ],
)
def test_an_archive_inside_the_collected_paths_is_remarked(pattern: str, archive: str, is_said: bool) -> None:
    """It works, since archived files are never collected, but it may surprise."""
    settings = SourceSettings(paths=(pattern,), after=After(archive=archive), follow=False)
    said = remarks(Config(source={"s": settings}))
    assert said == (
        [f"source.s.after.archive: {archive} lies inside {pattern}; files in it are never collected"] if is_said else []
    )


# The template


def test_the_template_loads_unchanged(home: Path) -> None:
    """What `init` writes means what was found, with names and paths that need care."""
    text = template(
        [
            TemplateSource("app", ("/var/log/app*.log",), "jsonl"),
            TemplateSource(
                'or"d.ers', ("in/${x}/\\é\x7f*.csv", "/b\udcff.csv"), "csv", follow=False, keys=("order id",)
            ),
        ],
        "x.db",
    )
    found = load(home, text)
    assert found.database == f"sqlite:///{home}/x.db"
    assert list(found.source) == ["app", 'or"d.ers']
    assert found.source["app"] == SourceSettings(paths=("/var/log/app*.log",), format="jsonl", follow=True)
    orders = found.source['or"d.ers']
    assert orders.paths == (f"{home}/in/${{x}}/\\é\x7f*.csv", "/b?.csv")
    assert (orders.format, orders.follow) == ("csv", False)


def test_the_examples_in_the_template_are_right_settings(home: Path) -> None:
    """Removing every comment sign before a setting gives a config that loads."""
    text = template([TemplateSource("orders", ("*.csv",), "csv", follow=False, keys=("id",))], "x.db")
    lines = [line.removeprefix("# ") if " = " in line else line for line in text.splitlines()]
    orders = load(home, "\n".join(lines)).source["orders"]
    assert orders.key == ("id",)
    assert orders.columns == {"id": "integer"}
    assert orders.on_replace == "replace"
    assert unsupported(orders) == []


@pytest.mark.parametrize("name", ["auto", "json", "lines"])
def test_the_examples_fit_the_format(home: Path, name: str) -> None:
    """What only CSV or only JSON has is shown for these."""
    text = template([TemplateSource("x", ("*.x",), name)], "x.db")
    lines = [line.removeprefix("# ") if " = " in line else line for line in text.splitlines()]
    assert unsupported(load(home, "\n".join(lines)).source["x"]) == []


def test_a_template_without_sources_loads(home: Path) -> None:
    """Then an example stands there as a comment."""
    text = template([], "sqlite:///filecollect.db")
    assert "# [source.app]" in text
    assert load(home, text).source == {}


# The module


def test_importing_the_config_is_light() -> None:
    """Commands that only need settings do not wait for the SQL library."""
    code = (
        "import sys, filecollect.config; print(sorted({'sqlalchemy', 'alembic', 'click', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_public_names_are_these() -> None:
    """Other layers import from `filecollect.config` alone."""
    assert all(hasattr(api, name) for name in api.__all__)
