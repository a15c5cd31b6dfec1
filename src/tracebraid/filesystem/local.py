"""Files on disk, and bytes that are in memory already."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tracebraid.errors import InputError
from tracebraid.filesystem.file_view import FileView, whole_range
from tracebraid.filesystem.interface import Entry, Kind, OpenFile
from tracebraid.filesystem.pipe import read_pipe
from tracebraid.filesystem.reading import reading

__all__ = ["LocalFile", "LocalFiles", "MemoryFile", "read_range"]


@dataclass(frozen=True)
class LocalFiles:
    """The file system of this machine, see `FileSystem`."""

    requests_at_once: int = 1

    def kind(self, path: str) -> Kind:
        """See `FileSystem`."""
        with reading(path):
            file = Path(path)
            if file.is_dir():
                return Kind.FOLDER
            if file.is_file():
                return Kind.FILE
            return Kind.OTHER if file.exists() else Kind.ABSENT

    def entries(self, folder: str) -> list[Entry]:
        """See `FileSystem`."""
        with reading(folder), os.scandir(folder) as inside:
            found = [Entry(entry.name, _kind(entry), entry.is_symlink()) for entry in inside]
        return sorted(found, key=lambda entry: entry.name)

    def real_path(self, path: str) -> str:
        """See `FileSystem`."""
        with reading(path):
            return os.path.realpath(path)

    def size_bytes(self, path: str) -> int:
        """See `FileSystem`."""
        with reading(path):
            return Path(path).stat().st_size

    def open(self, path: str) -> OpenFile:
        """See `FileSystem`. A pipe with a name is read whole, other devices are refused."""
        try:
            kind = self.kind(path)
            if kind is Kind.FOLDER:
                advice = "Name one trace file, or open the folder as a job"
                raise InputError(path, "this is a folder", advice)
            with reading(path):
                if kind is Kind.OTHER:
                    return MemoryFile(path, read_pipe(path))
                descriptor = os.open(path, os.O_RDONLY)
                return LocalFile(path, os.fstat(descriptor).st_size, descriptor)
        except ValueError as error:
            raise InputError(path, f"this is no path ({error})", "Check the path") from None


@dataclass(frozen=True, eq=False)
class LocalFile:
    """An open file on disk, see `OpenFile`."""

    path: str
    size_bytes: int
    descriptor: int
    version: str = ""

    def __post_init__(self) -> None:
        weakref.finalize(self, os.close, self.descriptor)

    def read(self, start: int, stop: int) -> bytes:
        """See `OpenFile`.

        Read, not mapped: the pages of a mapped file count as resident memory, and are faulted in page by page.
        """
        with reading(self.path):
            return _read(self.descriptor, start, stop)

    def blocks(self, block_bytes: int) -> Iterator[bytes]:
        """See `OpenFile`."""
        start = 0
        while block := self.read(start, start + block_bytes):
            start += len(block)
            yield block

    def whole(self) -> FileView:
        """The file, of which slices are read."""
        return FileView(self.path, self.size_bytes, self.read)


@dataclass(frozen=True, eq=False)
class MemoryFile:
    """Bytes that were read already, such as standard input, see `OpenFile`."""

    path: str
    data: bytes
    version: str = ""

    @property
    def size_bytes(self) -> int:
        """See `OpenFile`."""
        return len(self.data)

    def read(self, start: int, stop: int) -> bytes:
        """See `OpenFile`."""
        return self.data[start:stop]

    def blocks(self, block_bytes: int) -> Iterator[bytes]:
        """See `OpenFile`."""
        for start in range(0, len(self.data), block_bytes):
            yield self.data[start : start + block_bytes]

    def whole(self) -> bytes:
        """The bytes."""
        return self.data


def read_range(path: str, start: int, stop: int) -> bytes:
    """The bytes of a file on disk from `start` up to `stop`, for a process that has it not open.

    Raises:
        InputError: the file is shorter, or cannot be read.
    """
    with reading(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return whole_range(path, _read(descriptor, start, stop), stop - start)
        finally:
            os.close(descriptor)


def _kind(entry: os.DirEntry[str]) -> Kind:
    try:
        if entry.is_dir():
            return Kind.FOLDER
        return Kind.FILE if entry.is_file() else Kind.OTHER
    except OSError:
        # Links in a circle, or through a folder without rights: they lead to nothing that can be read.
        return Kind.OTHER


def _read(descriptor: int, start: int, stop: int) -> bytes:
    data = os.pread(descriptor, stop - start, start)
    while len(data) < stop - start and (
        more := os.pread(descriptor, stop - start - len(data), start + len(data))
    ):
        data += more
    return data
