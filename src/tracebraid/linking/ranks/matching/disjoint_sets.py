"""Sets that are joined, two at a time."""

from __future__ import annotations

__all__ = ["DisjointSets"]


class DisjointSets:
    """Numbers from 0 on, each in a set of its own until it is joined with another.

    Args:
        count: how many numbers.
    """

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def root(self, item: int) -> int:
        """The number that stands for the set of an item."""
        while self._parent[item] != item:
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item

    def join(self, first: int, second: int) -> None:
        """Make one set of two; the lower root stands for it."""
        low, high = sorted((self.root(first), self.root(second)))
        self._parent[high] = low
