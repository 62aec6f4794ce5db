"""Decide how a file is to be read, from its first bytes: encoding, then JSON, then CSV, else lines.

What cannot be read yet is refused with a sentence, never read wrong. The header and the whole sample
decide; every decision leaves a sentence for `preview`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from filecollect.domain.columns import Layout
from filecollect.errors import Unsupported
from filecollect.parse.csvfile import CsvParser
from filecollect.parse.framing import BOM
from filecollect.parse.infer import agreed, vote
from filecollect.parse.jsonl import careful_decoder
from filecollect.parse.spec import Spec, Wanted

DELIMITERS = (",", ";", "\t", "|")
READ = frozenset({"csv", "jsonl", "lines"})
_SUFFIX = re.compile(r"\.(csv|tsv|psv|jsonl|ndjson|json|log|out|err|txt)(?=$|[.\-_~ ])", re.IGNORECASE)
_LATER = re.compile(rb"\s*\[\s*(\{|\[|\]|$)")


@dataclass(frozen=True, slots=True)
class Sniffed:
    """The decision, and why."""

    spec: Spec
    why: tuple[str, ...]


def sniff(head: bytes, *, complete: bool, name: str, wanted: Wanted) -> Sniffed:
    """Return how to read a file that begins with `head`; `complete` when that is all of it.

    Raises Unsupported for content that this version does not read.
    """
    why: list[str] = []
    if not complete and b"\n" in head:
        head = head[: head.rindex(b"\n") + 1]
    encoding = wanted.encoding or _encoding(head, why)
    if wanted.encoding is None and b"\x00" in head.rstrip(b"\x00"):
        controls = sum(head[:4096].count(byte) for byte in range(9))
        if controls > len(head[:4096]) * 0.02:
            raise Unsupported("binary content, expected text records")
    found = _SUFFIX.findall(name)
    suffix = found[-1].lower() if found else ""
    body = head.removeprefix(BOM)
    spec = Spec(
        wanted.format or "lines",
        encoding,
        null=wanted.null,
        skip_lines=wanted.skip_lines,
        ragged=wanted.ragged,
        names=wanted.names,
        max_record_bytes=wanted.max_record_bytes,
        quarantine_raw_bytes=wanted.quarantine_raw_bytes,
    )
    if wanted.format is not None and wanted.format not in READ:
        raise Unsupported(f"format {wanted.format!r} is not read by this version")
    if wanted.format == "csv" or (wanted.format is None and (wanted.delimiter or wanted.header is not None)):
        return _csv(spec, body, wanted, wanted.delimiter or _delimiter(spec, body, suffix, force=True) or ",", why)
    if wanted.format is not None:
        why.append(f"format {wanted.format} as asked for")
        return Sniffed(spec, tuple(why))
    if _LATER.match(body) and suffix in {"json", ""}:
        raise Unsupported("a JSON array is not read by this version", hint="jq -c '.[]' FILE > FILE.jsonl")
    if _is_jsonl(body, suffix, why):
        return Sniffed(replace(spec, format="jsonl"), tuple(why))
    if suffix == "json":
        raise Unsupported(
            "JSON that is not one object a line is not read by this version", hint="jq -c . FILE > F.jsonl"
        )
    delimiter = _delimiter(spec, body, suffix, force=suffix in {"csv", "tsv", "psv"})
    if delimiter is not None:
        return _csv(spec, body, wanted, delimiter, why)
    why.append("neither JSON objects nor a constant number of fields: plain lines")
    return Sniffed(spec, tuple(why))


def _encoding(head: bytes, why: list[str]) -> str:
    if head.startswith(BOM):
        why.append("encoding UTF-8: byte order mark")
        return "utf-8"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Unsupported("UTF-16 and UTF-32 are not read by this version", hint="iconv -t UTF-8 FILE > FILE.utf8")
    sample = head[:4096]
    if len(sample) > 8:
        even, odd = sample[::2].count(0) / len(sample[::2]), sample[1::2].count(0) / len(sample[1::2])
        if max(even, odd) > 0.4 and min(even, odd) < 0.1:
            raise Unsupported("UTF-16 and UTF-32 are not read by this version", hint="iconv -t UTF-8 FILE > FILE.utf8")
    try:
        head.decode()
        return "utf-8"
    except UnicodeDecodeError as problem:
        if problem.start >= len(head) - 3:
            return "utf-8"
    good = sum(1 for line in head.split(b"\n") if _is_utf8(line))
    if good > 0.98 * (head.count(b"\n") + 1) and any(
        max(line, default=0) > 127 and _is_utf8(line) for line in head.split(b"\n")
    ):
        why.append("encoding UTF-8, but for a few lines")
        return "utf-8"
    import chardetng_py  # type: ignore[import-untyped]

    guess = str(chardetng_py.detect(head)).lower()
    why.append(f"encoding {guess}: not UTF-8, guessed from the content")
    return guess


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _is_jsonl(body: bytes, suffix: str, why: list[str]) -> bool:
    lines = [line for line in body.split(b"\n")[:200] if line.strip()]
    if not lines:
        return suffix in {"jsonl", "ndjson"}
    objects = 0
    for line in lines:
        try:
            objects += isinstance(careful_decoder.decode(line), dict)
        except (ValueError, UnicodeDecodeError):
            continue
    enough = 1 if suffix in {"jsonl", "ndjson"} else max(1, round(0.9 * len(lines)))
    if suffix in {"jsonl", "ndjson"} or (suffix == "json" and objects >= enough) or objects >= enough:
        why.append(f"jsonl: {objects} of {len(lines)} sampled lines are JSON objects")
        return True
    return False


def _rows(spec: Spec, body: bytes, delimiter: str) -> list[list[str]]:
    parser = CsvParser(replace(spec, format="csv", delimiter=delimiter), Layout((), (), "items"), None)
    lines = body.split(b"\n")[spec.skip_lines :]
    text = parser.text(b"\n".join(lines))
    rows, _, _ = parser.frame(text if text.endswith("\n") else text + "\n", 1000)
    return [row for row in rows if row]


def _delimiter(spec: Spec, body: bytes, suffix: str, *, force: bool) -> str | None:
    """Return the delimiter under which all sampled records have the same number of fields, None without one."""
    best: tuple[float, int, str] | None = None
    for delimiter in DELIMITERS:
        rows = _rows(spec, body, delimiter)
        if not rows:
            continue
        width = len(rows[0])
        same = sum(len(row) == width for row in rows) / len(rows)
        if width > 1 and (best is None or (same, width) > best[:2]):
            best = (same, width, delimiter)
    if force:
        preferred = {"tsv": "\t", "psv": "|"}.get(suffix, ",")
        return best[2] if best is not None and best[0] >= 0.5 else preferred
    if best is None or best[0] < 1.0:
        return None
    rows = _rows(spec, body, best[2])
    is_log = suffix in {"log", "out", "err", ""}
    if len(rows) < 2 or (is_log and not _has_header(rows)) or (suffix == "txt" and not _has_header(rows)):
        return None
    if is_log and any(vote(cell) != "text" or not cell.strip() or " " in cell.strip() for cell in rows[0]):
        return None
    return best[2]


def _csv(spec: Spec, body: bytes, wanted: Wanted, delimiter: str, why: list[str]) -> Sniffed:
    rows = _rows(spec, body, delimiter)
    header: bool | tuple[str, ...]
    if wanted.header is None:
        header = _has_header(rows)
        why.append("the first row is a header" if header else "no header row: its cells look like the data below")
    else:
        header = wanted.header if isinstance(wanted.header, bool) else tuple(wanted.header)
    width = len(rows[0]) if rows else 0
    same = sum(len(row) == width for row in rows)
    why.append(f"csv, delimiter {delimiter!r}: {same} of {len(rows)} sampled records have {width} fields")
    return Sniffed(replace(spec, format="csv", delimiter=delimiter, header=header), tuple(why))


def _has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row names the columns: typed columns below it decide."""
    if not rows:
        return True
    first, body = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    evidence = 0
    for at, cell in enumerate(first):
        kinds = {vote(row[at]) for row in body if row[at]}
        kind = agreed(kinds)
        if kinds and kind != "text":
            fits = cell != "" and agreed({*kinds, vote(cell)}) == kind
            evidence += -1 if fits else 1
    if evidence:
        return evidence > 0
    named = [cell for cell in first if cell]
    return len(named) == len(first) == len(set(named)) and all(vote(cell) == "text" for cell in named)
