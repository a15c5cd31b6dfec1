"""`Backend`: what a library that talks to servers does here; `remote_files` adds retries and checks to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from tracebraid.filesystem.interface import Entry

__all__ = ["Answer", "Backend", "Stat"]


@dataclass(frozen=True)
class Stat:
    """What a server says of a file.

    Args:
        size_bytes: its size.
        version: its ETag or time of change; another one says that it changed; "" where nothing tells.
    """

    size_bytes: int
    version: str = ""


@dataclass(frozen=True)
class Answer:
    """A server's answer to a request for a range of a file.

    Args:
        stat: what it says of the file now.
        body: the bytes from the start of the range on, as they arrive; they may go on after its end.
        close: ends the connection that they arrive by.
    """

    stat: Stat
    body: Iterator[bytes]
    close: Callable[[], None] = lambda: None


class Backend(Protocol):
    """Asks a server, once for each call; every method raises `Fault` where that fails."""

    @property
    def has_folders(self) -> bool:
        """Whether folders can be listed."""
        ...

    def stat(self, url: str) -> Stat:
        """What the server says of a file."""
        ...

    def fetch(self, url: str, start: int, stop: int) -> Answer:
        """A range of a file that is not empty."""
        ...

    def is_folder(self, url: str) -> bool:
        """Whether something lies below a URL."""
        ...

    def entries(self, url: str) -> list[Entry]:
        """What lies in a folder, in any order; nothing where there is no such folder."""
        ...
