"""In which step does each interval of a thread or stream lie?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.graph.coverage.intervals import Intervals
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.dependency_graph import DependencyGraph

__all__ = ["steps_of_intervals"]

_Ints = NDArray[np.int64]


def steps_of_intervals(graph: DependencyGraph, found: Intervals, on_device: NDArray[np.bool_]) -> pl.Series:
    """The step of each interval; null: it is in none.

    Of a thread, that whose window holds its end: from behind the step's start to its end, of windows that overlap the
    last to start. Of a stream, that in which the work was issued with whose start or end it ends.

    Args:
        graph: the graph.
        found: its intervals.
        on_device: of each, whether it is of a stream.
    """
    names = graph.steps.get_column("step").drop_nulls().unique(maintain_order=True)
    if names.is_empty():
        return pl.Series([None], dtype=pl.String).new_from_index(0, len(found.moment))
    number = np.full(len(found.moment), -1, dtype=np.int64)
    numbers = {name: index for index, name in enumerate(names)}
    _on_host(graph, found, number, numbers)
    issued = graph.activities.select(
        as_text("step").replace_strict(numbers, default=-1, return_dtype=pl.Int64)
    ).to_series()
    number = np.where(on_device, issued.to_numpy()[graph.moments.activity[found.moment]], number)
    return names.gather(pl.Series(number).replace(-1, None))


def _on_host(graph: DependencyGraph, found: Intervals, number: _Ints, names: dict[str, int]) -> None:
    """Set the steps of the intervals in windows, of each thread or stream of the rank."""
    times, firsts = graph.moments.time_ns, np.flatnonzero(np.diff(found.track, prepend=-1))
    ends = np.append(firsts[1:], len(found.track))
    rank = graph.activities.get_column("rank").to_numpy()[graph.moments.activity[found.moment[firsts]]]
    windows = graph.steps.drop_nulls("step").with_columns(
        pl.Series("start_ns", times[graph.steps.drop_nulls("step").get_column("start_moment").to_numpy()])
    )
    for step, of_rank, start, end in (
        windows.sort("start_ns", maintain_order=True)
        .select("step", "rank", "start_moment", "host_end_moment")
        .iter_rows()
    ):
        for track in np.flatnonzero(rank == of_rank):
            here = times[found.moment[firsts[track] : ends[track]]]
            first, last = np.searchsorted(here, [times[start], times[end]], side="right")
            number[firsts[track] + first : firsts[track] + last] = names[step]
