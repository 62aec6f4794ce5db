"""JSON lines: one object a line.

Fast path: a struct made from the layout is decoded straight from the bytes; whatever it does not take
exactly (another type, an unknown key, a long number) goes the careful way, as a dictionary.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Any

import msgspec

from filecollect.domain.columns import Layout
from filecollect.parse.convert import LEAST, MOST, Misfit, json_text, json_value, significant
from filecollect.parse.items import item_key
from filecollect.parse.linewise import LineParser
from filecollect.parse.spec import Spec

_LONG = re.compile(rb"[0-9][0-9.]{15,}")
_SMALL = Annotated[int, msgspec.Meta(ge=LEAST, le=MOST)]
_FAST: dict[str, Any] = {"text": str, "integer": _SMALL, "real": float, "boolean": bool}


def exact_number(text: str) -> float | Decimal:
    """Return a JSON number with a fraction or exponent: a float where that is exact enough, else a decimal."""
    digits = text.lower().partition("e")[0]
    value = float(text)
    if significant(digits) > 15 or value in (float("inf"), float("-inf")):
        return Decimal(text)
    return value


careful_decoder = msgspec.json.Decoder(float_hook=exact_number)


class JsonlParser(LineParser):
    """Parse JSON lines."""

    def __init__(self, spec: Spec, layout: Layout) -> None:
        super().__init__(spec, layout)
        self.utf8 = spec.encoding in {"utf-8", "ascii", "utf-8-sig"}
        self.slow_at = [index for index, column in enumerate(layout.columns) if column.base not in _FAST]
        self.fast = None if layout.kind == "items" else self._struct()

    def _struct(self) -> msgspec.json.Decoder[Any] | None:
        columns = self.layout.columns
        sources = [column.source_name for column in columns]
        if not columns or len(set(sources)) != len(sources):
            return None
        made = msgspec.defstruct(
            "Row",
            [(f"f{index}", _FAST.get(column.base, Any) | None, None) for index, column in enumerate(columns)],
            rename={f"f{index}": source for index, source in enumerate(sources)},
            forbid_unknown_fields=True,
            gc=False,
        )
        return msgspec.json.Decoder(made)

    def records(self, lines: Sequence[bytes]) -> tuple[list[Sequence[Any]], dict[int, str], dict[int, tuple[str, str]]]:
        """Return columns, extras and bad lines."""
        if not self.utf8:
            lines = [line.decode(self.spec.encoding, "replace").encode() for line in lines]
        if self.layout.kind == "items":
            return self._items(lines)
        extras: dict[int, str] = {}
        wrong: dict[int, tuple[str, str]] = {}
        rows: list[tuple[Any, ...]] = []
        careful: list[int] = []
        if self.fast is not None:
            decode, values = self.fast.decode, msgspec.structs.astuple
            for line in lines:
                try:
                    rows.append(values(decode(line)))
                except (msgspec.DecodeError, UnicodeDecodeError):
                    careful.append(len(rows))
                    rows.append(())
            if _LONG.search(b"\n".join(lines)):
                careful = sorted({*careful, *(i for i, line in enumerate(lines) if _LONG.search(line))})
        else:
            careful = list(range(len(lines)))
            rows = [()] * len(lines)
        again = set(careful)
        for at in self.slow_at:
            column = self.layout.columns[at]
            for index, row in enumerate(rows):
                if index not in again and row[at] is not None:
                    value = json_value(row[at], column)
                    if value is Misfit:
                        again.add(index)
                    else:
                        rows[index] = (*row[:at], value, *row[at + 1 :])
        for index in sorted(again):
            rows[index] = self._careful(index, lines[index], extras, wrong)
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True)) if rows else [[] for _ in self.layout.columns]
        if not self.layout.columns:
            columns = []
        return columns, extras, wrong

    def _decode(self, index: int, line: bytes, wrong: dict[int, tuple[str, str]]) -> dict[str, Any] | None:
        try:
            value = careful_decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            try:
                line.decode()
                wrong[index] = ("bad_json", str(problem) or "not JSON")
            except UnicodeDecodeError as undecodable:
                wrong[index] = ("bad_encoding", f"byte {undecodable.start} of the line is not UTF-8")
            return None
        if not isinstance(value, dict):
            kinds = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
            wrong[index] = ("not_an_object", f"expected a JSON object, got {kinds.get(type(value), 'a number')}")
            return None
        return value

    def _careful(
        self, index: int, line: bytes, extras: dict[int, str], wrong: dict[int, tuple[str, str]]
    ) -> tuple[Any, ...]:
        nothing = (None,) * len(self.layout.columns)
        value = self._decode(index, line, wrong)
        if value is None:
            return nothing
        row: list[Any] = []
        extra: dict[str, Any] = {}
        missed: list[str] = []
        for column in self.layout.columns:
            raw = value.pop(column.source_name, None)
            stored = json_value(raw, column)
            if stored is Misfit:
                if column.declared:
                    wrong[index] = ("misfit", f"column {column.name} is {column.type}, got {json_text(raw)[:200]}")
                    return nothing
                missed.append(column.name)
                extra[column.source_name] = raw
                stored = None
            row.append(stored)
        for name in missed:
            self.misfits[name] = self.misfits.get(name, 0) + 1
        extra |= value
        if extra:
            extras[index] = json_text(extra)
        return tuple(row)

    def _items(self, lines: Sequence[bytes]) -> tuple[list[Sequence[Any]], dict[int, str], dict[int, tuple[str, str]]]:
        wrong: dict[int, tuple[str, str]] = {}
        payloads: list[str | None] = []
        keys: list[str | None] = []
        for index, line in enumerate(lines):
            value = self._decode(index, line, wrong)
            payloads.append(None if value is None else line.strip().decode())
            keys.append(None)
            if value is not None and self.layout.key:
                keys[-1] = item_key([value.get(name) for name in self.layout.key])
                if keys[-1] is None:
                    wrong[index] = ("key_missing", f"key {', '.join(self.layout.key)} has no value")
        return [payloads, keys], {}, wrong
