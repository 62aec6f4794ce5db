"""The settings as frozen values: checked once, then only read.

Unknown keys are refused, values are never converted. What concerns one field is checked by its type
(`values.py`); what concerns several is checked here and reported all at once, each at its own key.
Settings hold what the user said: whether a table exists, a sink answers or a path matches is
found out elsewhere. `None` means "not said"; the default then depends on something else.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from filecollect.config import values as v
from filecollect.config.wording import CROSS, show

Format = Literal[
    "auto",
    "csv",
    "jsonl",
    "json",
    "lines",
    "regex",
    "grok",
    "logfmt",
    "combined",
    "common",
    "syslog",
    "cri",
    "docker",
    "python",
]
FORMATS: tuple[str, ...] = get_args(Format)

_Found = list[tuple[tuple[str, ...], str, tuple[str, ...]]]  # where, the sentence, all keys concerned


class Settings(BaseModel):
    """A frozen table of settings that refuses unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    def cross_mistakes(self) -> _Found:
        """Return what is wrong between fields that are each right."""
        return []

    @model_validator(mode="after")
    def _report_cross_mistakes(self) -> Self:
        found = self.cross_mistakes()
        if found:
            raise PydanticCustomError(CROSS, "settings contradict each other", {"mistakes": found})
        return self


class Ready(Settings):
    """When a drop is finished: unchanged for `stable_s`, or once its `marker` file exists."""

    stable_s: v.OptionalSeconds = None
    marker: v.Marker = None

    def cross_mistakes(self) -> _Found:
        """Return a mistake unless exactly one of the two is said."""
        said = [name for name in ("stable_s", "marker") if getattr(self, name) is not None]
        if len(said) == 1:
            return []
        return [((), f"expected either stable_s or marker, got {'both' if said else 'neither'}", ())]


class After(Settings):
    """What becomes of a loaded drop: it is moved into the directory `archive`."""

    archive: v.PathText


class Timestamp(Settings):
    """How times are written: `formats` in order, and the `zone` of those that name none.

    A format is one of strptime, or `epoch`, `epoch_ms`, `epoch_us`, `epoch_ns`.
    """

    formats: v.TimeFormats = ()
    zone: v.Zone = None

    def cross_mistakes(self) -> _Found:
        """Return a mistake when nothing is said."""
        return [] if self.formats or self.zone else [((), "expected formats, zone or both, got neither", ())]


class Multiline(Settings):
    """How lines make one record: each begins where `start` matches, or goes on where `continue` does.

    The Python name of `continue` is `continuation`.
    """

    start: v.OptionalRegex = None
    continuation: v.OptionalRegex = Field(default=None, alias="continue")

    def cross_mistakes(self) -> _Found:
        """Return a mistake unless exactly one of the two is said."""
        said = [expression for expression in (self.start, self.continuation) if expression is not None]
        if len(said) == 1:
            return []
        return [((), f"expected either start or continue, got {'both' if said else 'neither'}", ())]


