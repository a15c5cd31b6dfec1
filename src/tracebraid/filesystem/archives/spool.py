"""A compressed tar, unpacked once into a temporary file without a name, which no crash leaves behind.

A stream gives no access to a member but through all before it. So what may be a trace, or say something of one, is
written in turn into a file that is deleted while it is open; what is not compressed itself is, so that the
space is about that of the archive. Worker processes open the file through this process' entry in `/proc`.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import weakref
from collections.abc import Iterator
from typing import BinaryIO

import zstandard
from msgspec import Struct

from tracebraid.errors import InputError
from tracebraid.filesystem.archives.member_files import Index, Listed, Member, index_of
from tracebraid.filesystem.archives.tar import TarEnd, tar_entries
from tracebraid.filesystem.compression import ZSTD, Compression, compression_of, unpack
from tracebraid.filesystem.interface import OpenFile
from tracebraid.model.finding import Issue

SPOOL_AT_MOST_BYTES = 32 << 30
"""Space that an archive may take in the temporary folder; a job of 1,000 ranks is of 10 to 100 GB uncompressed."""
_WANTED = re.compile(r"\.json(\.gz|\.zst)?$|\.arrow\.zip$|\.sqlite$", re.I)
_BLOCK_BYTES = 1 << 19
_LEVEL = 1
"""zstd's fastest usual level: traces get 15 times smaller at 0.5 GB/s or more."""
_UNPACK_FIRST = "Unpack the archive on a disk with enough space, and name the folder"


class Spooled(Struct, frozen=True, eq=False, weakref=True):
    """Unpacked archive.

    Args:
        file: the temporary file, which is deleted when closed.
        index: the members, as they lie in it.
        damage: faults of the compressed stream.
    """

    file: BinaryIO
    index: Index
    damage: list[Issue]

    def __post_init__(self) -> None:
        weakref.finalize(self, self.file.close)

    @property
    def path(self) -> str:
        """A path by which processes of this user can open the file while this process has it open."""
        return f"/proc/{os.getpid()}/fd/{self.file.fileno()}"


class _Forward:
    """Read a stream by increasing offsets, without keeping bytes."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = blocks
        self._buffer = b""
        self._at = 0

    def read(self, start: int, stop: int) -> bytes:
        return b"".join(self.ranges(start, stop))

    def ranges(self, start: int, stop: int) -> Iterator[bytes]:
        """The bytes from `start` up to `stop`, in pieces."""
        while self._at < stop:
            if not self._buffer:
                self._buffer = next(self._blocks, b"")
                if not self._buffer:
                    return
            skip = max(0, min(start - self._at, len(self._buffer)))
            take = max(0, min(stop - self._at, len(self._buffer)))
            found, self._buffer = self._buffer[skip:take], self._buffer[max(skip, take) :]
            self._at += max(skip, take)
            if found:
                yield found


def unpacked_head(file: OpenFile, compression: Compression, size_bytes: int) -> bytes:
    """Return the first unpacked bytes of a compressed file."""
    found = bytearray()
    for block in unpack(lambda: file.blocks(1 << 14), compression, []):
        found += block
        if len(found) >= size_bytes:
            break
    return bytes(found[:size_bytes])


def spool_tar(archive: OpenFile, compression: Compression) -> Spooled:
    """Unpack the traces of a compressed tar."""
    damage: list[Issue] = []
    forward = _Forward(unpack(lambda: archive.blocks(_BLOCK_BYTES), compression, damage))
    end = TarEnd()
    file = _temporary(archive.path)
    try:
        listed = [_written(file, entry, forward, archive.path) for entry in tar_entries(forward.read, end)]
        file.flush()
    except OSError as error:
        _discard(file)
        problem = f"there is no space for its members in {tempfile.gettempdir()} ({error.strerror or error})"
        raise InputError(archive.path, problem, _UNPACK_FIRST) from None
    except BaseException:
        _discard(file)
        raise
    return Spooled(file, index_of(listed, end.damaged_at), damage)


def _discard(file: BinaryIO) -> None:
    """Close a file, ignoring errors of unwritten data on a full disk."""
    with contextlib.suppress(OSError):
        file.close()


def _temporary(path: str) -> BinaryIO:
    try:
        return tempfile.TemporaryFile(prefix="tracebraid-")
    except OSError as error:
        problem = f"no temporary file can be made ({error.strerror or error})"
        raise InputError(path, problem, "Set TMPDIR to a folder that can be written") from None


def _written(file: BinaryIO, entry: Listed, forward: _Forward, path: str) -> Listed:
    """Write a member after the others; other entries are unchanged."""
    member = entry.member
    if member is None or not _WANTED.search(entry.name):
        return entry if member is None else Listed(entry.name, Member(0, 0, 0))
    blocks = forward.ranges(member.start, member.start + member.packed_bytes)
    start, size = file.tell(), 0
    first = next(blocks, b"")
    packer = None if compression_of(first) else zstandard.ZstdCompressor(level=_LEVEL).compressobj()
    while first:
        size += len(first)
        file.write(first if packer is None else packer.compress(first))
        if file.tell() > SPOOL_AT_MOST_BYTES:
            problem = f"its members take more than {SPOOL_AT_MOST_BYTES >> 30} GB of temporary space"
            raise InputError(path, problem, _UNPACK_FIRST)
        first = next(blocks, b"")
    if packer is not None:
        file.write(packer.flush())
    packing = "" if packer is None else ZSTD.name
    return Listed(entry.name, Member(start, file.tell() - start, size, packing))
