"""What a call looks for: patterns by source, one scan of them, and who decides on the files found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from filecollect.config import Config, SourceSettings
from filecollect.errors import UsageError
from filecollect.files.filesystem import FileSystem
from filecollect.files.finder import Scan, find, roots
from filecollect.parse.spec import Wanted
from filecollect.pipeline.assign import Assigner


@dataclass(frozen=True, slots=True)
class Call:
    """What `filecollect backfill` or `run` was asked to do.

    `changes` are the settings that the call names, `assumed` those that hold for files of no configured
    source unless the call says otherwise.
    """

    paths: tuple[str, ...]
    base: SourceSettings
    changes: dict[str, Any]
    said: frozenset[str]
    source: str | None = None
    table: str | None = None
    workers: int | None = None
    dry_run: bool = False
    alter: bool = False
    config: Config | None = None
    never: tuple[str, ...] = ()
    assumed: dict[str, Any] = field(default_factory=dict)
    cwd: Path = field(default_factory=Path.cwd)

    @property
    def configured(self) -> dict[str, SourceSettings]:
        """Return the config's sources."""
        return self.config.source if self.config else {}


@dataclass(frozen=True, slots=True)
class Group:
    """Files of one configured source, or (`source` None) those that families are made of."""

    source: str | None
    settings: SourceSettings
    scan: Scan


class Scanner:
    """Scan for one call, as often as wanted."""

    def __init__(self, call: Call, files: FileSystem) -> None:
        self.call = call
        self.files = files

    def scan(self, *, literal_paths_exist: bool = True) -> list[Group]:
        """Return what is there now, by source. Raises UsageError for a call that cannot be meant.

        With `literal_paths_exist` a path without a wildcard that leads nowhere is such a call.
        """
        call = self.call
        if call.paths:
            found = self._find(call.paths, call.base)
            if found.missing and literal_paths_exist:
                raise UsageError("no such file or directory", path=found.missing[0])
            return self._by_config(found)
        return [Group(key, one, self._find(one.paths, one)) for key, one in self._chosen().items()]

    def roots(self) -> list[tuple[str, bool]]:
        """Return the directories that files may come to, and whether all below them counts."""
        call = self.call
        patterns = call.paths or tuple(path for one in self._chosen().values() for path in one.paths)
        return roots(patterns, str(call.cwd), files=self.files)

    def assigners(
        self, engine: Engine | None, files: FileSystem, groups: Sequence[Group]
    ) -> list[tuple[Assigner, Scan]]:
        """Return for each group who decides on its files."""
        call = self.call
        made = []
        for group in groups:
            settings = group.settings
            is_configured = group.source is not None and call.configured.get(group.source) is settings
            assigner = Assigner(
                engine,
                files,
                settings,
                wanted_of(settings),
                (said_by(settings) if is_configured else call.assumed) | call.changes,
                source=group.source,
                table=call.table or (settings.table or group.source if is_configured else None),
                configured=is_configured,
            )
            made.append((assigner, group.scan))
        return made

    def _chosen(self) -> dict[str, SourceSettings]:
        call = self.call
        if not call.configured:
            raise UsageError(
                "no PATH given and no config file with sources found",
                hint="filecollect backfill PATH..., or `filecollect init PATH...` for a config",
            )
        if call.source is None:
            return call.configured
        if call.source not in call.configured:
            known = ", ".join(call.configured)
            raise UsageError(f"no source {call.source!r} in the config", hint=f"sources: {known}")
        return {call.source: call.configured[call.source]}

    def _find(self, patterns: Sequence[str], settings: SourceSettings) -> Scan:
        return find(
            patterns,
            base=str(self.call.cwd),
            exclude=settings.exclude,
            never=frozenset(self.call.never),
            follow_symlinks=settings.follow_symlinks,
            files=self.files,
        )

    def _by_config(self, found: Scan) -> list[Group]:
        """Give files that a configured source matches to it; the others are named by the call or by family."""
        call = self.call
        if call.source in call.configured:
            return [Group(call.source, call.configured[call.source], found)]
        if call.source is not None or call.table is not None:
            return [Group(call.source or call.table, call.base, found)]
        owner: dict[str, str] = {}
        for key, settings in call.configured.items():
            for one in self._find(settings.paths, settings).files:
                owner.setdefault(one.path, key)
        rest = replace(found, files=[one for one in found.files if one.path not in owner])
        split = [Group(None, call.base, rest)]
        for key, settings in call.configured.items():
            mine = [one for one in found.files if owner.get(one.path) == key]
            if mine:
                split.append(Group(key, settings, Scan(files=mine)))
        return split


def wanted_of(settings: SourceSettings) -> Wanted:
    """Return what the settings force of a file's format."""
    return Wanted(
        format=None if settings.format == "auto" else settings.format,
        encoding=settings.encoding,
        delimiter=settings.delimiter,
        header=settings.header,
        null=settings.null,
        skip_lines=settings.skip_lines,
        ragged=settings.ragged,
        names=settings.names,
        encoding_errors=settings.encoding_errors,
        quote=settings.quote,
        escape=settings.escape,
        comment=settings.comment,
        decimal=settings.decimal,
        flatten=settings.flatten,
        time_formats=settings.timestamp.formats if settings.timestamp else (),
        time_zone=settings.timestamp.zone if settings.timestamp else None,
        max_record_bytes=settings.max_record_bytes,
        quarantine_raw_bytes=settings.quarantine_raw_bytes,
    )


def said_by(settings: SourceSettings) -> dict[str, Any]:
    """Return what a configured source says, to be compared with what was decided before."""
    values = settings.model_dump(mode="json")
    names = settings.model_fields_set - {"paths", "table"}
    return {name: values[name] for name in names if (name, values[name]) != ("format", "auto")}
