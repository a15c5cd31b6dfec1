"""What a reader or a linker noticed and wants said: a located warning."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True)
class Finding:
    """Something in the input that is not as it should be, and what was done about it.

    Args:
        code: a stable short name for machines, such as `event-unreadable`.
        message: what was found and what was done with it.
        path: the file; "" where it is not one file's matter.
        where: the first locations in it ("byte 120", "event 7", "node 12"); "" where there is none.
        count: how many times it was found.
    """

    code: str
    message: str
    path: str = ""
    where: str = ""
    count: int = 1

    def __str__(self) -> str:
        """One line for people."""
        times = f" ({self.count:,} times)" if self.count > 1 else ""
        location = f"{self.path}, {self.where}" if self.path and self.where else self.path or self.where
        return f"{location + ': ' if location else ''}{self.message}{times}"
