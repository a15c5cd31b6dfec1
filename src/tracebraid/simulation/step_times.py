"""When the steps start and end, from the times of a graph's moments: measured, or of one or many replays."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["StepMoments", "StepTimes", "job_step_times", "rank_step_times", "step_moments"]

_Ints = NDArray[np.int64]

_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, eq=False)
class StepMoments:
    """The moments between which steps lie: an entry for each row of `GRAPH_STEPS`.

    Args:
        names: the steps, in order; null: the whole trace, which has no steps.
        ranks: the ranks, ascending.
        step: of each row, its entry of `names`.
        rank: of each row, its entry of `ranks`.
        start: the moment at which the step starts on the rank.
        host_end: the moment at which it ends on the host; where there is none, `start`.
        device_end: the moment at which its device work ends; where there is none, `host_end`.
    """

    names: tuple[str | None, ...]
    ranks: tuple[int, ...]
    step: _Ints
    rank: _Ints
    start: _Ints
    host_end: _Ints
    device_end: _Ints

    @property
    def chosen(self) -> _Ints:
        """The moments that are needed, ascending: all that a replay of many scenarios has to keep."""
        return np.unique(np.concatenate([self.start, self.host_end, self.device_end]))

    def of_chosen(self) -> StepMoments:
        """The same where only the times of `chosen` are at hand: positions in it instead of moments."""
        chosen = self.chosen
        start, host, device = (
            np.searchsorted(chosen, moments) for moments in (self.start, self.host_end, self.device_end)
        )
        return replace(self, start=start, host_end=host, device_end=device)


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Times of steps in ns; the axes before the last are those of the scenarios.

    Args:
        start_ns: when each starts.
        end_ns: when it ends: the last of its host and its device.
        time_ns: from the end of the step before, if that is not later, to its own end; of a first step its span.
    """

    start_ns: _Ints
    end_ns: _Ints
    time_ns: _Ints

    @property
    def span_ns(self) -> _Ints:
        """From start to end."""
        return self.end_ns - self.start_ns


def step_moments(steps: pl.DataFrame) -> StepMoments:
    """The moments between which the steps of a graph lie.

    Args:
        steps: `GRAPH_STEPS`, in the order of the steps.
    """
    names = steps.get_column("step").unique(maintain_order=True)
    ranks = steps.get_column("rank").unique().sort()
    start = steps.get_column("start_moment")
    host = steps.get_column("host_end_moment").fill_null(start)
    device = steps.get_column("device_end_moment").fill_null(host)
    number = pl.DataFrame({"step": names}).with_row_index("number")
    step = steps.select("step").join(number, on="step", how="left", nulls_equal=True, maintain_order="left")
    return StepMoments(
        tuple(names.to_list()),
        tuple(ranks.to_list()),
        step.get_column("number").cast(pl.Int64).to_numpy(),
        np.searchsorted(ranks.to_numpy(), steps.get_column("rank").to_numpy()),
        *(moments.cast(pl.Int64).to_numpy() for moments in (start, host, device)),
    )


def rank_step_times(times_ns: _Ints, moments: StepMoments) -> StepTimes:
    """The times of each step on each rank: an entry for each row of `GRAPH_STEPS`.

    Args:
        times_ns: of each moment (of `moments.chosen` with `moments.of_chosen()`), in the last axis.
        moments: where steps start and end.
    """
    start, end = _bounds(times_ns, moments)
    grid = np.full((*end.shape[:-1], len(moments.ranks), len(moments.names)), _NEVER, dtype=np.int64)
    grid[..., moments.rank, moments.step] = end
    before = _ends_before(grid)[..., moments.rank, moments.step]
    return StepTimes(start, end, _times(start, end, before))


def job_step_times(times_ns: _Ints, moments: StepMoments) -> StepTimes:
    """The times of each step of the whole job: an entry for each of `moments.names`.

    It starts with the first of its ranks, and ends with the last.

    Args:
        times_ns: of each moment (of `moments.chosen` with `moments.of_chosen()`), in the last axis.
        moments: where steps start and end.
    """
    starts, ends = _bounds(times_ns, moments)
    shape = (*ends.shape[:-1], len(moments.names))
    start = np.full(shape, np.iinfo(np.int64).max, dtype=np.int64)
    end = np.full(shape, _NEVER, dtype=np.int64)
    for row, step in enumerate(moments.step):
        np.minimum(start[..., step], starts[..., row], out=start[..., step])
        np.maximum(end[..., step], ends[..., row], out=end[..., step])
    return StepTimes(start, end, _times(start, end, _ends_before(end)))


def _bounds(times_ns: _Ints, moments: StepMoments) -> tuple[_Ints, _Ints]:
    ends = np.maximum(times_ns[..., moments.host_end], times_ns[..., moments.device_end])
    return times_ns[..., moments.start], ends


def _ends_before(ends: _Ints) -> _Ints:
    """The last end of all steps before each."""
    before = np.full_like(ends, _NEVER)
    np.maximum.accumulate(ends[..., :-1], axis=-1, out=before[..., 1:])
    return before


def _times(start: _Ints, end: _Ints, before: _Ints) -> _Ints:
    return np.maximum(end - np.where(before == _NEVER, start, before), 0)
