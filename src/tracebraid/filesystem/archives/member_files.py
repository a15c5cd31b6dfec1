"""The files of an archive, opened: ranges of the archive, and streams that are unpacked while they are read."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from tracebraid.filesystem.archives.index import Member
from tracebraid.filesystem.compression import PACKINGS
from tracebraid.filesystem.interface import OpenFile
from tracebraid.filesystem.unpack import unpack
from tracebraid.model.finding import Loss
from tracebraid.model.finding_code import FindingCase, FindingCode
from tracebraid.model.issue import Issue

__all__ = ["MemberFile", "unpacked_whole"]


@dataclass(frozen=True, eq=False)
class MemberFile:
    """A member of an archive, see `OpenFile`.

    Args:
        path: as messages name it.
        archive: the archive, opened.
        start: offset of the member's bytes in it.
        member: the member.
        damage: filled while reading: what is wrong with a packed member.
    """

    path: str
    archive: OpenFile
    start: int
    member: Member
    damage: list[Issue] = field(default_factory=list)

    @property
    def version(self) -> str:
        """See `OpenFile`: that of the archive."""
        return self.archive.version

    @property
    def size_bytes(self) -> int:
        """Its size unpacked, as the archive states it; of one that is cut off, no more than there is of it."""
        if self.member.packing:
            return self.member.size_bytes
        return max(0, min(self.member.packed_bytes, self.archive.size_bytes - self.start))

    def read(self, start: int, stop: int) -> bytes:
        """See `OpenFile`. Of a packed member all before is unpacked, too."""
        if not self.member.packing:
            return self._range(start, stop)
        found, at = bytearray(), 0
        blocks = self._unpacked([])
        for block in blocks:
            found += block[max(0, start - at) : max(0, stop - at)]
            at += len(block)
            if at >= stop:
                break
        return bytes(found)

    def blocks(self, block_bytes: int) -> Iterator[bytes]:
        """See `OpenFile`; a damaged member ends early, and says so in `damage`."""
        if self.member.packing:
            return self._checked(self._unpacked(self.damage))
        return self._checked(self._ranges(block_bytes))

    def whole(self) -> None:
        """See `OpenFile`: it is read."""
        return

    def _range(self, start: int, stop: int) -> bytes:
        last = self.member.packed_bytes
        return self.archive.read(self.start + min(start, last), self.start + min(stop, last))

    def _ranges(self, block_bytes: int) -> Iterator[bytes]:
        start = 0
        while block := self._range(start, start + block_bytes):
            start += len(block)
            yield block

    def _unpacked(self, damage: list[Issue]) -> Iterator[bytes]:
        packing = PACKINGS[self.member.packing]
        return unpack(lambda: self._ranges(_PACKED_BLOCK_BYTES), packing, damage)

    def _checked(self, blocks: Iterator[bytes]) -> Iterator[bytes]:
        done = crc = 0
        for block in blocks:
            if self.member.crc is not None:
                crc = zlib.crc32(block, crc)
            done += len(block)
            yield block
        if self.member.crc not in (None, crc) and not self.damage:
            packing = self.member.packing or "zip"
            case = FindingCase.STREAM_BROKEN
            details = {"case": case, "compression": packing, "error": "its checksum differs"}
            self.damage.append(Issue(FindingCode.COMPRESSION_DAMAGED, done, Loss(), details))


_PACKED_BLOCK_BYTES = 1 << 19
"""So much of a packed member is read at once."""


def unpacked_whole(file: MemberFile) -> bytes:
    """All bytes of a member, for what reads a file here and there."""
    return b"".join(file.blocks(_PACKED_BLOCK_BYTES))
