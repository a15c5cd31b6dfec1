"""Are all ranks of the world there, and of one run?"""

from __future__ import annotations

from collections.abc import Mapping

from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCase, FindingCode

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
        found.append(Finding.of(FindingCode.WORLD_DIFFERS, path, sizes=", ".join(map(str, sizes))))
    size = sizes[-1]
    beyond = [rank for rank in world_sizes if rank >= size]
    if beyond:
        details = {"case": FindingCase.BEYOND_WORLD, "rank": beyond[0], "world_size": size}
        found.append(Finding(FindingCode.WORLD_DIFFERS, path, count=len(beyond), details=details))
    missing = [rank for rank in range(size) if rank not in world_sizes]
    if missing:
        shown = ", ".join(map(str, missing[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
        details = {"world_size": size, "missing": len(missing), "ranks": shown}
        found.append(Finding(FindingCode.RANK_MISSING, path, details=details))
    return found
