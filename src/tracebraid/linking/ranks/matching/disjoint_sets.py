"""Disjoint sets of numbers, which joins merge."""

from __future__ import annotations


class DisjointSets:
    """Numbers from 0 on, each in a set of its own until it is joined with another.

    Args:
        count: how many numbers.
    """

    def __init__(self, count: int) -> None:
        self._parent = list(range(count))

    def root(self, item: int) -> int:
        """Return the root of an item's set."""
        while self._parent[item] != item:
            self._parent[item] = self._parent[self._parent[item]]
            item = self._parent[item]
        return item

    def join(self, first: int, second: int) -> None:
        """Merge two sets; the lower root becomes the root."""
        low, high = sorted((self.root(first), self.root(second)))
        self._parent[high] = low
