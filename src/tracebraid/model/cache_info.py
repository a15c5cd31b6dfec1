"""`CacheInfo`: what a cache of traces holds."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CacheInfo"]


@dataclass(frozen=True)
class CacheInfo:
    """What a cache of traces holds.

    Args:
        folder: where it lies.
        ranks: how many ranks are in it.
        size_bytes: of all of them.
        limit_bytes: the size from which on those are deleted that were not used for longest.
    """

    folder: str
    ranks: int
    size_bytes: int
    limit_bytes: int
