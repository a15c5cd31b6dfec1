"""Are all ranks of the world there, and of one run?"""

from __future__ import annotations

from collections.abc import Mapping

from tracebraid.model.finding import Finding

__all__ = ["rank_findings"]

_SHOWN = 8
"""How many missing ranks a finding names."""


def rank_findings(world_sizes: Mapping[int, int | None], path: str) -> list[Finding]:
    """Ranks that are missing from the world, and worlds that differ.

    Args:
        world_sizes: each rank that is there, and the number of ranks that its trace states; None where it states none.
        path: the folder.
    """
    stated = {rank: size for rank, size in world_sizes.items() if size is not None}
    if not stated:
        return []
    sizes = sorted(set(stated.values()))
    found = []
    if len(sizes) > 1:
        text = f"traces state worlds of {', '.join(map(str, sizes))} ranks"
        found.append(Finding("world-differs", text, path))
    size = sizes[-1]
    beyond = [rank for rank in world_sizes if rank >= size]
    if beyond:
        text = f"rank {beyond[0]} is beyond the world of {size} ranks"
        found.append(Finding("world-differs", text, path, count=len(beyond)))
    missing = [rank for rank in range(size) if rank not in world_sizes]
    if missing:
        shown = ", ".join(map(str, missing[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
        text = f"of {size} ranks, {len(missing)} are missing: {shown}"
        found.append(Finding("rank-missing", text, path, count=len(missing)))
    return found
