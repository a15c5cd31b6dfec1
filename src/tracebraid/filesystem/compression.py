"""The compressions of a stream, known by their first bytes, each with what unpacks it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import zstandard
from isal import isal_zlib

__all__ = ["DEFLATE", "GZIP", "PACKINGS", "ZSTD", "Compression", "Frame", "compression_of"]

_GZIP_WBITS = 31
"""zlib's `wbits` for a gzip header and trailer with the largest window: 16 + 15."""
_DEFLATE_WBITS = -15
"""zlib's `wbits` for a deflate stream without header, as zip archives hold it, with the largest window."""
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_FIRST, _SKIPPABLE_REST = range(0x50, 0x60), b"\x2a\x4d\x18"
"""A skippable frame of zstd starts with any of 16 bytes, and these three (RFC 8878, 3.1.2)."""
_WINDOW_AT_MOST_BYTES = 1 << 31
"""The largest window that zstd writes (`--long=31`); its memory is used only as far as the text fills it."""


class Frame(Protocol):
    """One frame of a stream (gzip calls it a member), unpacked as its bytes come in."""

    @property
    def eof(self) -> bool:
        """Whether the frame has ended."""
        ...

    @property
    def unused_data(self) -> bytes:
        """What came in behind its end."""
        ...

    def decompress(self, data: bytes, /) -> bytes:
        """What the next bytes unpack to."""
        ...


@dataclass(frozen=True)
class Compression:
    """How a stream is compressed.

    Args:
        name: what people call it.
        may_begin: whether a frame may begin with these bytes; they may be fewer than its signature has.
        frames: returns a function that starts a frame.
        exact_frames: as `frames`; its frames give all that comes before damage, if the bytes come in small steps.
        errors: what a damaged frame raises.
        step_bytes: packed bytes that are unpacked at once; bounds what a step unpacks to at 32 MB.
    """

    name: str
    may_begin: Callable[[bytes], bool]
    frames: Callable[[], Callable[[], Frame]]
    exact_frames: Callable[[], Callable[[], Frame]]
    errors: tuple[type[Exception], ...]
    step_bytes: int


def compression_of(head: bytes) -> Compression | None:
    """How a stream is compressed, by its first bytes; None where it is not, or in no known way."""
    return next((known for known in (GZIP, ZSTD) if len(head) > 1 and known.may_begin(head)), None)


def _gzip_may_begin(head: bytes) -> bool:
    return _GZIP_MAGIC.startswith(head[: len(_GZIP_MAGIC)])


def _zstd_may_begin(head: bytes) -> bool:
    skippable = head[:1] != b"" and head[0] in _SKIPPABLE_FIRST and _SKIPPABLE_REST.startswith(head[1:4])
    return skippable or _ZSTD_MAGIC.startswith(head[:4])


def _gzip_frames() -> Callable[[], Frame]:
    return lambda: isal_zlib.decompressobj(_GZIP_WBITS)


def _zlib_frames() -> Callable[[], Frame]:
    return lambda: zlib.decompressobj(_GZIP_WBITS)


def _deflate_frames() -> Callable[[], Frame]:
    return lambda: isal_zlib.decompressobj(_DEFLATE_WBITS)


def _exact_deflate_frames() -> Callable[[], Frame]:
    return lambda: zlib.decompressobj(_DEFLATE_WBITS)


def _never(_: bytes) -> bool:
    """Whether another deflate stream follows one."""
    return False


def _zstd_frames() -> Callable[[], Frame]:
    return zstandard.ZstdDecompressor(max_window_size=_WINDOW_AT_MOST_BYTES).decompressobj


_GZIP_ERRORS: tuple[type[Exception], ...] = (isal_zlib.error, zlib.error)  # type: ignore[assignment]

GZIP = Compression("gzip", _gzip_may_begin, _gzip_frames, _zlib_frames, _GZIP_ERRORS, step_bytes=1 << 14)
ZSTD = Compression(
    "zstd", _zstd_may_begin, _zstd_frames, _zstd_frames, (zstandard.ZstdError,), step_bytes=1 << 10
)
DEFLATE = Compression(
    "deflate", _never, _deflate_frames, _exact_deflate_frames, _GZIP_ERRORS, step_bytes=1 << 14
)
PACKINGS = {known.name: known for known in (DEFLATE, ZSTD)}
"""How the members of a zip archive may be compressed, by name."""
