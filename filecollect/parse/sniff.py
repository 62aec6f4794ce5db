"""What kind of file is this? Decided on its first bytes, its name, and what the user said.

Order: encoding; binary content is refused; JSON; CSV; else plain lines. Every decision comes with a
sentence why, shown by `preview`. A log must not become CSV because its lines happen to hold equally many
commas: without a CSV suffix a header has to prove it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from filecollect.errors import BinaryContent, Unsupported
from filecollect.parse.csvrows import null_words
from filecollect.parse.dialect import NAMES, Header, Split, judge_header, look_at_table
from filecollect.parse.encoding import decide_encoding, sample_text
from filecollect.parse.jsonsniff import judge_json
from filecollect.parse.lineends import unit_of
from filecollect.parse.spec import FORMATS, Spec, Wanted

_CSV_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".psv": "|"}
_LOG_SUFFIXES = frozenset({"", ".log", ".out", ".err"})
_PACKED = re.compile(r"\.(?:gz|zst|bz2|xz|lz4|z)$")
_ROTATED = re.compile(r"(?:\.[0-9]+|\.old|\.bak|~| \([0-9]+\)| - copy|[-.][0-9]{4}-?[0-9]{2}-?[0-9]{2})$")
_COPY_BEFORE_SUFFIX = re.compile(r"(?: \([0-9]+\)| - copy)(?=\.[a-z]+$)")
_CONTROL = bytes([*range(9), *range(14, 27), *range(28, 32), 127])


@dataclass(frozen=True, slots=True)
class Sniffed:
    """A decided format, and one sentence for each decision."""

    spec: Spec
    why: tuple[str, ...]


def record_suffix(name: str) -> str:
    """Return the suffix that tells a file's format, lower case: packing and rotation parts are cut off."""
    name = _PACKED.sub("", name.rpartition("/")[2].lower())
    while (shorter := _ROTATED.sub("", name)) != name:
        name = _PACKED.sub("", shorter)
    stem, dot, suffix = _COPY_BEFORE_SUFFIX.sub("", name).rpartition(".")
    return dot + suffix if stem else ""


def sniff(head: bytes, *, complete: bool, name: str, wanted: Wanted) -> Sniffed:
    """Return the spec for a file that begins with `head` (all of it when `complete`) and is called `name`.

    Raises Unsupported, with one sentence, for content that cannot be read as records.
    """
    suffix = record_suffix(name)
    if wanted.format is not None and wanted.format not in FORMATS:
        raise Unsupported(f"the format {wanted.format} is not read by this version", hint=f"one of {_listed()}")
    encoding, why_encoding = decide_encoding(head, wanted.encoding)
    return _Sniffer(head, complete, suffix, wanted, encoding, why_encoding).decide()


def _listed() -> str:
    return ", ".join(sorted(FORMATS))


def _refuse_binary(head: bytes) -> None:
    # A crash leaves NULs at the end of a log, a truncation before its next line; some NULs in text are data.
    written = head.strip(b"\0")
    strange = len(written) - len(written.translate(None, _CONTROL))
    if strange > max(3, 0.02 * len(written)) or (head and not written):
        count = strange or len(head)
        raise BinaryContent(f"binary content: {count} of the first {len(head)} bytes are control characters")


