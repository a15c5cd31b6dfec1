"""`FileView`: a file as bytes of which slices are read when they are asked for.

It is not mapped into memory: a process that touches a mapped page of a file which became shorter is killed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from tracebraid.errors import InputError

__all__ = ["FileView", "Viewed", "matches", "matches_from_end", "whole_range"]

_WINDOW_BYTES = 1 << 20
"""So much is read at a time to search it."""
_OVERLAP_BYTES = 1 << 16
"""A match that begins in a window ends at most so far behind it; a longer one, of white space, is not found."""


@dataclass(frozen=True, eq=False)
class FileView:
    """A file.

    Args:
        path: as messages name it.
        size_bytes: when it was opened.
        read: gives the bytes from a start up to a stop; fewer where the file ends before.
    """

    path: str
    size_bytes: int
    read: Callable[[int, int], bytes]

    def __len__(self) -> int:
        return self.size_bytes

    def __getitem__(self, part: slice) -> bytes:
        """The bytes of a slice.

        Raises:
            InputError: the file became shorter since it was opened, or cannot be read.
        """
        start, stop, _ = part.indices(self.size_bytes)
        return whole_range(self.path, self.read(start, stop), stop - start) if start < stop else b""


Viewed: TypeAlias = FileView | bytes | bytearray
"""What can be sliced and searched."""


def whole_range(path: str, data: bytes, size_bytes: int) -> bytes:
    """What was read of a file, if it is all that it had there when it was opened.

    Raises:
        InputError: it is less.
    """
    if len(data) < size_bytes:
        advice = "Read it when its writer has ended, or read a copy"
        raise InputError(path, "it became shorter while it was read", advice)
    return data


def matches(pattern: re.Pattern[bytes], view: Viewed, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Where a pattern matches between two offsets, in order: start and end of each match."""
    if not isinstance(view, FileView):
        yield from (match.span() for match in pattern.finditer(view, start, stop))
        return
    while start < stop:
        data = view[start : min(stop, start + _WINDOW_BYTES + _OVERLAP_BYTES)]
        last = start + len(data) == stop
        done = len(data) if last else _WINDOW_BYTES
        for match in pattern.finditer(data):
            if match.start() >= done:
                break
            yield start + match.start(), start + match.end()
            done = max(done, match.end())
        start += done


def matches_from_end(pattern: re.Pattern[bytes], view: Viewed, low: int) -> Iterator[tuple[int, int]]:
    """Where a pattern matches behind an offset, the last match first: start and end of each."""
    upper = len(view)
    while upper > low:
        begin = max(low, upper - _WINDOW_BYTES)
        data = view[begin : upper + _OVERLAP_BYTES]
        found = [match.span() for match in pattern.finditer(data) if match.start() < upper - begin]
        yield from ((begin + start, begin + end) for start, end in reversed(found))
        upper = begin
