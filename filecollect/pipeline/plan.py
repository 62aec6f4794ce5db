"""A plan: one source with everything decided, ready to read files into its table.

What was decided is stored in `collection_source` and never decided again; a call or config that
contradicts it is refused with the difference named. Settings that only tune speed may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from filecollect.config import SourceSettings
from filecollect.domain.columns import Column, Layout
from filecollect.errors import UsageError
from filecollect.files.filesystem import FileSystem
from filecollect.files.finder import literal_root
from filecollect.parse.spec import Spec
from filecollect.store.destination import Destination
from filecollect.store.sources import StoredSource, change_source_config

TUNING = frozenset(
    {
        "batch_rows",
        "batch_bytes",
        "batch_wait_ms",
        "paths",
        "exclude",
        "settle_s",
        "duplicates",
        "follow_symlinks",
        "start",
        "ready",
        "ignore_older_s",
        "final_after_s",
    }
)
"""Settings that change no stored value: a new one simply takes effect."""
ITEMS = "collected_item"
ITEM_COLUMNS = (Column("payload", "*", "json"), Column("source_item_id", "*", "text"))


@dataclass(frozen=True, slots=True)
class Plan:
    """A source as one round uses it."""

    source_key: str
    settings: SourceSettings
    spec: Spec
    columns: tuple[Column, ...]
    destination: Destination
    inferred: bool
    created: bool = False

    def files(self, files: FileSystem) -> FileSystem:
        """Return the file system as this source may use it."""
        roots = [literal_root(path) for path in self.settings.paths if path.startswith("/")]
        return files.trusting(roots, follow_symlinks=self.settings.follow_symlinks)

    @property
    def layout(self) -> Layout:
        """Return what records must become."""
        return self.destination.layout


def destination_of(
    source_key: str, table_name: str, settings: SourceSettings, columns: tuple[Column, ...]
) -> Destination:
    """Return the destination of a source; `table_name` may hold a schema."""
    schema, _, table = table_name.rpartition(".") if "." in (settings.table or "") else ("", "", table_name)
    if table_name == ITEMS:
        layout = Layout(ITEM_COLUMNS, tuple(settings.key or ()), "items")
        return Destination(source_key, ITEMS, layout, on_conflict=settings.on_conflict)
    key = tuple(_table_names(settings.key or (), columns))
    newer = next(iter(_table_names([settings.newer], columns)), None) if settings.newer else None
    return Destination(
        source_key,
        table,
        Layout(columns, key),
        schema=schema or None,
        on_conflict=settings.on_conflict,
        newer=newer,
        lineage=tuple(settings.lineage or ()),
    )


def _table_names(names: Any, columns: tuple[Column, ...]) -> list[str]:
    by_name = {column.name: column.name for column in columns}
    by_source = {column.source_name: column.name for column in columns}
    found = []
    for name in names:
        if name not in by_name and name not in by_source:
            known = ", ".join(column.name for column in columns) or "none"
            raise UsageError(f"key column {name!r} does not occur in the files", hint=f"columns: {known}")
        found.append(by_name.get(name) or by_source[name])
    return found


def new_plan(
    source_key: str,
    table_name: str,
    settings: SourceSettings,
    spec: Spec,
    columns: tuple[Column, ...],
    *,
    inferred: bool,
) -> Plan:
    """Return the plan of a source that is not stored yet."""
    destination = destination_of(source_key, table_name, settings, columns)
    return Plan(source_key, settings, spec, columns, destination, inferred, created=True)


def to_stored(plan: Plan, table_name: str) -> StoredSource:
    """Return the row that remembers a plan."""
    config = {"settings": plan.settings.model_dump(mode="json"), "spec": plan.spec.to_json(), "inferred": plan.inferred}
    return StoredSource(plan.source_key, table_name, plan.spec.format, config, plan.columns)


def stored_plan(stored: StoredSource, changes: Mapping[str, Any] | None = None) -> Plan:
    """Return the plan of a stored source, with `changes` to tuning settings.

    Raises UsageError when a change contradicts what was decided.
    """
    settings = dict(stored.config["settings"])
    for name, value in (changes or {}).items():
        is_tuning = name in TUNING or (name == "follow" and stored.inferred)
        if not is_tuning and settings.get(name) != value:
            raise UsageError(
                f"source {stored.source_key} was started with {name} = {settings.get(name)!r}, "
                f"this call says {value!r}",
                hint=f"`filecollect replay {stored.source_key} --set {name}=...` reads its files again with it",
            )
        settings[name] = value
    read = settings_of(settings)
    destination = destination_of(stored.source_key, stored.table_name, read, stored.columns)
    return Plan(
        stored.source_key, read, Spec.from_json(stored.config["spec"]), stored.columns, destination, stored.inferred
    )


def settings_of(stored: Mapping[str, Any]) -> SourceSettings:
    """Return stored settings as they were said: what equals its default counts as not said."""
    defaults = {
        name: field.get_default(call_default_factory=True) for name, field in SourceSettings.model_fields.items()
    }
    said = {name: value for name, value in stored.items() if value != _plain(defaults[name])}
    return SourceSettings.model_validate(said | {"paths": stored["paths"]})


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def remember_tuning(conn: Connection, stored: StoredSource, plan: Plan) -> None:
    """Store changed tuning settings, so that a resumed round cuts the same batches."""
    settings = plan.settings.model_dump(mode="json")
    if settings != stored.config["settings"]:
        change_source_config(conn, stored.source_key, stored.config | {"settings": settings})
