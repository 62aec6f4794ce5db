"""Frozen settings from a TOML file, checked once; unknown keys are refused with the nearest known one.

`settings` holds the models, `values` the checked types they are made of, `load` reads and finds
every mistake, `mistakes` their lines, `wording` their sentences; `expand` makes paths concrete,
`database` chooses the database, `notyet` lists what is not acted on, `show` and `template` write
configs for people. Nothing here opens a database or looks at collected files.
"""

from filecollect.config.database import choose_database, database_url, redacted_url, sqlite_file
from filecollect.config.load import find_config, load_config, settings_from
from filecollect.config.notyet import NOT_YET, unsupported, unsupported_in
from filecollect.config.settings import (
    FORMATS,
    After,
    Config,
    Multiline,
    Ready,
    SinkSettings,
    SourceSettings,
    Timestamp,
    WorkerSettings,
)
from filecollect.config.show import public_config, remarks
from filecollect.config.template import TemplateSource, template

__all__ = [
    "FORMATS",
    "NOT_YET",
    "After",
    "Config",
    "Multiline",
    "Ready",
    "SinkSettings",
    "SourceSettings",
    "TemplateSource",
    "Timestamp",
    "WorkerSettings",
    "choose_database",
    "database_url",
    "find_config",
    "load_config",
    "public_config",
    "redacted_url",
    "remarks",
    "settings_from",
    "sqlite_file",
    "template",
    "unsupported",
    "unsupported_in",
]
