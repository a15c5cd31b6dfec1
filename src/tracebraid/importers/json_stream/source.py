"""A file's bytes: plain or compressed, on disk or from standard input, or an error that names its other format."""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tracebraid.errors import InputError, NotATraceError
from tracebraid.importers.json_stream.compression import Compression, compression_of
from tracebraid.importers.json_stream.issue import Issue
from tracebraid.importers.json_stream.unpack import unpack
from tracebraid.importers.reading import reading

__all__ = ["STDIN", "Source", "open_source", "read_range"]

STDIN = "-"
"""The path that means standard input."""

_SQLITE = b"SQLite format 3\x00"
_HEAD_BYTES = 64
"""The longest signature has 16 bytes."""
_EXPECTED = "Expected an Execution Trace or a Kineto trace: JSON text, plain, gzip or zstd"

_FOREIGN_FORMATS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x7fELF", "an ELF program"),
    (b"SQLite format 3", "a SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)


@dataclass
class Source:
    """An opened input. A file is opened once; it is closed when nothing refers to its source any more.

    Args:
        path: as the caller named it.
        size_bytes: size on disk; of the data itself for standard input.
        compression: how it is compressed; None where it is not.
        memory: the data, where it did not come from a file.
        descriptor: the open file; -1 where there is none.
        damage: filled while reading: what stopped a compressed stream before its end, and after how many
            uncompressed bytes.
        done_bytes: how far `blocks` has come in the file on disk.
    """

    path: str
    size_bytes: int
    compression: Compression | None = None
    memory: bytes | None = None
    descriptor: int = -1
    damage: list[Issue] = field(default_factory=list)
    done_bytes: int = 0

    def __post_init__(self) -> None:
        if self.descriptor >= 0:
            weakref.finalize(self, os.close, self.descriptor)

    @property
    def is_database(self) -> bool:
        """Whether it is a file that SQLite can open."""
        return self.memory is None and self.read(0, len(_SQLITE)) == _SQLITE

    def blocks(self, block_bytes: int = 1 << 22) -> Iterator[bytes]:
        """The uncompressed bytes, block by block; a damaged stream ends early and says so in `damage`."""
        if self.compression is not None:
            return unpack(lambda: self._disk_blocks(block_bytes // 8), self.compression, self.damage)
        return self._disk_blocks(block_bytes)

    def read(self, start: int, stop: int) -> bytes:
        """The bytes as they lie on disk, from `start` up to `stop`; any thread may ask.

        Read, not mapped: the pages of a mapped file count as resident memory, and are faulted in page by page.
        """
        if self.memory is not None:
            return self.memory[start:stop]
        with reading(self.path):
            return _read(self.descriptor, start, stop)

    def mapped(self) -> mmap.mmap | None:
        """The file mapped into memory; None where it is compressed or does not lie on disk."""
        if self.compression is not None or self.memory is not None:
            return None
        with reading(self.path):
            return mmap.mmap(self.descriptor, 0, access=mmap.ACCESS_READ)

    def _disk_blocks(self, block_bytes: int) -> Iterator[bytes]:
        start = 0
        while block := self.read(start, start + block_bytes):
            start += len(block)
            self.done_bytes = start
            yield block


def read_range(path: str, start: int, stop: int) -> bytes:
    """The bytes of a file from `start` up to `stop`, for a process that has no `Source` of it."""
    with reading(path):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            return _read(descriptor, start, stop)
        finally:
            os.close(descriptor)


def _read(descriptor: int, start: int, stop: int) -> bytes:
    data = os.pread(descriptor, stop - start, start)
    while len(data) < stop - start and (
        more := os.pread(descriptor, stop - start - len(data), start + len(data))
    ):
        data += more
    return data


def open_source(path: str | Path, database: bool = False) -> Source:
    """Open a file, or standard input for `-`. A pipe with a name is read whole, like standard input.

    Args:
        path: the file.
        database: whether it may be an SQLite database.

    Raises:
        InputError: it is not there, is a folder, or cannot be read.
        NotATraceError: it is empty or of a format that is no trace.
    """
    name = str(path)
    if name == STDIN:
        name, data = "standard input", sys.stdin.buffer.read()
        source = Source(name, len(data), memory=data)
    else:
        source = _open_file(Path(path), name)
    head = source.read(0, _HEAD_BYTES)
    if not (database and source.is_database):
        _refuse_foreign(name, head)
    source.compression = compression_of(head)
    return source


def _open_file(file: Path, name: str) -> Source:
    try:
        with reading(name):
            is_folder = file.is_dir()
        if is_folder:
            raise InputError(name, "this is a folder", "Name one trace file, or open the folder as a job")
        with reading(name):
            if not file.is_file() and file.exists():
                data = file.read_bytes()
                return Source(name, len(data), memory=data)
            descriptor = os.open(file, os.O_RDONLY)
            return Source(name, os.fstat(descriptor).st_size, descriptor=descriptor)
    except ValueError as error:
        raise InputError(name, f"this is no path ({error})", "Check the path") from None


def _refuse_foreign(name: str, head: bytes) -> None:
    if not head:
        raise NotATraceError(name, "the file is empty", f"{_EXPECTED}; was the trace ever written?")
    for magic, what in _FOREIGN_FORMATS:
        if head.startswith(magic):
            raise NotATraceError(name, f"this looks like {what}", _EXPECTED)
