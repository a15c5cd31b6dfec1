"""`SourceFile`: a file that a rank was read from, and what tells whether it is still the same."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SourceFile"]


@dataclass(frozen=True)
class SourceFile:
    """A file that a rank was read from.

    Args:
        path: as it was named.
        size_bytes: its size; None where it was not read.
        mtime_ns: when it was changed last, in ns on the unix clock; None where that is unknown.
        sha256: of its content; None where it was not read, or lies on a server that names its version.
        version: what a server calls this state of it, such as its ETag; None for a file on disk.
    """

    path: str
    size_bytes: int | None = None
    mtime_ns: int | None = None
    sha256: str | None = None
    version: str | None = None
