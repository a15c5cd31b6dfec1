"""`FileSystem` and `OpenFile`: what everything that lists folders or reads files needs, wherever they lie."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from tracebraid.filesystem.file_view import FileView

__all__ = ["Entry", "FileSystem", "Kind", "OpenFile"]


class Kind(Enum):
    """What a path leads to."""

    FILE = "file"
    FOLDER = "folder"
    OTHER = "other"
    """A pipe, a device, a link to nothing."""
    ABSENT = "absent"


@dataclass(frozen=True)
class Entry:
    """Something in a folder: its name, what it is, and whether a link leads there."""

    name: str
    kind: Kind
    is_link: bool = False


class OpenFile(Protocol):
    """A file that is open for reading; any thread may read. It is closed when nothing refers to it any more."""

    @property
    def path(self) -> str:
        """As messages name it."""
        ...

    @property
    def size_bytes(self) -> int:
        """Its size when it was opened."""
        ...

    @property
    def version(self) -> str:
        """What a server calls this state of the file, such as its ETag; "" where nothing does."""
        ...

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from `start` up to `stop`; fewer where the file ends before.

        Raises:
            InputError: they cannot be read.
        """
        ...

    def blocks(self, block_bytes: int) -> Iterator[bytes]:
        """The whole file from its start, in blocks of at most about that many bytes.

        Raises:
            InputError: it cannot be read to its end.
        """
        ...

    def whole(self) -> FileView | bytes | None:
        """The file as bytes that can be read in any order; None where it is to be read by `blocks`."""
        ...


class FileSystem(Protocol):
    """Lists folders and opens files. Paths are strings, as `paths.joined` makes them."""

    @property
    def requests_at_once(self) -> int:
        """How many files are worth opening at the same time: more than 1 where each costs a wait."""
        ...

    def kind(self, path: str) -> Kind:
        """What a path leads to.

        Raises:
            InputError: that cannot be found out.
        """
        ...

    def entries(self, folder: str) -> list[Entry]:
        """What lies in a folder, in the order of names.

        Raises:
            InputError: it is no folder, or cannot be listed.
        """
        ...

    def real_path(self, path: str) -> str:
        """The path without links: two paths of one folder have the same.

        Raises:
            InputError: that cannot be found out.
        """
        ...

    def size_bytes(self, path: str) -> int:
        """The size of a file; on disk it is not opened for that.

        Raises:
            InputError: it is not there, or is a folder.
        """
        ...

    def open(self, path: str) -> OpenFile:
        """Open a file.

        Raises:
            InputError: it is not there, is a folder, or cannot be read.
        """
        ...
