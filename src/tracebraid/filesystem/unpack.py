"""A compressed stream, unpacked block by block; a damaged one yields everything before the damage."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tracebraid.filesystem.compression import Compression
from tracebraid.model.finding import Loss
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.issue import Issue

__all__ = ["RATIO_AT_MOST", "unpack", "unpacked_at_most_bytes"]

_STEP_BYTES = 16
"""A damaged stream is decompressed in steps of so many packed bytes: at most one step's output is lost."""
_UNPACKED_UNCHECKED_BYTES = 1 << 28
"""Up to this size a stream may unpack to any multiple of its packed bytes."""
RATIO_AT_MOST = 500
"""Beyond, to so many times its packed bytes: traces reach 40 with zstd, and what is made to fill memory 1,000."""
_CODE = FindingCode.COMPRESSION_DAMAGED


def unpacked_at_most_bytes(packed_bytes: int) -> int:
    """How many bytes may come out of so many compressed ones: more is made to fill memory."""
    return max(_UNPACKED_UNCHECKED_BYTES, RATIO_AT_MOST * packed_bytes)


def unpack(
    packed: Callable[[], Iterator[bytes]], compression: Compression, damage: list[Issue]
) -> Iterator[bytes]:
    """Unpack a stream of one or more frames.

    Args:
        packed: gives the compressed bytes, block by block; asked once more where the stream is damaged.
        compression: how it is compressed.
        damage: receives (what stopped the stream before its end, or what follows it; after how many uncompressed
            bytes).
    """
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
