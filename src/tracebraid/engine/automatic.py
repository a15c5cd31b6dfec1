"""`Automatic`: the engine that uses the process pool where that takes less time than this process alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tracebraid.engine.memory import cores
from tracebraid.engine.pickling import can_be_sent
from tracebraid.engine.pool.process_pool import ProcessPool
from tracebraid.engine.share import peaks_of, share_of
from tracebraid.model.engine import InProcess, Outcome, RankWork, ScalableWork
from tracebraid.model.rank_files import Progress, RankFiles

__all__ = ["Automatic"]

T = TypeVar("T")

_S_PER_BYTE = 4e-9
"""Time for each byte of a rank's peak: a summary of 54 MB of JSON takes 2 s; see `python -m benchmarks.engine`."""
_S_PER_RANK = 0.03
"""Time for each rank, however small; the same measurement."""
_WORTH_S = 1.5
"""Work that takes less is done here: a pool takes 0.5 s until its workers have loaded their libraries."""


@dataclass(frozen=True)
class Automatic:
    """Uses the process pool where several ranks are work for more than a moment, and this process otherwise.

    A question that cannot be sent to another process is asked in this one.
    """

    def outcomes(
        self, work: RankWork[T], ranks: Sequence[RankFiles], progress: Progress | None
    ) -> Iterator[Outcome[T]]:
        """See `Engine`."""
        pays = _pool_pays(work, ranks) and can_be_sent(work)
        engine = ProcessPool() if pays else InProcess()
        return engine.outcomes(work, ranks, progress)


def _pool_pays(work: RankWork[object], ranks: Sequence[RankFiles]) -> bool:
    if len(ranks) < 2 or cores() < 2 or not isinstance(work, ScalableWork):
        return False
    known_bytes = sum(work.peak_bytes(files) or 0 for files in ranks)
    takes_s = _S_PER_RANK * len(ranks) + _S_PER_BYTE * known_bytes
    return takes_s > _WORTH_S and share_of(peaks_of(work, ranks)).workers > 1
