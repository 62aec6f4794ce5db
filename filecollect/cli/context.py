"""What every command has: the options -c --db --json -v -q -h, the config and the database they lead to."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from filecollect.config import Config


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
    def open(self) -> Iterator[Engine]:
        """Open the database, which must be there, for one command."""
        from filecollect.store.engine import close, open_engine
        from filecollect.store.migrate import upgrade

        engine = open_engine(self.url)
        try:
            upgrade(engine)
            yield engine
        finally:
            close(engine, truncate=False)


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
