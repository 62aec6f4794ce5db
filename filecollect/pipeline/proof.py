"""Is the open file the one a checkpoint speaks of, and from where is it read on?

Plain content is proven by its own bytes: the head of the task and the guard before the position. A
compressed file is proven by raw bytes (its first ones and the last ones before the checkpoint's block)
and by the guard as far as it lies in the block, so that no earlier block is read. Where raw bytes do
not prove it (a plain file that was compressed, one that was compressed anew) the content must, from
its start on: head and a guard of full length.
"""

from __future__ import annotations

from typing import Any

from filecollect.domain.position import CHAIN_BLOCK, GUARD_LENGTH, RAW_HEAD_LENGTH, Checkpoint, Proof
from filecollect.files.content import Content, codec_of, open_content
from filecollect.files.filesystem import FileHandle
from filecollect.files.fingerprint import ChainDigest, digest, head_at, proves
from filecollect.files.fingerprint import guard as guard_before


def resumed(handle: FileHandle, bound: int, checkpoint: Checkpoint) -> tuple[Content, bool]:
    """Return the content, opened at the checkpoint's block if raw bytes prove it, and whether they do."""
    codec = codec_of(handle, bound)
    proven = codec == checkpoint.codec and raw_proven(handle, checkpoint)
    return open_content(handle, bound, codec, checkpoint.block if proven else None), proven


def raw_proven(handle: FileHandle, checkpoint: Checkpoint) -> bool:
    """Return whether the raw bytes that a checkpoint in compressed content names are there."""
    block, head, guard = checkpoint.block, checkpoint.raw_head, checkpoint.raw_guard
    if block is None or head is None or guard is None or head.length == 0:
        return False
    return proves(handle, head, head.length) and proves(handle, guard, block.raw_offset)


def guard_length(content: Content, offset: int) -> int:
    """Return how many content bytes before `offset` the guard has: none of an earlier block."""
    block = content.block_at(offset)
    return min(GUARD_LENGTH, offset - (0 if block is None else block.content_offset))


def proofs(handle: FileHandle, content: Content, offset: int, before: bytes) -> dict[str, Any]:
    """Return the parts of a checkpoint at `offset` that name and prove it; `before` ends there."""
    block = content.block_at(offset)
    length = min(guard_length(content, offset), len(before))
    whole = min(GUARD_LENGTH, offset)
    return {
        "codec": content.codec,
        "block": block,
        "guard": Proof(length, digest(before[-length:]) if length else ""),
        "content_guard": Proof(whole, digest(before[-whole:])) if length < whole <= len(before) else None,
        "raw_guard": None if block is None else guard_before(handle, block.raw_offset),
    }


def raw_head(handle: FileHandle, content: Content, bound: int) -> Proof | None:
    """Return the proof of the first raw bytes of a compressed file, None of a plain one."""
    return None if content.block_at(0) is None else head_at(handle, min(RAW_HEAD_LENGTH, bound))


def chain_at(content: Content, checkpoint: Checkpoint) -> ChainDigest | None:
    """Return the chained content digest at the checkpoint.

    It is given up (None) where it could only be caught up with by decoding blocks before the
    checkpoint's own: the task then ends without a content digest, and the ledger's digests stand for it.
    """
    chain, block = checkpoint.chain, checkpoint.block
    if chain is None:
        return None
    if content.codec == checkpoint.codec and block is not None and block.content_offset > chain.blocks * CHAIN_BLOCK:
        return None
    return ChainDigest.resume(content, chain, checkpoint.offset)