class SourceSettings(Settings):
    """What `[source.NAME]` may say; sizes in bytes, times in seconds unless the name ends otherwise.

    `redact` lists regular expressions whose matches are blacked out. `quarantine_stop` is the number
    of quarantined records after which the source is paused, `outbox_limit` the number of waiting
    messages at which reading pauses. `header`, `delimiter`, `encoding`, `quote`, `escape` and `comment` are None for
    "auto". `flatten` is how many levels of nested JSON objects become columns `a.b`.
    """

    paths: v.Paths
    exclude: tuple[v.Filled, ...] = ()
    follow: v.Flag = True
    start: Literal["beginning", "end"] = "beginning"
    ready: Annotated[
        Ready | Literal["closed"] | None,
        v.by(v.shape(Ready, '{ stable_s = SECONDS }, { marker = "{name}.done" } or "closed"', "closed")),
    ] = None
    after: Annotated[
        After | Literal["keep", "delete"] | None,
        v.by(v.shape(After, '{ archive = DIRECTORY }, "keep" or "delete"', "keep", "delete")),
    ] = None

    format: Format = "auto"
    encoding: v.Encoding = None
    encoding_errors: Literal["quarantine", "replace"] = "quarantine"
    delimiter: v.Delimiter = None
    quote: v.Quote = None
    escape: v.Escape = None
    comment: v.Comment = None
    decimal: Literal[".", ","] = "."
    header: v.Header = None
    null: tuple[v.Word, ...] = ()
    skip_lines: Annotated[int, v.by(v.whole(0))] = 0
    ragged: Literal["quarantine", "pad"] = "quarantine"
    flatten: Annotated[int, v.by(v.whole(0, 20))] = 0
    timestamp: Annotated[Timestamp | None, v.by(v.shape(Timestamp, "{ formats = [...], zone = ZONE }"))] = None
    multiline: Annotated[Multiline | None, v.by(v.shape(Multiline, "{ start = REGEX } or { continue = REGEX }"))] = None
    redact: tuple[v.Regex, ...] = ()

    table: v.TableName = None
    columns: dict[v.Filled, v.ColumnType] = {}
    names: Literal["keep", "snake"] = "keep"
    drift: Literal["extra", "add", "quarantine"] = "extra"
    create: v.Flag = True
    lineage: v.Lineage = ()
    path_columns: v.PathColumns = None

    key: v.Names = ()
    on_conflict: Literal["update", "ignore", "quarantine"] = "update"
    newer: v.OptionalText = None
    on_replace: Literal["replace", "append"] | None = None
    duplicates: Literal["skip", "ingest"] = "skip"
    sinks: v.Names = ()

    follow_symlinks: v.Flag = False
    shared: v.Flag = False
    settle_s: Annotated[float, v.by(v.number(least=0))] = 10
    ignore_older_s: v.OptionalSeconds = None
    final_after_s: v.OptionalSeconds = None
    max_record_bytes: Annotated[int, v.by(v.whole(1, v.GIB))] = v.MIB
    batch_rows: Annotated[int, v.by(v.whole(1, 1_000_000))] = 5000
    batch_bytes: Annotated[int, v.by(v.whole(1, v.GIB))] = 4 * v.MIB
    batch_wait_ms: Annotated[float, v.by(v.number(least=0))] = 50
    quarantine_raw_bytes: Annotated[int, v.by(v.whole(0, v.GIB))] = 64 * v.KIB
    quarantine_stop: v.OptionalCount = None
    outbox_limit: v.OptionalCount = None

    @model_validator(mode="before")
    @classmethod
    def _finished_drops_are_not_followed(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("follow") is None and (value.get("ready") or value.get("after")):
            return value | {"follow": False}
        return value

    @property
    def effective_on_replace(self) -> Literal["replace", "append"]:
        """Return what happens to the rows of a replaced file: drops replace, followed files append."""
        return self.on_replace or ("append" if self.follow else "replace")

    def cross_mistakes(self) -> _Found:
        """Return what is wrong between settings that are each right."""
        found: _Found = []

        def wrong(key: str, text: str, *others: str) -> None:
            found.append(((key,), text, (key, *others)))

        if self.follow:
            for key, value in (("ready", self.ready), ("after", self.after)):
                if value not in (None, "keep"):
                    wrong("follow", f"expected false beside {key} (it is for finished files), got true", key)
        elif self.start == "end":
            wrong("start", 'expected "beginning" for finished files (follow = false), got "end"', "follow")
        if not self.key:
            for key in ("on_conflict", "newer"):
                if key in self.model_fields_set and getattr(self, key) is not None:
                    wrong(key, f"expected a key beside it, got {show(getattr(self, key))} without one", "key")
        if self.on_conflict != "update" and self.newer is not None:
            wrong("newer", f'expected on_conflict = "update" beside it, got {show(self.on_conflict)}', "on_conflict")
        if self.table is False and not self.sinks:
            wrong("table", "expected sinks beside it (else the records would go nowhere), got false", "sinks")
        if self.format not in ("auto", "csv"):
            for key in ("delimiter", "header", "ragged", "quote", "escape", "comment", "decimal"):
                if key in self.model_fields_set and getattr(self, key) not in (None, "quarantine", "."):
                    wrong(key, f'expected format = "csv" beside it, got {show(self.format)}', "format")
        if self.flatten and self.format not in ("auto", "json", "jsonl"):
            wrong("flatten", f'expected format = "json" or "jsonl" beside it, got {show(self.format)}', "format")
        marks = [
            ("delimiter", self.delimiter),
            ("quote", self.quote),
            ("escape", self.escape),
            ("comment", self.comment),
        ]
        for index, (key, mark) in enumerate(marks):
            for other, same in marks[:index]:
                if mark and mark == same:
                    wrong(key, f"expected another character than {other}, got {show(mark)}", other)
        if self.decimal == self.delimiter:
            wrong("decimal", f"expected another character than delimiter, got {show(self.decimal)}", "delimiter")
        return found


class WorkerSettings(Settings):
    """What `[worker]` may say; times in seconds."""

    workers: Annotated[int | None, v.by(v.optional(v.whole(1, 256)))] = None
    lease_s: v.Seconds = 90
    heartbeat_s: v.Seconds = 30
    host: v.OptionalText = None
    durability: Literal["relaxed", "full"] = "relaxed"
    idle_release_s: v.Seconds = 30
    rescan_s: v.Seconds = 10
    stall_s: v.Seconds = 600
    max_attempts: Annotated[int, v.by(v.whole(1))] = 10
    database_patience_s: v.Seconds = 60

    @model_validator(mode="before")
    @classmethod
    def _heartbeat_is_a_third_of_the_lease(cls, value: Any) -> Any:
        if isinstance(value, dict) and "heartbeat_s" not in value and type(value.get("lease_s")) in (int, float):
            return value | {"heartbeat_s": value["lease_s"] / 3} if value["lease_s"] > 0 else value
        return value

    def cross_mistakes(self) -> _Found:
        """Return a mistake when a missed heartbeat would already cost the lease."""
        if self.heartbeat_s * 2 <= self.lease_s:
            return []
        text = f"expected at most half of lease_s ({show(self.lease_s)}), got {show(self.heartbeat_s)}"
        return [(("heartbeat_s",), text, ("heartbeat_s", "lease_s"))]

    def worker_count(self, *, sqlite: bool) -> int:
        """Return how many worker processes to run: as said, else one a core, at most 4 on SQLite."""
        if self.workers is not None:
            return self.workers
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(cores, 4) if sqlite else cores


class SinkSettings(Settings):
    """What `[sink.NAME]` may say: where messages go, and how this program proves who it is there."""

    type: Literal["http", "nats"]
    url: v.Filled = Field(repr=False)
    subject: v.OptionalText = None
    headers: dict[v.Filled, v.Word] = Field(default={}, repr=False)
    username: v.OptionalText = None
    password: v.OptionalText = Field(default=None, repr=False)
    token: v.OptionalText = Field(default=None, repr=False)
    timeout_s: v.Seconds = 10

    def cross_mistakes(self) -> _Found:
        """Return settings that only the other kind of sink has, and the subject that NATS needs."""
        found: _Found = []
        if self.type == "nats" and self.subject is None:
            found.append((("subject",), "expected the subject to publish to, got nothing", ("type", "subject")))
        other = "headers" if self.type == "nats" else "subject"
        if getattr(self, other):
            needed = "http" if self.type == "nats" else "nats"
            text = f"expected type = {show(needed)} beside it, got {show(self.type)}"
            found.append(((other,), text, ("type", other)))
        return found


class Config(Settings):
    """A whole config file; `Config()` is what holds without one.

    `database` is an absolute URL or None; `db_schema` is the key `schema`; `origin` is the file.
    """

    database: v.OptionalText = Field(default=None, repr=False)
    db_schema: v.SchemaName = Field(default=None, alias="schema")
    worker: WorkerSettings = WorkerSettings()
    source: dict[str, SourceSettings] = {}
    sink: dict[str, SinkSettings] = {}
    origin: str | None = Field(default=None, exclude=True)


SECRETS = ("url", "headers", "password", "token")
"""Settings of a sink whose values may not be told to anybody."""
SHAPES: dict[str, type[Settings]] = {"ready": Ready, "after": After, "timestamp": Timestamp, "multiline": Multiline}
"""The tables inside a source, by their key."""
