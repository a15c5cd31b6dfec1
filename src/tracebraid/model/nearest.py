"""Which linked ancestor is next, on either side of the links?"""

from __future__ import annotations

from collections.abc import Collection, Mapping

__all__ = ["nearest"]


def nearest(start: int | None, parent_of: Mapping[int, int | None], known: Collection[int]) -> int | None:
    """The first of `start`, its parent, the parent's parent and so on that is known; None where none is."""
    while start is not None and start not in known:
        start = parent_of.get(start)
    return start
