"""What kind of file is this? Decided on its first bytes, its name, and what the user said.

Order: encoding; binary content is refused; JSON; CSV; else plain lines. Every decision comes with a
sentence why, shown by `preview`. What a later version may read (arrays and pretty-printed JSON, UTF-16,
comments in CSV) is refused with one sentence, never read as something else. A log must not become CSV
because its lines happen to hold equally many commas: without a CSV suffix a header has to prove it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import msgspec

from filecollect.errors import Unsupported
from filecollect.parse.dialect import NAMES, Header, Split, best_split, judge_header, split_sample
from filecollect.parse.encoding import decide_encoding
from filecollect.parse.framing import bom_length, end_of_line
from filecollect.parse.spec import FORMATS, Spec, Wanted

_CSV_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".psv": "|"}
_JSONL_SUFFIXES = frozenset({".jsonl", ".ndjson"})
_JSON_SUFFIXES = _JSONL_SUFFIXES | {".json"}
_LOG_SUFFIXES = frozenset({"", ".log", ".out", ".err"})
_PACKED = re.compile(r"\.(?:gz|zst|bz2|xz|lz4|z)$")
_ROTATED = re.compile(r"(?:\.[0-9]+|\.old|\.bak|~| \([0-9]+\)| - copy|[-.][0-9]{4}-?[0-9]{2}-?[0-9]{2})$")
_COPY_BEFORE_SUFFIX = re.compile(r"(?: \([0-9]+\)| - copy)(?=\.[a-z]+$)")
_CONTROL = bytes([*range(9), *range(14, 27), *range(28, 32), 127])
_NEARLY_ALL = 0.95
_decode = msgspec.json.Decoder(msgspec.Raw).decode


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
    _refuse_binary(head)
    return _Sniffer(head, complete, suffix, wanted, encoding, why_encoding).decide()


def _listed() -> str:
    return ", ".join(sorted(FORMATS))


def _refuse_binary(head: bytes) -> None:
    # A crash leaves NULs at the end of a log; some NULs in text are data.
    written = head.rstrip(b"\0")
    strange = len(written) - len(written.translate(None, _CONTROL))
    if strange > max(3, 0.02 * len(written)) or (head and not written):
        count = strange or len(head)
        raise Unsupported(f"binary content: {count} of the first {len(head)} bytes are control characters")


class _Sniffer:
    """One decision, step by step."""

    def __init__(
        self, head: bytes, complete: bool, suffix: str, wanted: Wanted, encoding: str, why_encoding: str
    ) -> None:
        self.suffix = suffix
        self.wanted = wanted
        self.encoding = encoding
        self.why = [why_encoding]
        data = head[bom_length(head, 0, encoding) :]
        for _ in range(wanted.skip_lines):
            end = end_of_line(data, 0)
            data = data[end:] if end > 0 else b""
        self.data = data
        self.text = data.decode(encoding, "replace")
        self.cut = not complete
        lines = data.split(b"\n")
        self.open_line = lines.pop()
        self.lines = [line for line in lines if line.strip()]

    def decide(self) -> Sniffed:
        """Return the decision; raises Unsupported."""
        wanted = self.wanted.format
        if wanted in (None, "jsonl"):
            share = self._object_share()
            if share < _NEARLY_ALL:
                self._refuse_other_json(wanted == "jsonl" or self.suffix in _JSON_SUFFIXES)
            if self._is_jsonl(share):
                return self._result("jsonl")
        if wanted in (None, "csv"):
            found = self._csv()
            if found is not None:
                return self._result("csv", *found)
        if wanted is None:
            self.why.append("format lines: neither JSON objects nor fields under a header")
        else:
            self.why.append("format lines: as asked for")
        return self._result("lines")

    def _result(self, format_name: str, delimiter: str = ",", header: bool | tuple[str, ...] = True) -> Sniffed:
        wanted = self.wanted
        spec = Spec(
            format_name,
            encoding=self.encoding,
            delimiter=delimiter,
            header=header,
            null=wanted.null,
            skip_lines=wanted.skip_lines,
            ragged=wanted.ragged,
            max_record_bytes=wanted.max_record_bytes,
            quarantine_raw_bytes=wanted.quarantine_raw_bytes,
            names=wanted.names,
        )
        return Sniffed(spec, tuple(self.why))

    # JSON

    def _object_share(self) -> float:
        lines = list(self.lines)
        # An unterminated last line may be half written: it counts only when it is whole.
        if not self.cut and self.open_line.strip() and (_is_object(self.open_line) or not lines):
            lines.append(self.open_line)
        return sum(map(_is_object, lines)) / len(lines) if lines else 0.0

    def _is_jsonl(self, share: float) -> bool:
        if self.wanted.format == "jsonl":
            self.why.append("format jsonl: as asked for")
        elif share >= _NEARLY_ALL:
            self.why.append("format jsonl: (nearly) all lines of the sample are JSON objects")
        elif self.suffix in _JSONL_SUFFIXES:
            self.why.append(f"format jsonl: the name ends in {self.suffix}")
        elif not self.lines and self.data.lstrip().startswith(b'{"') and self.cut:
            self.why.append("format jsonl: the first line, longer than the sample, begins like a JSON object")
        else:
            return False
        return True

    def _refuse_other_json(self, named_json: bool) -> None:
        """Raise Unsupported for JSON in another shape than one object a line."""
        text = self.text.strip()
        first = text[:1]
        if first == "[" and (named_json or _is_array_of_objects(text)):
            raise Unsupported("a JSON array is not read by this version; JSON lines (one object a line) are", hint=_JQ)
        if first != "{":
            return
        line = text.split("\n", 1)[0].strip()
        if _is_object(line.removesuffix(",").encode()) and line.endswith(","):
            raise Unsupported("JSON objects with commas between them are not read by this version", hint=_JQ)
        try:
            _, end = json.JSONDecoder().raw_decode(text[: 64 * 1024])
        except (ValueError, RecursionError):
            if named_json and "\n" in text and line in ("{", "{}"[:1]):
                raise Unsupported("pretty-printed JSON is not read by this version", hint=_JQ) from None
            if re.match(r'\{\s*\n\s*"', text):
                raise Unsupported("pretty-printed JSON is not read by this version", hint=_JQ) from None
            return
        if "\n" in text[:end]:
            raise Unsupported("a JSON object over several lines is not read by this version", hint=_JQ)
        if text[end:].lstrip(" \t").startswith("{"):
            raise Unsupported("several JSON objects on one line are not read by this version", hint=_JQ)

    # CSV

    def _csv(self) -> tuple[str, bool | tuple[str, ...]] | None:
        wanted, suffix = self.wanted, self.suffix
        named = suffix in _CSV_DELIMITERS
        asked = wanted.format == "csv" or wanted.delimiter is not None or wanted.header is not None
        if not self.text.strip():
            if not (named or asked):
                return None
            self.why.append("format csv: by its name, the file is empty")
            delimiter = wanted.delimiter or _CSV_DELIMITERS.get(suffix, ",")
            return delimiter, True if wanted.header is None else wanted.header
        cut = self.cut or (bool(self.open_line) and len(self.lines) > 1)
        if wanted.delimiter is not None:
            split = split_sample(self.text, wanted.delimiter, cut=cut)
        else:
            split = best_split(self.text, cut=cut, first=_CSV_DELIMITERS.get(suffix, ","))
        if not split.rows:
            return None
        header = judge_header(split.rows, frozenset(wanted.null) | {""})
        if not (named or asked or self._is_plainly_csv(split, header)):
            return None
        self._refuse_comments(split)
        reason = "as asked for" if asked else f"the name ends in {suffix}" if named else "fields under a header"
        share = f"{split.share:.0%} of the sample's records have {split.width} fields"
        self.why.append(f"format csv: {reason}")
        self.why.append(f"delimiter {NAMES.get(split.delimiter, repr(split.delimiter))}: {share}")
        if wanted.header is not None:
            self.why.append("header: as asked for")
            return split.delimiter, wanted.header
        self.why.append(header.why)
        return split.delimiter, header.present

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

    def _refuse_comments(self, split: Split) -> None:
        first = split.rows[0]
        if first[0].startswith("#") and any(len(row) != len(first) for row in split.rows[1:]):
            raise Unsupported(
                "comment lines in CSV are not read by this version",
                hint="skip_lines = N passes over lines at the top",
            )


_JQ = "`jq -c '.[]?' FILE` or `jq -c . FILE` makes JSON lines"


def _is_object(line: bytes) -> bool:
    stripped = line.strip()
    if not stripped.startswith(b"{"):
        return False
    try:
        _decode(stripped)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _is_array_of_objects(text: str) -> bool:
    """Return whether text begins like an array of objects, which no log does."""
    if re.match(r'\[\s*\{\s*"(?:[^"\\]|\\.)*"\s*:', text) is None:
        return False
    line = text.split("\n", 1)[0]
    try:
        json.JSONDecoder().raw_decode(text[: 64 * 1024])
    except (ValueError, RecursionError):
        return line.strip() == "[" or len(text) >= 64 * 1024 or line.startswith("[{")
    return True
