"""Files on disk, and bytes that are in memory already."""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from tracebraid import clock
from tracebraid.errors import InputError
from tracebraid.filesystem.interface import Entry, FileView, Kind, OpenFile
from tracebraid.filesystem.paths import reading

_WAIT_FOR_WRITER_S = 5.0
"""Time for a writer to open its end; a shell's substitution has it open already."""
_POLL_S = 0.02
_BLOCK_BYTES = 1 << 20


def read_standard_input() -> bytes:
    """All of standard input; Ctrl-C ends the wait for more of it."""
    # The handler that polars puts around Python's own lets the kernel go on with the call that the signal interrupted.
    signal.siginterrupt(signal.SIGINT, True)
    return sys.stdin.buffer.read()


def read_pipe(path: str) -> bytes:
    """All that is written into a pipe until its last writer closes it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            raise InputError(path, "this is a device, not a file", "Name a trace file")
        return _read(path, descriptor)
    finally:
        os.close(descriptor)


def _read(path: str, descriptor: int) -> bytes:
    blocks: list[bytes] = []
    give_up = clock.now_s() + _WAIT_FOR_WRITER_S
    while True:
        try:
            block = os.read(descriptor, _BLOCK_BYTES)
        except BlockingIOError:
            # Somebody has it open for writing, and has written nothing yet. No signal is lost in this call.
            select.select([descriptor], [], [])
            continue
        if block:
            blocks.append(block)
        elif blocks:
            return b"".join(blocks)
        elif clock.now_s() > give_up:
            raise InputError(path, "no process writes to this pipe", "Start its writer first, or name a file")
        else:
            clock.pause(_POLL_S)


class LocalFiles(Struct, frozen=True):
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
            raise InputError(path, f"this is not a path ({error})", "Check the path") from None


class LocalFile(Struct, frozen=True, eq=False, weakref=True):
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
            return _read_of_local(self.descriptor, start, stop)

    def blocks(self, block_bytes: int) -> Iterator[bytes]:
        """See `OpenFile`."""
        start = 0
        while block := self.read(start, start + block_bytes):
            start += len(block)
            yield block

    def whole(self) -> FileView:
        """The file, of which slices are read."""
        return FileView(self.path, self.size_bytes, self.read)


class MemoryFile(Struct, frozen=True, eq=False):
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


def _kind(entry: os.DirEntry[str]) -> Kind:
    try:
        if entry.is_dir():
            return Kind.FOLDER
        return Kind.FILE if entry.is_file() else Kind.OTHER
    except OSError:
        # Links in a circle, or through a folder without rights: they lead to nothing that can be read.
        return Kind.OTHER


def _read_of_local(descriptor: int, start: int, stop: int) -> bytes:
    data = os.pread(descriptor, stop - start, start)
    while len(data) < stop - start and (
        more := os.pread(descriptor, stop - start - len(data), start + len(data))
    ):
        data += more
    return data
