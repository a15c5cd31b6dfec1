"""The entry of a rank in the manifest, and whether a packed rank is still as it was written."""

from __future__ import annotations

from pathlib import Path

from tracebraid.errors import InputError
from tracebraid.store.layout import FORMAT_VERSION, rank_file, table_file
from tracebraid.store.manifest import PackOptions, RankContent, RankEntry
from tracebraid.store.sealed_json import read_sealed, sha256_of

__all__ = ["entry_of", "whole_rank"]


def entry_of(content: RankContent, whole: bytes) -> RankEntry:
    """The entry of a packed rank in the manifest.

    Args:
        content: what describes the rank.
        whole: the file of that.
    """
    return RankEntry(
        rank=content.rank,
        kineto=content.kineto,
        et=content.et,
        sha256=sha256_of(whole),
        size_bytes=len(whole) + sum(file.size_bytes for file in content.tables.values()),
        min_ns=content.timeline.min_ns,
        max_ns=content.timeline.max_ns,
        world_size=content.timeline.world_size,
        coverage=content.coverage,
        link_error=content.link_error,
    )


def whole_rank(store: Path, rank: int, options: PackOptions) -> RankEntry | None:
    """The entry of a rank that is packed with these options, all of whose files have their sizes; else None."""
    try:
        content, whole = read_sealed(rank_file(store, rank), RankContent)
    except InputError:
        return None
    if (content.format, content.rank, content.options) != (FORMAT_VERSION, rank, options):
        return None
    for name, stated in content.tables.items():
        path = table_file(store, name, rank)
        if path.is_symlink() or not path.is_file() or path.stat().st_size != stated.size_bytes:
            return None
    return entry_of(content, whole)
