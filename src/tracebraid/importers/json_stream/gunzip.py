"""A gzip stream, unpacked block by block; a damaged one yields everything before the damage."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

from isal import isal_zlib

from tracebraid.importers.json_stream.issue import Issue
from tracebraid.model.finding import Loss
from tracebraid.model.finding_code import FindingCase, FindingCode

__all__ = ["gunzip"]

_GZIP = 31
"""zlib's `wbits` for a gzip header and trailer with the largest window: 16 + 15."""

_MAGIC = b"\x1f\x8b"
_STEP_BYTES = 16
"""A damaged stream is decompressed in steps of so many packed bytes: at most one step's output is lost."""
_CODE = FindingCode.GZIP_DAMAGED


def gunzip(packed: Callable[[], Iterator[bytes]], damage: list[Issue]) -> Iterator[bytes]:
    """Unpack a stream of one or more gzip members.

    Args:
        packed: gives the compressed bytes, block by block; asked once more where the stream is damaged.
        damage: receives (what stopped the stream before its end, or what follows it; after how many uncompressed
            bytes).
    """
    done = 0
    member = isal_zlib.decompressobj(_GZIP)
    for block in packed():
        rest = block
        while rest:
            if member.eof:
                if not rest.strip(b"\0"):
                    break
                if not _MAGIC.startswith(rest[:2]):
                    damage.append(Issue.of(_CODE, done, Loss(), case=FindingCase.GZIP_FOLLOWED))
                    return
                member = isal_zlib.decompressobj(_GZIP)
            try:
                unpacked = member.decompress(rest)
            except isal_zlib.error as error:  # type: ignore[misc]
                yield from _up_to_damage(packed(), done)
                damage.append(Issue.of(_CODE, done, Loss(), case=FindingCase.GZIP_BROKEN, error=str(error)))
                return
            rest = member.unused_data if member.eof else b""
            done += len(unpacked)
            if unpacked:
                yield unpacked
    if not member.eof:
        damage.append(Issue(_CODE, done, Loss()))


def _up_to_damage(packed: Iterator[bytes], skip: int) -> Iterator[bytes]:
    """The uncompressed bytes of a damaged stream after the first `skip`, in small steps, up to the damage."""
    member = zlib.decompressobj(_GZIP)
    done = 0
    for block in packed:
        for begin in range(0, len(block), _STEP_BYTES):
            rest = block[begin : begin + _STEP_BYTES]
            while rest:
                if member.eof:
                    member = zlib.decompressobj(_GZIP)
                try:
                    unpacked = member.decompress(rest)
                except zlib.error:
                    return
                rest = member.unused_data if member.eof else b""
                done += len(unpacked)
                if done > skip:
                    yield unpacked[max(0, skip - (done - len(unpacked))) :]
