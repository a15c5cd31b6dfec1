"""Members of an archive: their index, and each of them opened."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from msgspec import Struct, field

from tracebraid.filesystem.compression import PACKINGS, unpack
from tracebraid.filesystem.interface import OpenFile
from tracebraid.model.finding import FindingCase, Issue, Loss
from tracebraid.model.finding_code import FindingCode

NAME_AT_MOST_BYTES = 4096
"""Linux's longest path, PATH_MAX: a longer name is of no file."""
_LEVELS_AT_MOST = 64
"""Maximum folder depth of a name: each is stored by its path, and 70 KB of deeply nested names took 8 GB."""
_ARCHIVES = (".tar", ".tgz", ".tar.gz", ".tar.zst", ".zip")
_NO_ARCHIVE = ".arrow.zip"


class Member(Struct, frozen=True):
    """A file in an archive.

    Args:
        start: offset of its bytes in the archive; of a zip's member that of its local header.
        packed_bytes: their number.
        size_bytes: its size unpacked, as the archive states it.
        packing: name of the compression, see `compression.PACKINGS`; "" if uncompressed.
        crc: the checksum of the unpacked bytes; None if the archive has none.
        has_header: whether a zip's local header precedes its bytes.
    """

    start: int
    packed_bytes: int
    size_bytes: int
    packing: str = ""
    crc: int | None = None
    has_header: bool = False


class Listed(Struct, frozen=True):
    """An entry of an archive as it is listed.

    Args:
        name: as the archive has it, with `/`.
        member: its location; None if it is not a file.
        refused: why it cannot be read; None for files and folders.
    """

    name: str
    member: Member | None
    refused: FindingCase | None = None


class Index(Struct, frozen=True):
    """Index of an archive.

    Args:
        members: the files by their paths inside.
        refused: names of skipped entries, by reason.
        damaged_at: the byte from which the archive is unreadable; None if it is intact.
    """

    members: dict[str, Member] = field(default_factory=dict)
    refused: dict[FindingCase, list[str]] = field(default_factory=dict)
    damaged_at: int | None = None


def index_of(listed: Iterable[Listed], damaged_at: int | None = None) -> Index:
    """Build the index of an archive's entries.

    A later member replaces an earlier one of its name, as unpacking does. A name that leads out of the archive, and an
    archive inside it, are left out.
    """
    index = Index(damaged_at=damaged_at)
    for entry in listed:
        name = _inside(entry.name)
        if name == "":
            continue
        refused = FindingCase.MEMBER_OUTSIDE if name is None else entry.refused
        if refused is None and name is not None and name.lower().endswith(_ARCHIVES):
            refused = None if name.lower().endswith(_NO_ARCHIVE) else FindingCase.ARCHIVE_INSIDE
        if refused is None and name in index.members:
            index.refused.setdefault(FindingCase.MEMBER_TWICE, []).append(name)
        if refused is not None:
            index.refused.setdefault(refused, []).append(entry.name if name is None else name)
        elif entry.member is not None and name is not None:
            index.members[name] = entry.member
    return index


def _inside(name: str) -> str | None:
    """A name without `.` and double `/`; None if it leads out, or too deep, "" where it is the archive itself."""
    if name.startswith("/") or "\0" in name or len(name) > NAME_AT_MOST_BYTES:
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if ".." in parts or len(parts) > _LEVELS_AT_MOST else "/".join(parts)


class MemberFile(Struct, frozen=True, eq=False):
    """A member of an archive, see `OpenFile`.

    Args:
        path: as messages name it.
        archive: the archive, opened.
        start: offset of the member's bytes in it.
        member: the member.
        damage: filled while reading: faults of a packed member.
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
"""Bytes of a packed member read at once."""


def unpacked_whole(file: MemberFile) -> bytes:
    """Return all bytes of a member, for random access."""
    return b"".join(file.blocks(_PACKED_BLOCK_BYTES))
