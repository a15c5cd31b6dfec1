"""Where small ranks are asked: in this process as long as they take no time, else in others."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from tracebraid import clock
from tracebraid.engine.automatic import Automatic, cores
from tracebraid.model.engine import RankCost
from tracebraid.model.rank_files import Progress, RankFiles

_RANKS = 80


@dataclass(frozen=True)
class Naps:
    """Work that takes another time than its estimate says."""

    rank_s: float
    estimate_s: float = 0.1

    def cost(self, files: RankFiles) -> RankCost:
        return RankCost(1, self.estimate_s)

    def with_processes(self, processes: int) -> Naps:
        return self

    def __call__(self, files: RankFiles, progress: Progress | None) -> tuple[int, int]:
        clock.pause(self.rank_s)
        return files.rank, os.getpid()


def asked(work: Naps) -> tuple[list[int], list[int], list[float]]:
    """The ranks, the processes in which they were asked, and the progress."""
    shares: list[float] = []
    files = [RankFiles(number, f"{number}.json", None) for number in range(_RANKS)]
    found = [outcome.value() for outcome in Automatic().outcomes(work, files, shares.append)]
    return [rank for rank, _ in found], [process for _, process in found], shares


@pytest.mark.skipif(cores() < 2, reason="a pool takes two cores")
@pytest.mark.usefixtures("counted_clock")
def test_ranks_that_take_less_than_estimated_stay_in_this_process() -> None:
    ranks, processes, shares = asked(Naps(0.0))
    assert ranks == list(range(_RANKS))
    assert set(processes) == {os.getpid()}
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.skipif(cores() < 2, reason="a pool takes two cores")
@pytest.mark.usefixtures("counted_clock")
def test_the_others_go_to_a_pool_where_the_first_took_long() -> None:
    ranks, processes, shares = asked(Naps(0.05))
    assert ranks == list(range(_RANKS))
    few = processes.count(os.getpid())
    assert 1 < few < 10
    assert processes[:few] == [os.getpid()] * few
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
