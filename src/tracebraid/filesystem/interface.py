"""`FileSystem` and `OpenFile`: what everything that lists folders or reads files needs, wherever they lie."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from typing import BinaryIO, Protocol, TypeAlias, TypeVar, cast

from msgspec import Struct

from tracebraid.errors import InputError

T = TypeVar("T")

_WINDOW_BYTES = 1 << 20
"""Maximum bytes read at a time for searching."""
_FIRST_WINDOW_BYTES = 1 << 14
"""Bytes read first for a search forward; the next windows are larger. The end of an event is near."""
_OVERLAP_BYTES = 1 << 16
"""Maximum overhang of a match beyond its window; longer ones, of white space, are not found."""


class FileView(Struct, frozen=True, eq=False):
    """A file.

    Args:
        path: as messages name it.
        size_bytes: when it was opened.
        read: returns the bytes of a range; fewer at the end of the file.
    """

    path: str
    size_bytes: int
    read: Callable[[int, int], bytes]

    def __len__(self) -> int:
        return self.size_bytes

    def __getitem__(self, part: slice) -> bytes:
        """The bytes of a slice."""
        start, stop, _ = part.indices(self.size_bytes)
        return whole_range(self.path, self.read(start, stop), stop - start) if start < stop else b""


Viewed: TypeAlias = FileView | bytes | bytearray
"""Types that can be sliced and searched."""


def whole_range(path: str, data: bytes, size_bytes: int) -> bytes:
    """Return the bytes read from a range if they are complete."""
    if len(data) < size_bytes:
        advice = "Read it when its writer has ended, or read a copy"
        raise InputError(path, "it became shorter while it was read", advice)
    return data


def matches(pattern: re.Pattern[bytes], view: Viewed, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each match of a pattern between two offsets, in order."""
    if not isinstance(view, FileView):
        yield from (match.span() for match in pattern.finditer(view, start, stop))
        return
    window = _FIRST_WINDOW_BYTES
    while start < stop:
        window = min(window, _WINDOW_BYTES)
        data = view[start : min(stop, start + window + _OVERLAP_BYTES)]
        last = start + len(data) == stop
        done = len(data) if last else window
        for match in pattern.finditer(data):
            if match.start() >= done:
                break
            yield start + match.start(), start + match.end()
            done = max(done, match.end())
        start += done
        window *= 8


def matches_from_end(pattern: re.Pattern[bytes], view: Viewed, low: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each match of a pattern after an offset, last match first."""
    upper = len(view)
    while upper > low:
        begin = max(low, upper - _WINDOW_BYTES)
        data = view[begin : upper + _OVERLAP_BYTES]
        found = [match.span() for match in pattern.finditer(data) if match.start() < upper - begin]
        yield from ((begin + start, begin + end) for start, end in reversed(found))
        upper = begin


def read_ahead(parts: Iterator[T]) -> Iterator[T]:
    """Yield the parts of a file, each read in another thread while the caller works on the one before it."""
    with ThreadPoolExecutor(1) as executor:
        ahead = executor.submit(next, parts, None)
        while (part := ahead.result()) is not None:
            ahead = executor.submit(next, parts, None)
            yield part


class Kind(Enum):
    """Kind of a path's target."""

    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"
    """A pipe, a device, a link to nothing."""
    ABSENT = "absent"


class Entry(Struct, frozen=True):
    """An entry of a folder: name, kind, and whether it is a link."""

    name: str
    kind: Kind
    is_link: bool = False


class OpenFile(Protocol):
    """A file open for reading by any thread. It is closed when unreferenced."""

    @property
    def path(self) -> str:
        """Path as messages show it."""
        ...

    @property
    def size_bytes(self) -> int:
        """Its size when it was opened."""
        ...

    @property
    def version(self) -> str:
        """Server's identifier of this state of the file, such as its ETag; "" if unknown."""
        ...

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from `start` up to `stop`; fewer where the file ends before."""
        ...

    def blocks(self, block_bytes: int) -> Iterator[bytes]:
        """The whole file from its start, in blocks of at most about that many bytes."""
        ...

    def whole(self) -> FileView | bytes | None:
        """Return the file for random access; None if it must be read by `blocks`."""
        ...


class FileSystem(Protocol):
    """Lists folders and opens files. Paths are strings, as `paths.joined` makes them."""

    @property
    def requests_at_once(self) -> int:
        """Return how many files are worth opening at the same time: more than 1 where each costs a wait."""
        ...

    def kind(self, path: str) -> Kind:
        """Kind of a path's target."""
        ...

    def entries(self, folder: str) -> list[Entry]:
        """List a folder, in the order of names."""
        ...

    def real_path(self, path: str) -> str:
        """The path without links: two paths of one folder have the same."""
        ...

    def size_bytes(self, path: str) -> int:
        """The size of a file; on disk it is not opened for that."""
        ...

    def open(self, path: str) -> OpenFile:
        """Open a file."""
        ...


_BUFFER_BYTES = 1 << 20
"""Minimum bytes of a read; each read of a remote file costs a request."""


def file_object(file: OpenFile) -> BinaryIO:
    """A file object that reads ranges of an open file, and can seek."""
    return cast("BinaryIO", io.BufferedReader(_Raw(file), _BUFFER_BYTES))


class _Raw(io.RawIOBase):
    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.size_bytes}[whence]
        if base + offset < 0:
            raise ValueError(f"{base + offset} lies before the start of the file")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(self._position, self._position + len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)
