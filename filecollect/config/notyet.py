"""What may be written in a config but is not acted on by this version.

A setting that is silently ignored is worse than a refused one, so a caller asks `unsupported` before
it starts, and refuses. A later version that learns a setting removes its line from the table here.
"""

from __future__ import annotations

from collections.abc import Callable

from filecollect.config.mistakes import dotted
from filecollect.config.settings import Config, Ready, SourceSettings
from filecollect.config.wording import show

ACTED_ON_FORMATS = frozenset({"auto", "csv", "json", "jsonl", "lines"})

_TABLE: tuple[tuple[str, Callable[[SourceSettings], object]], ...] = (
    ("ready.marker", lambda source: isinstance(source.ready, Ready) and source.ready.marker),
    ("ready.closed", lambda source: source.ready == "closed"),
    ("after", lambda source: source.after not in (None, "keep")),
    ("format", lambda source: source.format not in ACTED_ON_FORMATS),
    ("multiline", lambda source: source.multiline),
    ("redact", lambda source: source.redact),
    ("table", lambda source: source.table is False),
    ("drift", lambda source: source.drift != "extra"),
    ("path_columns", lambda source: source.path_columns),
    ("sinks", lambda source: source.sinks),
    ("shared", lambda source: source.shared),
    ("quarantine_stop", lambda source: source.quarantine_stop),
    ("outbox_limit", lambda source: source.outbox_limit),
)
NOT_YET = frozenset(name for name, _ in _TABLE)
"""Settings of a source (for some, only certain values) that this version does not act on."""


def unsupported(settings: SourceSettings) -> list[str]:
    """Return one sentence for each setting of a source that this version would ignore."""
    sentences = []
    for name, is_set in _TABLE:
        if is_set(settings):
            key = name.partition(".")[0]
            sentences.append(f"{key}: this version does not act on {key} = {show(getattr(settings, key))} yet")
    return sentences


def unsupported_in(config: Config) -> list[str]:
    """Return the sentences for all sources and sinks of a config, each with its full key."""
    sentences = [
        f"{dotted(('source', name))}.{sentence}"
        for name, settings in config.source.items()
        for sentence in unsupported(settings)
    ]
    return sentences + [f"{dotted(('sink', name))}: this version does not deliver to sinks yet" for name in config.sink]
