"""`Automatic`: the engine that uses the process pool where that takes less time than this process alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, takewhile
from time import perf_counter
from typing import TypeVar

from tracebraid.engine.memory import cores
from tracebraid.engine.pickling import can_be_sent
from tracebraid.engine.pool.process_pool import ProcessPool
from tracebraid.engine.share import costs_of, share_of
from tracebraid.model.engine import InProcess, Outcome, RankCost, RankWork
from tracebraid.model.rank_files import Progress, RankFiles, RanksDone

__all__ = ["Automatic"]

T = TypeVar("T")

_WORTH_S = 2.5
"""Work that takes less is done here: a worker takes a second of a core until it has loaded its libraries."""
_TRIED_S = 0.5
"""Ranks that are estimated to take so long together are asked here first: a store may have their answers already."""


@dataclass(frozen=True)
class Automatic:
    """Uses the process pool where several ranks are work for more than a moment, and this process otherwise.

    Of small ranks the first are asked here, and what they took says how long the others will. A question that cannot be
    sent to another process is asked in this one.
    """

    def outcomes(
        self, work: RankWork[T], ranks: Sequence[RankFiles], progress: Progress | None
    ) -> Iterator[Outcome[T]]:
        """See `Engine`."""
        costs = costs_of(work, ranks)
        if not _pool_pays(sum(cost.seconds for cost in costs), costs):
            return InProcess().outcomes(work, ranks, progress)
        few = _tried(costs)
        if few:
            return _after_few(work, ranks, progress, few)
        engine = ProcessPool() if can_be_sent(work) else InProcess()
        return engine.outcomes(work, ranks, progress)


def _pool_pays(takes_s: float, costs: Sequence[RankCost]) -> bool:
    if len(costs) < 2 or cores() < 2 or takes_s <= _WORTH_S:
        return False
    return share_of([cost.peak_bytes for cost in costs]).workers > 1


def _tried(costs: Sequence[RankCost]) -> int:
    """How many ranks are asked here to see how long they take; 0: they are too large for that."""
    sums = accumulate(cost.seconds for cost in costs)
    few = sum(1 for _ in takewhile(lambda seconds: seconds <= _TRIED_S, sums))
    return few if few > 1 else 0


def _after_few(
    work: RankWork[T], ranks: Sequence[RankFiles], progress: Progress | None, few: int
) -> Iterator[Outcome[T]]:
    """Ask some ranks here, and the others where that takes less time, by what these took."""
    here = InProcess().outcomes(work, ranks, progress)
    took_s = []
    for _ in range(few):
        begin_s = perf_counter()
        outcome = next(here)
        took_s.append(perf_counter() - begin_s)
        yield outcome
        del outcome
    rest = ranks[few:]
    # The first rank loads what all of them need.
    rank_s = sum(took_s[1:]) / (few - 1)
    costs = [replace(cost, seconds=rank_s) for cost in costs_of(work, rest)]
    if _pool_pays(rank_s * len(rest), costs) and can_be_sent(work):
        update = None if progress is None else partial(_of_rest, progress, few, len(ranks))
        yield from ProcessPool().outcomes(work, rest, update)
    else:
        yield from here


def _of_rest(progress: Progress, few: int, ranks: int, share: float) -> None:
    """Convert the progress of the later ranks into that of all."""
    done = share.done if isinstance(share, RanksDone) else 0
    progress(RanksDone((few + share * (ranks - few)) / ranks, few + done, ranks))
