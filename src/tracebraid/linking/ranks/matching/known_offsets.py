"""How far ranks' clocks are apart, as far as groups that were matched say it."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["KnownOffsets"]


class KnownOffsets:
    """Offsets of ranks' clocks; ranks that no group connects have none against each other.

    Args:
        first: what to add to each rank's times to be on the clock of some rank, in ns.
    """

    def __init__(self, first: Mapping[int, int]) -> None:
        # Of each rank the ranks that it is connected with, which share this mapping, with their offsets.
        self._of: dict[int, dict[int, int]] = {key: dict(first) for key in first}

    def between(self, rank: int, other: int) -> int | None:
        """What to add to a rank's times to be on the other's clock; None: unknown."""
        known = self._of.get(rank, {})
        return known[rank] - known[other] if other in known else None

    def add(self, offsets: Mapping[int, int]) -> None:
        """Connect ranks, by what to add to the times of each to be on the clock of some rank of them.

        What was known before stays.
        """
        for rank, offset in offsets.items():
            connected = self._of.setdefault(rank, {rank: 0})
            anchor = next(iter(offsets))
            base = self._of[anchor]
            if connected is base:
                continue
            moved = base[anchor] - offsets[anchor] + offset - connected[rank]
            for other, known in connected.items():
                base[other] = known + moved
                self._of[other] = base
