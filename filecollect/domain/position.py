"""A checkpoint: the committed position in one content lineage, with the proofs needed to resume.

Invariant: `offset` is always a record boundary whose rows are committed; it equals the task's
`content_offset`. Offsets count bytes of the *decompressed* content. The JSON form is versioned: a
newer version, or one that does not parse, raises CheckpointError; nothing ever restarts from zero.

In compressed content the position names the block from which a resume decodes. There the checkpoint is
proven by raw bytes (`raw_head`: the first of the file, `raw_guard`: the last before the block) and by
the guard as far as it lies in the block, so no earlier block is read; `content_guard` is the guard of
full length where the block cut it, for a file that was compressed in another way meanwhile.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from filecollect.errors import CheckpointError

VERSION = 1
HEAD_LENGTHS = (64, 256, 1024)
"""Lengths at which heads are digested, in content bytes."""
GUARD_LENGTH = 256
"""Content bytes before the checkpoint that are proven at every resume."""
RAW_HEAD_LENGTH = 1024
"""Raw bytes at the start of a compressed file that are proven at every resume."""
CHAIN_BLOCK = 1024 * 1024
"""Content bytes in one block of the chained content digest."""
_HEX = re.compile(r"[0-9a-f]{32}")


def head_length(content_size: int) -> int:
    """Return the largest head length that `content_size` bytes fill, or all of it under 64."""
    return max((length for length in HEAD_LENGTHS if length <= content_size), default=content_size)


@dataclass(frozen=True, slots=True)
class Proof:
    """The digest (xxh3-128, hex) of `length` bytes at a place that the owner knows."""

    length: int
    digest: str


@dataclass(frozen=True, slots=True)
class Block:
    """An independently decompressible block: its index, raw and content offset."""

    index: int
    raw_offset: int
    content_offset: int


@dataclass(frozen=True, slots=True)
class Chain:
    """The content digest so far: `blocks` whole 1 MiB blocks chained into `digest` (hex, or "")."""

    blocks: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The committed position of a task and all that a resume must know.

    `displaced` is the row, in its database's own form, whose key the open record has taken: should that
    record turn out longer, with another key, the row must be given back.
    """

    offset: int = 0
    records: int = 0
    lines: int = 0
    codec: str = "plain"
    block: Block | None = None
    guard: Proof = Proof(0, "")
    content_guard: Proof | None = None
    raw_guard: Proof | None = None
    raw_head: Proof | None = None
    open_record: int | None = None
    displaced: str | None = None
    parser: dict[str, Any] = field(default_factory=dict)
    chain: Chain | None = Chain()

    @property
    def whole_guard(self) -> Proof | None:
        """Return the guard of full length, that proves the position whatever the compression; None if unknown."""
        proof = self.content_guard or self.guard
        return proof if proof.length == min(GUARD_LENGTH, self.offset) else None

    @property
    def raw_offset(self) -> int:
        """Return the on-disk offset that is surely reached: the block's, of plain content the offset."""
        return self.offset if self.block is None else self.block.raw_offset

    def to_json(self) -> dict[str, Any]:
        """Return the stored form (`collection_task.checkpoint_json`)."""
        block = self.block
        return {
            "v": VERSION,
            "offset": self.offset,
            "records": self.records,
            "lines": self.lines,
            "codec": self.codec,
            "block": block
            and {"index": block.index, "raw_offset": block.raw_offset, "content_offset": block.content_offset},
            "guard": _proof_json(self.guard),
            "content_guard": _proof_json(self.content_guard),
            "raw_guard": _proof_json(self.raw_guard),
            "raw_head": _proof_json(self.raw_head),
            "open_record": self.open_record,
            "displaced": self.displaced,
            "parser": self.parser,
            "digest": self.chain and {"blocks": self.chain.blocks, "chain": self.chain.digest},
        }

    @classmethod
    def from_json(cls, value: Any) -> Checkpoint:
        """Read the stored form; raise CheckpointError when it is damaged or from a newer version."""
        if not isinstance(value, dict) or type(value.get("v")) is not int:
            raise CheckpointError("the stored checkpoint is damaged: it is no object with a version `v`")
        if value["v"] != VERSION:
            raise CheckpointError(
                f"the stored checkpoint has version {value['v']}, this program reads version {VERSION}",
                hint="run the newer filecollect, or `filecollect replay SOURCE` to read the files again",
            )
        try:
            return cls(
                offset=_count(value["offset"]),
                records=_count(value["records"]),
                lines=_count(value.get("lines", 0)),
                codec=_text(value["codec"]),
                block=_block(value["block"]),
                guard=Proof(_count(value["guard"]["length"]), _digest(value["guard"]["digest"])),
                content_guard=_proof(value.get("content_guard")),
                raw_guard=_proof(value["raw_guard"]),
                raw_head=_proof(value.get("raw_head")),
                open_record=None if value["open_record"] is None else _count(value["open_record"]),
                displaced=None if value.get("displaced") is None else _text(value["displaced"]),
                parser=_object(value["parser"]),
                chain=_chain(value["digest"]),
            )
        except (KeyError, TypeError, ValueError) as problem:
            raise CheckpointError(
                f"the stored checkpoint is damaged: {problem}",
                hint="restore the database, or `filecollect replay SOURCE` to read the files again",
            ) from problem

    def moved(self, **changes: Any) -> Checkpoint:
        """Return a copy with `changes`; an offset may only grow."""
        moved = replace(self, **changes)
        if moved.offset < self.offset:
            raise ValueError(f"a checkpoint may not move back from {self.offset} to {moved.offset}")
        return moved


def _proof_json(proof: Proof | None) -> dict[str, Any] | None:
    return None if proof is None else {"length": proof.length, "digest": proof.digest}


def _proof(value: Any) -> Proof | None:
    return None if value is None else Proof(_count(value["length"]), _digest(value["digest"]))


def _block(value: Any) -> Block | None:
    if value is None:
        return None
    return Block(_count(value["index"]), _count(value["raw_offset"]), _count(value["content_offset"]))


def _chain(value: Any) -> Chain | None:
    return None if value is None else Chain(_count(value["blocks"]), _digest(value["chain"]))


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"expected a count, got {value!r}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, got {value!r}")
    return value


def _digest(value: Any) -> str:
    if value != "" and not (isinstance(value, str) and _HEX.fullmatch(value)):
        raise ValueError(f"expected 32 hex digits, got {value!r}")
    return str(value)


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {value!r}")
    return value
