"""Changes that know nothing of a file's format: bytes, blocks, lengths."""

from __future__ import annotations

import random
from collections.abc import Callable

from tools.fuzz.model import Files, Mutation

__all__ = ["RAW_BYTES", "RAW_CHANGES", "in_one_file"]

_BLOCKS = (1, 16, 64, 512, 4096)


def in_one_file(change: Callable[[bytes, random.Random], bytes]) -> Mutation:
    """A mutation of one file, chosen at random."""

    def mutate(files: Files, rng: random.Random) -> Files:
        path = rng.choice(sorted(files))
        return {**files, path: change(files[path], rng)}

    mutate.__name__ = change.__name__
    return mutate


def cut(data: bytes, rng: random.Random) -> bytes:
    """The end is missing."""
    return data[: rng.randrange(len(data) + 1)]


def zeroed(data: bytes, rng: random.Random) -> bytes:
    """A block of zeros, as a crash of a file system leaves it."""
    size, begin = rng.choice(_BLOCKS), rng.randrange(len(data) + 1)
    return (data[:begin] + b"\0" * size + data[begin + size :])[: len(data)]


def removed(data: bytes, rng: random.Random) -> bytes:
    """A few bytes are missing."""
    begin = rng.randrange(len(data) + 1)
    return data[:begin] + data[begin + rng.choice(_BLOCKS) :]


def flipped(data: bytes, rng: random.Random) -> bytes:
    """A bit of one to four bytes."""
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4) if data else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def swapped(data: bytes, rng: random.Random) -> bytes:
    """Two blocks in each other's place."""
    size = rng.choice(_BLOCKS)
    blocks = [data[begin : begin + size] for begin in range(0, len(data), size)]
    if len(blocks) > 1:
        first, second = rng.sample(range(len(blocks)), 2)
        blocks[first], blocks[second] = blocks[second], blocks[first]
    return b"".join(blocks)


def repeated(data: bytes, rng: random.Random) -> bytes:
    """A block twice."""
    size, begin = rng.choice(_BLOCKS), rng.randrange(len(data) + 1)
    return data[: begin + size] + data[begin:]


RAW_CHANGES = (cut, zeroed, removed, flipped, swapped, repeated)
RAW_BYTES = tuple(in_one_file(change) for change in RAW_CHANGES)
