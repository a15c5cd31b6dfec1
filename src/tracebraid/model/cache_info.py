"""`CacheInfo`: what a cache of traces holds."""

from __future__ import annotations

from msgspec import Struct


class CacheInfo(Struct, frozen=True):
    """Content of a cache of traces.

    Args:
        folder: its folder.
        ranks: number of ranks.
        size_bytes: total size.
        limit_bytes: size limit, beyond which the least recently used ranks are deleted.
    """

    folder: str
    ranks: int
    size_bytes: int
    limit_bytes: int
