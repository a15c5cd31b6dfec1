"""What lies in an archive: its members, and what of it is left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tracebraid.model.finding_code import FindingCase

__all__ = ["NAME_AT_MOST_BYTES", "Index", "Listed", "Member", "index_of"]

NAME_AT_MOST_BYTES = 4096
"""Linux's longest path, PATH_MAX: a longer name is of no file."""
_LEVELS_AT_MOST = 64
"""Of folders in a name: each is kept by its path, so that 70 KB of names in thousands of levels took 8 GB."""
_ARCHIVES = (".tar", ".tgz", ".tar.gz", ".tar.zst", ".zip")
_NO_ARCHIVE = ".arrow.zip"


@dataclass(frozen=True)
class Member:
    """A file in an archive.

    Args:
        start: offset of its bytes in the archive; of a zip's member that of its local header.
        packed_bytes: how many they are.
        size_bytes: its size unpacked, as the archive states it.
        packing: name of the compression, see `compression.PACKINGS`; "" where the bytes are the file's own.
        crc: the checksum of the unpacked bytes; None where the archive has none.
        has_header: whether a zip's local header stands before its bytes.
    """

    start: int
    packed_bytes: int
    size_bytes: int
    packing: str = ""
    crc: int | None = None
    has_header: bool = False


@dataclass(frozen=True)
class Listed:
    """An entry of an archive as it is listed.

    Args:
        name: as the archive has it, with `/`.
        member: where it lies; None for what is no file.
        refused: why it is no member that can be read; None for files and folders.
    """

    name: str
    member: Member | None
    refused: FindingCase | None = None


@dataclass(frozen=True)
class Index:
    """What lies in an archive.

    Args:
        members: the files by their paths inside.
        refused: the names of what is left out, by the reason.
        damaged_at: the byte from which on the archive cannot be read; None where it is whole.
    """

    members: dict[str, Member] = field(default_factory=dict)
    refused: dict[FindingCase, list[str]] = field(default_factory=dict)
    damaged_at: int | None = None


def index_of(listed: Iterable[Listed], damaged_at: int | None = None) -> Index:
    """The index of what an archive lists.

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
    """A name without `.` and double `/`; None where it leads out, or too deep, "" where it is the archive itself."""
    if name.startswith("/") or "\0" in name or len(name) > NAME_AT_MOST_BYTES:
        return None
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if ".." in parts or len(parts) > _LEVELS_AT_MOST else "/".join(parts)
