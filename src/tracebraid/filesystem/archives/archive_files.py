"""An archive as a folder, see `FileSystem`; and paths that keep it, so that its index is read once."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from msgspec import Struct

from tracebraid.errors import InputError
from tracebraid.filesystem.archives.member_files import Index, Member, MemberFile, index_of, unpacked_whole
from tracebraid.filesystem.archives.spool import Spooled, spool_tar, unpacked_head
from tracebraid.filesystem.archives.tar import BLOCK_BYTES, TarEnd, is_tar, tar_entries
from tracebraid.filesystem.archives.zip_file import is_zip, packed_start, zip_index
from tracebraid.filesystem.compression import compression_of
from tracebraid.filesystem.interface import Entry, FileSystem, Kind, OpenFile
from tracebraid.filesystem.local import LocalFiles, MemoryFile
from tracebraid.model.op_schema import is_arrow

_READ_AHEAD_BYTES = 1 << 16
"""Bytes of a tar read together with a header if each read has latency."""


@dataclass(frozen=True, eq=False)
class ArchiveFiles:
    """The members of an archive as files.

    Args:
        path: the archive, as the caller named it.
        index: its index.
        holder: the file system with the bytes of the members.
        holder_path: the file there.
        spooled: owner of that file; None for the archive itself.
    """

    path: str
    index: Index
    holder: FileSystem
    holder_path: str
    spooled: Spooled | None = field(default=None, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return ArchiveFiles, (self.path, self.index, self.holder, self.holder_path)

    @property
    def requests_at_once(self) -> int:
        """See `FileSystem`."""
        return self.holder.requests_at_once

    def kind(self, path: str) -> Kind:
        """See `FileSystem`."""
        inside = self._inside(path)
        if inside in self.index.members:
            return Kind.FILE
        return Kind.FOLDER if inside in self._folders else Kind.ABSENT

    def entries(self, folder: str) -> list[Entry]:
        """See `FileSystem`."""
        inside = self._folders.get(self._inside(folder) or "")
        if inside is None or self._inside(folder) is None:
            raise InputError(str(folder), "there is no such folder in the archive", "Check the path")
        return [Entry(name, kind) for name, kind in sorted(inside.items())]

    def member(self, path: str) -> Member | None:
        """Return the listed file; None if there is none."""
        return self.index.members.get(self._inside(path) or "")

    def real_path(self, path: str) -> str:
        """See `FileSystem`. There are no links."""
        return path

    def size_bytes(self, path: str) -> int:
        """See `FileSystem`."""
        return self.open(path).size_bytes

    def open(self, path: str) -> OpenFile:
        """See `FileSystem`."""
        inside = self._inside(path)
        member = self.member(path)
        name = f"{self.path}/{inside}"
        if member is None:
            problem = (
                "this is a folder" if inside in self._folders else "there is no such file in the archive"
            )
            raise InputError(name, problem, "Check the path")
        start = packed_start(self._opened, member) if member.has_header else member.start
        if start < 0:
            raise InputError(name, "the archive is damaged where this member starts", "Copy it again")
        file = MemberFile(name, self._opened, start, member)
        return MemoryFile(name, unpacked_whole(file)) if member.packing and is_arrow(name) else file

    @cached_property
    def _opened(self) -> OpenFile:
        return self.holder.open(self.holder_path)

    @cached_property
    def _folders(self) -> dict[str, dict[str, Kind]]:
        """Return the content of each folder; "" is the archive itself."""
        folders: dict[str, dict[str, Kind]] = {"": {}}
        for name in self.index.members:
            kind, path = Kind.FILE, name
            while path:
                above, _, last = path.rpartition("/")
                inside = folders.setdefault(above, {})
                if last in inside:
                    break
                inside[last] = kind
                kind, path = Kind.FOLDER, above
        return folders

    def _inside(self, path: str) -> str | None:
        """Return a path relative to the archive; None if it is outside."""
        if path == self.path:
            return ""
        start = self.path + "/"
        return path[len(start) :] if path.startswith(start) else None


def open_archive(holder: FileSystem, path: str) -> ArchiveFiles | None:
    """Open a file as an archive; None if it is not one."""
    if is_arrow(path):
        return None
    file = holder.open(path)
    head = file.read(0, BLOCK_BYTES)
    if is_zip(head):
        return ArchiveFiles(path, zip_index(file), holder, path)
    if is_tar(head):
        return ArchiveFiles(path, _tar_index(file, holder), holder, path)
    compression = compression_of(head)
    if compression is None or not is_tar(unpacked_head(file, compression, BLOCK_BYTES)):
        return None
    spooled = spool_tar(file, compression)
    return ArchiveFiles(path, spooled.index, LocalFiles(), spooled.path, spooled)


def _tar_index(file: OpenFile, holder: FileSystem) -> Index:
    end = TarEnd()
    ahead = _READ_AHEAD_BYTES if holder.requests_at_once > 1 else 0
    listed = list(tar_entries(_ReadAhead(file, ahead).read, end))
    damaged_at = None if end.damaged_at is None else min(end.damaged_at, file.size_bytes)
    return index_of(listed, damaged_at)


class _ReadAhead(Struct):
    """Read ahead, so that the next read may need no request."""

    file: OpenFile
    read_ahead_bytes: int
    start: int = 0
    data: bytes = b""

    def read(self, start: int, stop: int) -> bytes:
        if start < self.start or stop > self.start + len(self.data):
            self.start, self.data = start, self.file.read(start, max(stop, start + self.read_ahead_bytes))
        return self.data[start - self.start : stop - self.start]
