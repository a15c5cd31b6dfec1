"""Files with their compression taken off and put on again, so that changes reach what is inside."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Callable

import zstandard

from tools.fuzz.model import Files, Mutation

__all__ = ["Change", "inside_one_file", "packed_as", "unpacked"]

Change = Callable[[bytes, random.Random], bytes]
"""Changes the text of a file."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def unpacked(data: bytes) -> bytes | None:
    """What a compressed file holds, or the file itself; None where it is damaged."""
    try:
        if data.startswith(_GZIP):
            return gzip.decompress(data)
        if data.startswith(_ZSTD):
            return _frames(data)
    except (OSError, EOFError, zlib.error, zstandard.ZstdError):
        return None
    return data


def _frames(data: bytes) -> bytes:
    """What all frames of a zstd file hold, one behind the other."""
    texts = []
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        texts.append(frame.decompress(data))
        if not frame.eof:
            raise zstandard.ZstdError("the last frame is cut off")
        data = frame.unused_data
    return b"".join(texts)


def packed_as(model: bytes, text: bytes) -> bytes:
    """The text, compressed as another file is."""
    if model.startswith(_GZIP):
        return gzip.compress(text, 1, mtime=0)
    return zstandard.ZstdCompressor().compress(text) if model.startswith(_ZSTD) else text


def inside_one_file(change: Change) -> Mutation:
    """A mutation of what one file, chosen at random, holds below its compression."""

    def mutate(files: Files, rng: random.Random) -> Files:
        path = rng.choice(sorted(files))
        text = unpacked(files[path])
        return files if text is None else {**files, path: packed_as(files[path], change(text, rng))}

    mutate.__name__ = change.__name__
    return mutate