class _Sniffer:
    """One decision, step by step."""

    def __init__(
        self, head: bytes, complete: bool, suffix: str, wanted: Wanted, encoding: str, why_encoding: str
    ) -> None:
        self.suffix = suffix
        self.wanted = wanted
        self.why = [why_encoding]
        self.cut = not complete
        text, newline = sample_text(head, encoding)
        _refuse_binary(text.encode() if unit_of(encoding) > 1 else head)
        self.returns = newline == "\r"
        for _ in range(wanted.skip_lines):
            text = text.partition("\n")[2]
        self.text = text
        *lines, self.open_line = text.split("\n")
        self.lines = [line for line in lines if line.strip()]
        self.spec = Spec(
            "lines",
            encoding=encoding,
            newline=newline,
            encoding_errors=wanted.encoding_errors,
            skip_lines=wanted.skip_lines,
            max_record_bytes=wanted.max_record_bytes,
            quarantine_raw_bytes=wanted.quarantine_raw_bytes,
            names=wanted.names,
            time_formats=wanted.time_formats,
            time_zone=wanted.time_zone,
        )

    def decide(self) -> Sniffed:
        """Return the decision."""
        wanted = self.wanted.format
        if wanted in (None, "json", "jsonl"):
            found = judge_json(self.text, self.lines, self.open_line, cut=self.cut, asked=wanted, named=self.suffix)
            if found is not None:
                self.why.append(found.why)
                return self._result(format=found.format, bare=found.bare, flatten=self.wanted.flatten)
        if wanted in (None, "csv"):
            changes = self._csv()
            if changes is not None:
                return self._result(format="csv", **changes)
        if wanted is None:
            self.why.append("format lines: neither JSON objects nor fields under a header")
        else:
            self.why.append("format lines: as asked for")
        if self.returns and (self.cut or self.suffix in _LOG_SUFFIXES or len(self.lines) < 2):
            # A progress bar in a log is written with carriage returns, too.
            return self._result(newline="\n")
        return self._result()

    def _result(self, **changes: Any) -> Sniffed:
        spec = replace(self.spec, **changes)
        if spec.newline == "\r":
            self.why.append("lines end in CR: the sample has no LF")
        if spec.time_formats or spec.time_zone:
            said = [*map(repr, spec.time_formats), *([f"naive ones in {spec.time_zone}"] if spec.time_zone else [])]
            self.why.append(f"timestamps: {', '.join(said)}")
        return Sniffed(spec, tuple(self.why))

    # CSV

    def _csv(self) -> dict[str, Any] | None:
        wanted, suffix = self.wanted, self.suffix
        named = suffix in _CSV_DELIMITERS
        asked = wanted.format == "csv" or wanted.delimiter is not None or wanted.header is not None
        usual = _CSV_DELIMITERS.get(suffix, ",")
        changes: dict[str, Any] = {
            "quote": '"' if wanted.quote is None else wanted.quote,
            "escape": wanted.escape or "",
            "comment": wanted.comment or "",
            "null": wanted.null,
            "ragged": wanted.ragged,
            "decimal": wanted.decimal,
        }
        if not self.text.strip():
            if not (named or asked):
                return None
            self.why.append("format csv: by its name, the file is empty")
            said = True if wanted.header is None else wanted.header
            return changes | {"delimiter": wanted.delimiter or usual, "header": said}
        cut = self.cut or (bool(self.open_line) and len(self.lines) > 1)
        look = look_at_table(self.text, wanted, usual=usual, cut=cut, sure=named or asked)
        split = look.split
        if not split.rows:
            return None
        changes |= {"quote": look.quote, "escape": look.escape, "comment": look.comment}
        header = judge_header(split.rows, null_words(replace(self.spec, **changes)) | {""}, look.reading)
        plainly = self._is_plainly_csv(split, header) or (look.dump and split.share == 1 and split.width > 1)
        if not (named or asked or plainly):
            return None
        reason = "as asked for" if asked else f"the name ends in {suffix}" if named else "fields under a header"
        share = f"{split.share:.0%} of the sample's records have {split.width} fields"
        self.why.append(f"format csv: {reason}")
        self.why.append(f"delimiter {NAMES.get(split.delimiter, repr(split.delimiter))}: {share}")
        self.why += look.why
        changes |= {"delimiter": split.delimiter, "skip_lines": wanted.skip_lines + look.skip_lines}
        if wanted.header is not None:
            self.why.append("header: as asked for")
            return changes | {"header": wanted.header}
        self.why.append(header.why)
        return changes | {"header": header.present}

    def _is_plainly_csv(self, split: Split, header: Header) -> bool:
        """Return whether content alone proves CSV: every record alike, and a header or clear columns."""
        if split.width < 2 or split.share < 1 or len(split.rows) < 2 or not header.present:
            return False
        if any(not cell.strip() for cell in split.rows[0]):
            return False
        if header.evidence:
            return True
        if self.suffix in _LOG_SUFFIXES or split.delimiter == ",":
            return False
        # Text under text: three records, and not the punctuation of prose.
        cells = [cell for row in split.rows for cell in row[1:]]
        return len(split.rows) >= 3 and not any(cell.startswith(" ") for cell in cells)
