"""`ProcessPool`: the engine that works on several ranks at once, each in a process of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tracebraid.engine.pickling import work_bytes
from tracebraid.engine.pool.processes import WorkerProcesses
from tracebraid.engine.schedule import scheduled
from tracebraid.engine.share import costs_of, scaled, share_of
from tracebraid.model.engine import InProcess, Outcome, RankWork
from tracebraid.model.rank_files import Progress, RankFiles

__all__ = ["ProcessPool"]

T = TypeVar("T")


@dataclass(frozen=True)
class ProcessPool:
    """Works on as many ranks at once as memory and cores allow. Its workers end with the run.

    Args:
        workers: how many there are at most; None: as many as there are cores.
    """

    workers: int | None = None

    def outcomes(
        self, work: RankWork[T], ranks: Sequence[RankFiles], progress: Progress | None
    ) -> Iterator[Outcome[T]]:
        """See `Engine`. A single rank is worked on in this process, which may use all cores for it."""
        if len(ranks) < 2:
            return InProcess().outcomes(work, ranks, progress)
        peaks_bytes = [cost.peak_bytes for cost in costs_of(work, ranks)]
        share = share_of(peaks_bytes, self.workers)
        data = work_bytes(scaled(work, share.threads))
        return scheduled(ranks, peaks_bytes, WorkerProcesses(data, share.threads), share.limits, progress)
