"""A file's bytes: plain or compressed, on disk or from standard input, or an error that names its other format."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct, field

from tracebraid.errors import InputError, NotATraceError
from tracebraid.filesystem.archives.member_files import MemberFile
from tracebraid.filesystem.choose import file_system_of
from tracebraid.filesystem.compression import Compression, compression_of, unpack
from tracebraid.filesystem.interface import FileView, Kind, OpenFile
from tracebraid.filesystem.local import MemoryFile, read_standard_input
from tracebraid.filesystem.paths import name_of, shown, text_of
from tracebraid.model.finding import Issue

STDIN = "-"
"""The path that means standard input."""

_SQLITE = b"SQLite format 3\x00"
_NSYS_REPORTS = (".nsys-rep", ".qdrep")
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


class Source(Struct):
    """An opened input. A file is opened once; it is closed when nothing refers to its source any more.

    Args:
        file: the open file, or the data of standard input.
        compression: how it is compressed; None if it is not.
        damage: filled while reading: what stopped a compressed stream before its end, and after how many
            uncompressed bytes.
        done_bytes: how far `blocks` has come in the file as it lies.
    """

    file: OpenFile
    compression: Compression | None = None
    damage: list[Issue] = field(default_factory=list)
    done_bytes: int = 0

    @property
    def path(self) -> str:
        """Path as the caller named it, or as messages show it."""
        return self.file.path

    @property
    def all_damage(self) -> list[Issue]:
        """The damage of the stream, and of the member of an archive that it lies in."""
        return [*(self.file.damage if isinstance(self.file, MemberFile) else ()), *self.damage]

    @property
    def size_bytes(self) -> int:
        """Size as it lies, perhaps compressed; of the data itself for standard input."""
        return self.file.size_bytes

    @property
    def is_database(self) -> bool:
        """Return whether it is a file that SQLite can open."""
        return not isinstance(self.file, MemoryFile) and self.read(0, len(_SQLITE)) == _SQLITE

    def blocks(self, block_bytes: int = 1 << 22) -> Iterator[bytes]:
        """The uncompressed bytes, block by block; a damaged stream ends early and says so in `damage`."""
        if self.compression is not None:
            return unpack(lambda: self._packed_blocks(block_bytes // 8), self.compression, self.damage)
        return self._packed_blocks(block_bytes)

    def read(self, start: int, stop: int) -> bytes:
        """The bytes as they lie, from `start` up to `stop`; any thread may ask."""
        return self.file.read(start, stop)

    def whole(self) -> FileView | bytes | None:
        """Return the bytes for random access if uncompressed; None if `blocks` must be used."""
        return None if self.compression is not None else self.file.whole()

    def _packed_blocks(self, block_bytes: int) -> Iterator[bytes]:
        done = 0
        for block in self.file.blocks(block_bytes):
            done += len(block)
            self.done_bytes = done
            yield block


def open_source(path: str | Path, database: bool = False) -> Source:
    """Open a file, or standard input for `-`. A pipe with a name is read whole, like standard input.

    Args:
        path: the file.
        database: whether it may be what Nsight Systems exported; a report that is not exported is refused.
    """
    name = text_of(path)
    if database:
        _refuse_nsys_report(name)
    if name == STDIN:
        source = Source(MemoryFile("standard input", read_standard_input()))
    else:
        source = Source(file_system_of(name).open(name))
    head = source.read(0, _HEAD_BYTES)
    if not (database and source.is_database):
        _refuse_foreign(source.path, head)
    source.compression = compression_of(head)
    return source


def _refuse_nsys_report(path: str) -> None:
    if path.endswith(_NSYS_REPORTS) and file_system_of(path).kind(path) is Kind.FILE:
        raise InputError(
            shown(path),
            "a report of Nsight Systems can only be read by nsys itself",
            f"Run: nsys export --type sqlite {name_of(path)}",
        )


def _refuse_foreign(name: str, head: bytes) -> None:
    if not head:
        raise NotATraceError(name, "the file is empty", f"{_EXPECTED}; was the trace ever written?")
    for magic, what in _FOREIGN_FORMATS:
        if head.startswith(magic):
            raise NotATraceError(name, f"this looks like {what}", _EXPECTED)
