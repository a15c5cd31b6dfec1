"""`Automatic`: the engine that uses the process pool where that takes less time than this process alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tracebraid.engine.memory import cores
from tracebraid.engine.pickling import can_be_sent
from tracebraid.engine.pool.process_pool import ProcessPool
from tracebraid.engine.share import costs_of, share_of
from tracebraid.model.engine import InProcess, Outcome, RankWork
from tracebraid.model.rank_files import Progress, RankFiles

__all__ = ["Automatic"]

T = TypeVar("T")

_WORTH_S = 2.5
"""Work that takes less is done here: a worker takes a second of a core until it has loaded its libraries."""


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
    if len(ranks) < 2 or cores() < 2:
        return False
    costs = costs_of(work, ranks)
    takes_s = sum(cost.seconds for cost in costs)
    return takes_s > _WORTH_S and share_of([cost.peak_bytes for cost in costs]).workers > 1
