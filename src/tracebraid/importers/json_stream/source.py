"""A file's bytes: plain or gzip, on disk or from standard input, or a clear word on what it is instead."""

from __future__ import annotations

import io
import mmap
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tracebraid.errors import InputError, NotATraceError
from tracebraid.importers.json_stream.gunzip import gunzip
from tracebraid.importers.reading import reading

__all__ = ["STDIN", "Source", "open_source", "read_range"]

STDIN = "-"
"""The path that means standard input."""

_EXPECTED = "Expected an Execution Trace or a Kineto trace: JSON text, plain or gzip"

_FOREIGN_FORMATS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG", "a PNG picture"),
    (b"\xff\xd8\xff", "a JPEG picture"),
    (b"GIF8", "a GIF picture"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a zip archive"),
    (b"BZh", "bzip2 data"),
    (b"\xfd7zXZ", "xz data"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"\x7fELF", "an ELF program"),
    (b"SQLite format 3", "a SQLite database"),
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)


@dataclass
class Source:
    """An opened input.

    Args:
        path: as the caller named it.
        size_bytes: size on disk; of the data itself for standard input.
        compressed: whether it is gzip.
        memory: the data, where it did not come from a file.
        damage: filled while reading: what stopped a gzip stream short of its end, and after how many
            uncompressed bytes.
        done_bytes: how far `blocks` has come in the file on disk.
    """

    path: str
    size_bytes: int
    compressed: bool
    memory: bytes | None = None
    damage: list[tuple[str, int]] = field(default_factory=list)
    done_bytes: int = 0

    def blocks(self, block_bytes: int = 1 << 22) -> Iterator[bytes]:
        """The uncompressed bytes, block by block; a damaged gzip stream ends early and says so in `damage`."""
        if self.compressed:
            return gunzip(lambda: self._disk_blocks(block_bytes // 8), self.damage)
        return self._disk_blocks(block_bytes)

    def _disk_blocks(self, block_bytes: int) -> Iterator[bytes]:
        with reading(self.path), self._raw() as raw:
            while block := raw.read(block_bytes):
                self.done_bytes = raw.tell()
                yield block

    def mapped(self) -> mmap.mmap | None:
        """The file mapped into memory; None where it is compressed or does not lie on disk."""
        if self.compressed or self.memory is not None:
            return None
        with reading(self.path), Path(self.path).open("rb") as stream:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)

    def _raw(self) -> io.BufferedIOBase:
        return Path(self.path).open("rb") if self.memory is None else io.BytesIO(self.memory)


def read_range(path: str, start: int, stop: int) -> bytes:
    """The bytes of an uncompressed file from `start` up to `stop`.

    Read, not mapped: a mapped file that is gone through counts as memory in use, and faults page by page.
    """
    with reading(path), Path(path).open("rb", buffering=0) as stream:
        stream.seek(start)
        data = stream.read(stop - start)
        while len(data) < stop - start and (more := stream.read(stop - start - len(data))):
            data += more
        return data


def open_source(path: str | Path) -> Source:
    """Open a file, or standard input for `-`. A pipe with a name is read whole, like standard input.

    Raises:
        InputError: it is not there, is a folder, or cannot be read.
        NotATraceError: it is empty or of a format that is no trace.
    """
    name = str(path)
    if name == STDIN:
        data = sys.stdin.buffer.read()
        head, size = data[:64], len(data)
        _refuse_foreign("standard input", head)
        return Source("standard input", size, head.startswith(b"\x1f\x8b"), memory=data)
    file = Path(path)
    memory = None
    try:
        with reading(name):
            is_folder = file.is_dir()
        if is_folder:
            raise InputError(name, "this is a folder", "Name one trace file, or open the folder as a job")
        with reading(name), file.open("rb") as stream:
            if not file.is_file():
                memory = stream.read()
            head = stream.read(64) if memory is None else memory[:64]
        with reading(name):
            size = file.stat().st_size if memory is None else len(memory)
    except ValueError as error:
        raise InputError(name, f"this is no path ({error})", "Check the path") from None
    _refuse_foreign(name, head)
    return Source(name, size, head.startswith(b"\x1f\x8b"), memory)


def _refuse_foreign(name: str, head: bytes) -> None:
    if not head:
        raise NotATraceError(name, "the file is empty", f"{_EXPECTED}; was the trace ever written?")
    for magic, what in _FOREIGN_FORMATS:
        if head.startswith(magic):
            raise NotATraceError(name, f"this looks like {what}", _EXPECTED)
