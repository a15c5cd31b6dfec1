"""How the memory and the cores of this machine are shared among the ranks in flight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracebraid.engine.memory import available_bytes, cores
from tracebraid.engine.schedule import Limits
from tracebraid.model.engine import RankCost, RankWork, ScalableWork
from tracebraid.model.rank_files import RankFiles

__all__ = ["Share", "costs_of", "scaled", "share_of"]

_WORKER_BYTES = 150 << 20
"""What a worker takes without a rank: Python and the libraries; see docs/engines.md."""

_UNKNOWN = RankCost(peak_bytes=1 << 30, seconds=4.0)
"""What a rank is taken to cost where nothing is known of its files: as much as one of 100 MB of JSON."""

_LEFT_FREE = 0.1
"""The share of the available memory that is left to the answers of the ranks and to other programs."""


@dataclass(frozen=True)
class Share:
    """How many workers there are, and what each may use.

    Args:
        workers: how many work at once.
        threads: of each, for computing and for decoding a file.
        budget_bytes: the memory of all ranks in flight together.
    """

    workers: int
    threads: int
    budget_bytes: int

    @property
    def limits(self) -> Limits:
        """The limits of a run."""
        return Limits(self.budget_bytes, self.workers)


def costs_of(work: RankWork[object], ranks: Sequence[RankFiles]) -> list[RankCost]:
    """What the work on each rank takes in a worker of its own, as estimated from its files.

    Args:
        work: what is done for each.
        ranks: the files of each.
    """
    known = [work.cost(files) if isinstance(work, ScalableWork) else None for files in ranks]
    costs = [_UNKNOWN if cost is None else cost for cost in known]
    return [RankCost(_WORKER_BYTES + cost.peak_bytes, cost.seconds) for cost in costs]


def share_of(peaks_bytes: Sequence[int], most: int | None = None) -> Share:
    """As many workers as there are cores, but no more than there are ranks, and than memory holds of the smallest.

    Args:
        peaks_bytes: the memory that a worker takes at most for each rank.
        most: how many workers there are at most; None: as many as there are cores.
    """
    budget_bytes = int(available_bytes() * (1 - _LEFT_FREE))
    fitting, held_bytes = 0, 0
    for peak in sorted(peaks_bytes):
        held_bytes += peak
        fitting += held_bytes <= budget_bytes
    workers = max(1, min(most or cores(), fitting))
    return Share(workers, max(1, cores() // workers), budget_bytes)


def scaled(work: RankWork[object], threads: int) -> RankWork[object]:
    """The work, which decodes a file with no more processes than it may use threads."""
    return work.with_processes(threads) if isinstance(work, ScalableWork) else work
