"""The compressions of a stream, known by their first bytes, each with what unpacks it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import zstandard
from isal import isal_zlib
from msgspec import Struct

from tracebraid.model.finding import FindingCase, Issue, Loss
from tracebraid.model.finding_code import FindingCode

_GZIP_WBITS = 31
"""zlib's `wbits` for a gzip header and trailer with the largest window: 16 + 15."""
_DEFLATE_WBITS = -15
"""zlib's `wbits` for a deflate stream without header, as zip archives hold it, with the largest window."""
_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE_FIRST = range(0x50, 0x60)
_SKIPPABLE_REST = b"\x2a\x4d\x18"
"""A skippable frame of zstd starts with any of 16 bytes, and these three (RFC 8878, 3.1.2)."""
_WINDOW_AT_MOST_BYTES = 1 << 31
"""The largest window that zstd writes (`--long=31`); its memory is used only as far as the text fills it."""


class Frame(Protocol):
    """One frame of a stream (gzip calls it a member), unpacked as its bytes come in."""

    @property
    def eof(self) -> bool:
        """Return whether the frame has ended."""
        ...

    @property
    def unused_data(self) -> bytes:
        """Input after its end."""
        ...

    def decompress(self, data: bytes, /) -> bytes:
        """Decompress the next bytes."""
        ...


class Compression(Struct, frozen=True):
    """Compression format of a stream.

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
    """Detect the compression of a stream by its first bytes; None if uncompressed or unknown."""
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
    """Return whether another deflate stream follows one."""
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
"""Compressions of zip members, by name."""


_STEP_BYTES = 16
"""Packed bytes of a step in a damaged stream: at most one step's output is lost."""
_UNPACKED_UNCHECKED_BYTES = 1 << 28
"""Unpacked size up to which any compression ratio is allowed."""
RATIO_AT_MOST = 500
"""Beyond, to so many times its packed bytes: traces reach 40 with zstd, and what is made to fill memory 1,000."""
_CODE = FindingCode.COMPRESSION_DAMAGED


def unpacked_at_most_bytes(packed_bytes: int) -> int:
    """Return the maximum unpacked size of a compressed size: more would be an attack on memory."""
    return max(_UNPACKED_UNCHECKED_BYTES, RATIO_AT_MOST * packed_bytes)


def unpack(
    packed: Callable[[], Iterator[bytes]], compression: Compression, damage: list[Issue]
) -> Iterator[bytes]:
    """Unpack a stream of one or more frames."""
    name, taken, done = compression.name, 0, 0
    start = compression.frames()
    frame = start()
    for rest in _steps(packed(), compression.step_bytes):
        taken += len(rest)
        while rest:
            if frame.eof:
                if not rest.strip(b"\0"):
                    break
                if not compression.may_begin(rest):
                    case = FindingCase.STREAM_FOLLOWED
                    damage.append(Issue.of(_CODE, done, Loss(), case=case, compression=name))
                    return
                frame = start()
            try:
                unpacked = frame.decompress(rest)
            except compression.errors as error:
                yield from _up_to_damage(packed(), compression, done)
                details = {"case": FindingCase.STREAM_BROKEN, "compression": name, "error": str(error)}
                damage.append(Issue(_CODE, done, Loss(), details))
                return
            rest = frame.unused_data if frame.eof else b""
            done += len(unpacked)
            if unpacked:
                yield unpacked
        if done > unpacked_at_most_bytes(taken):
            case = FindingCase.STREAM_EXPANDS
            damage.append(Issue.of(_CODE, done, Loss(), case=case, compression=name, ratio=RATIO_AT_MOST))
            return
    if not frame.eof:
        damage.append(Issue.of(_CODE, done, Loss(), compression=name))


def _steps(blocks: Iterator[bytes], step_bytes: int) -> Iterator[bytes]:
    for block in blocks:
        for begin in range(0, len(block), step_bytes):
            yield block[begin : begin + step_bytes]


def _up_to_damage(packed: Iterator[bytes], compression: Compression, skip: int) -> Iterator[bytes]:
    """The uncompressed bytes of a damaged stream after the first `skip`, in small steps, up to the damage."""
    start = compression.exact_frames()
    frame = start()
    done = 0
    for rest in _steps(packed, _STEP_BYTES):
        while rest:
            if frame.eof:
                frame = start()
            try:
                unpacked = frame.decompress(rest)
            except compression.errors:
                return
            rest = frame.unused_data if frame.eof else b""
            done += len(unpacked)
            if done > skip:
                yield unpacked[max(0, skip - (done - len(unpacked))) :]
