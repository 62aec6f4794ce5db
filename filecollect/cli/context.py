"""What every command has: the options -c --db --json -v -q -h, the config and the database they lead to.

Nothing is looked for before a command asks, so `--help` and wrong calls cost nothing. A command that
only looks never makes a database, a table or a migration: a mistyped `--db` leaves no file behind,
and another program's database stays as it is.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from filecollect.errors import UsageError

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from filecollect.config import Config

NO_DATABASE = "run `filecollect backfill` first, or name another with --db"


class Context:
    """The common options of one call; config and database are looked for when first asked."""

    def __init__(self, config: str | None, db: str | None, as_json: bool, verbose: bool, quiet: bool) -> None:
        self.config_option = config
        self.db = db
        self.json = as_json
        self.verbose = verbose
        self.quiet = quiet

    @functools.cached_property
    def config(self) -> Config | None:
        """Return the config, None when there is none; raise ConfigError."""
        from filecollect.config import find_config, load_config

        path = find_config(self.config_option, os.environ, Path.cwd())
        return None if path is None else load_config(path, os.environ)

    @property
    def url(self) -> str:
        """Return the database of this call."""
        return self._choose(self.config)

    @property
    def url_without_config(self) -> str:
        """Return the database of this call when no config counts."""
        return self._choose(None)

    @property
    def shown_url(self) -> str:
        """Return the database without its password."""
        from filecollect.config import redacted_url

        return redacted_url(self.url)

    def _choose(self, config: Config | None) -> str:
        from filecollect.config import choose_database

        return choose_database(self.db, config, os.environ, Path.cwd())

    @contextmanager
    def open(self, *, create: bool = False, check: bool = True) -> Iterator[Engine]:
        """Open the database for one command and close it at the end.

        Without `create` it must be there with our tables of this version, and nothing is made or
        migrated: raises UsageError, for a file of somebody else's too, unless `check` is False.
        """
        from filecollect.config import sqlite_file
        from filecollect.store.engine import close, open_engine

        url = self.url
        file = sqlite_file(url)
        if not create and file is not None and not os.path.lexists(file):
            raise UsageError(
                f"no database at {file}", hint="run `filecollect backfill` first, or name another with --db"
            )
        schema = self.config.db_schema if self.config is not None else None
        engine = open_engine(url, create=create, schema=schema)
        try:
            if check:
                self._ready(engine, create=create)
            yield engine
        finally:
            close(engine, truncate=create)

    def _ready(self, engine: Engine, *, create: bool) -> None:
        from filecollect.store.migrate import REVISIONS, current, is_current, upgrade

        version = None if create else current(engine)
        if create or (version is not None and version not in REVISIONS):
            upgrade(engine)  # which also refuses, in one sentence, what a newer program made
        elif version is None:
            raise UsageError(
                f"the database {self.shown_url} holds nothing of filecollect",
                hint=NO_DATABASE,
            )
        elif not is_current(engine):
            raise UsageError(f"the database has the older schema version {version}", hint="filecollect db upgrade")


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that every command has, and a Context as its first argument."""

    @click.option("-c", "--config", "config_option", metavar="FILE", help="The config file.")
    @click.option("--db", metavar="URL", help="The database: a path or a URL.")
    @click.option("--json", "as_json", is_flag=True, help="One JSON document on standard output.")
    @click.option("-v", "--verbose", is_flag=True, help="Say more; tracebacks of faults.")
    @click.option("-q", "--quiet", is_flag=True, help="Say only what went wrong.")
    @click.help_option("-h", "--help")
    @functools.wraps(command)
    def wrapped(
        *words: Any,
        config_option: str | None,
        db: str | None,
        as_json: bool,
        verbose: bool,
        quiet: bool,
        **options: Any,
    ) -> Any:
        return command(Context(config_option, db, as_json, verbose, quiet), *words, **options)

    return wrapped
