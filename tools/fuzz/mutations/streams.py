"""Changes of compressed streams: what stands behind a frame, several frames, and what a frame says of itself."""

from __future__ import annotations

import gzip
import random

import zstandard

from tools.fuzz.mutations.packed import unpacked
from tools.fuzz.mutations.raw_bytes import in_one_file

__all__ = ["STREAMS"]

_BEHIND = (
    b"\0" * 512,
    b"\0",
    b"x",
    b"garbage" * 100,
    b"\x1f\x8b",
    b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
    b"{}",
    b"\xff" * 20,
)
_TRAILER_BYTES = 8
"""The checksum and the length behind a gzip member."""
_HEADER_BYTES = 10


def followed(data: bytes, rng: random.Random) -> bytes:
    """Something stands behind the stream."""
    return data + rng.choice((*_BEHIND, data, gzip.compress(b"{}", mtime=0)))


def in_frames(data: bytes, rng: random.Random) -> bytes:
    """The stream has several frames, of one kind or of both, some of them empty."""
    text = unpacked(data)
    if text is None:
        return data
    cuts = sorted(rng.randrange(len(text) + 1) for _ in range(rng.choice((1, 2, 5))))
    parts = [text[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    pack = zstandard.ZstdCompressor().compress if data.startswith(_BEHIND[6]) else gzip.compress
    frames = [pack(part) for part in (*parts, *([b""] if rng.random() < 0.3 else []))]
    if rng.random() < 0.2:
        frames.insert(rng.randrange(len(frames)), rng.choice(_BEHIND))
    return b"".join(frames)


def frame_lies(data: bytes, rng: random.Random) -> bytes:
    """A byte of the head or the checksum of the stream is another."""
    changed = bytearray(data)
    if len(changed) > _HEADER_BYTES + _TRAILER_BYTES:
        at = rng.choice((rng.randrange(_HEADER_BYTES), -1 - rng.randrange(_TRAILER_BYTES)))
        changed[at] = rng.choice((0, 0xFF, changed[at] ^ 1, changed[at] ^ 0x80))
    return bytes(changed)


def packed_twice(data: bytes, rng: random.Random) -> bytes:
    """The file is compressed once more."""
    return rng.choice((gzip.compress(data, mtime=0), zstandard.ZstdCompressor().compress(data)))


STREAMS = tuple(map(in_one_file, (followed, in_frames, frame_lies, packed_twice)))
