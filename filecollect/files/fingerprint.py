"""Digests that identify content: heads, guards, spans, and the chained digest of a whole content.

They are made of anything that has `read_at`: an open file, plain or decompressed content.
All digests are xxh3-128 in hex. The chain is H_k = xxh3_128(H_k-1 || block) over blocks of 1 MiB
(H_0 is empty), so a resume re-reads less than one block; hash states themselves cannot be stored.
"""

from __future__ import annotations

from typing import Protocol

import xxhash

from filecollect.domain.position import CHAIN_BLOCK, GUARD_LENGTH, HEAD_LENGTHS, Chain, Proof

READ = 1024 * 1024


class Readable(Protocol):
    """Bytes by offset."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`; fewer only at the end."""


def digest(data: bytes) -> str:
    """Return the digest of some bytes."""
    return xxhash.xxh3_128_hexdigest(data)


def heads(source: Readable, size: int = HEAD_LENGTHS[-1]) -> list[Proof]:
    """Return the heads that `size` content bytes fill, shortest first; under 64 bytes the whole content."""
    data = source.read_at(0, min(size, HEAD_LENGTHS[-1]))
    lengths = [length for length in HEAD_LENGTHS if length <= len(data)] or [len(data)]
    return [Proof(length, digest(data[:length])) for length in lengths if length]


def head_at(source: Readable, length: int) -> Proof:
    """Return the head of one length."""
    return Proof(length, digest(source.read_at(0, length)))


def guard(source: Readable, offset: int) -> Proof:
    """Return the proof of the last up to 256 bytes before `offset`.

    Of a file that ends before `offset` it is a proof that holds nowhere.
    """
    length = min(GUARD_LENGTH, offset)
    return Proof(length, digest(source.read_at(offset - length, length)) if length else "")


def proves(source: Readable, proof: Proof, end_offset: int) -> bool:
    """Return whether the bytes that end at `end_offset` are those of `proof`; no bytes prove themselves."""
    if proof.length == 0:
        return True
    if proof.length > end_offset:
        return False
    data = source.read_at(end_offset - proof.length, proof.length)
    return len(data) == proof.length and digest(data) == proof.digest


def span_digest(source: Readable, start: int, end: int) -> str:
    """Return the digest of the content from `start` to `end`, read a megabyte at a time."""
    hasher = xxhash.xxh3_128()
    while start < end and (data := source.read_at(start, min(READ, end - start))):
        hasher.update(data)
        start += len(data)
    return hasher.hexdigest()


def hasher() -> xxhash.xxh3_128:
    """Return a digest that is fed piece by piece."""
    return xxhash.xxh3_128()


class ChainDigest:
    """The chained digest of a content that is read in order."""

    def __init__(self, start: Chain) -> None:
        self._blocks = start.blocks
        self._chain = bytes.fromhex(start.digest)
        self._begin()

    def _begin(self) -> None:
        self._block = xxhash.xxh3_128(self._chain)
        self._size = 0

    def update(self, data: bytes) -> None:
        """Take in the next bytes."""
        view = memoryview(data)
        while view:
            part = view[: CHAIN_BLOCK - self._size]
            self._block.update(part)
            self._size += len(part)
            view = view[len(part) :]
            if self._size == CHAIN_BLOCK:
                self._blocks += 1
                self._chain = self._block.digest()
                self._begin()

    def chain(self) -> Chain:
        """Return the digest over whole blocks, to be stored."""
        return Chain(self._blocks, self._chain.hex())

    def final(self) -> str:
        """Return the digest of everything so far."""
        return self._block.hexdigest() if self._size or not self._blocks else self._chain.hex()

    @classmethod
    def resume(cls, source: Readable, chain: Chain, offset: int) -> ChainDigest:
        """Return the state at content `offset`, reading what is not covered by whole blocks."""
        resumed = cls(chain)
        position = chain.blocks * CHAIN_BLOCK
        while position < offset and (data := source.read_at(position, min(READ, offset - position))):
            resumed.update(data)
            position += len(data)
        return resumed
