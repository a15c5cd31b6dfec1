"""The moments and activities of threads and streams, found by their times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.graph.dependency_graph import DependencyGraph

__all__ = ["Lanes", "expanded", "lanes_of"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Lanes:
    """The lanes of a graph.

    Args:
        lane: of each activity, its lane among those of all ranks; -1: it has none.
        first_ns: the earliest moment of the graph.
        long_ns: more than the graph is long.
        moments: moments by lane and time.
        moment_keys: lane and time of each, as a number.
        works: activities on devices, by lane and start.
        start_keys: lane and start of each.
        end_keys: lane and latest end so far.
    """

    lane: _Ints
    first_ns: int
    long_ns: int
    moments: _Ints
    moment_keys: _Ints
    works: _Ints
    start_keys: _Ints
    end_keys: _Ints

    def key(self, lane: _Ints, time_ns: _Ints) -> _Ints:
        """Lane and time as a number; times outside of the graph are moved to its bounds."""
        inside = np.clip(time_ns - self.first_ns, 0, self.long_ns - 1)
        found: _Ints = lane * self.long_ns + inside
        return found

    def moments_within(self, lane: _Ints, start_ns: _Ints, end_ns: _Ints) -> tuple[_Ints, _Ints]:
        """The moments of each interval behind its start, up to its end: the interval, and the moment."""
        low = np.searchsorted(self.moment_keys, self.key(lane, start_ns), side="right")
        high = np.searchsorted(self.moment_keys, self.key(lane, end_ns), side="right")
        interval, position = expanded(low, high)
        return interval, self.moments[position]

    def works_within(self, lane: _Ints, start_ns: _Ints, end_ns: _Ints) -> tuple[_Ints, _Ints]:
        """The device work that runs in each interval: the interval, and the activity."""
        low = np.searchsorted(self.end_keys, self.key(lane, start_ns), side="right")
        high = np.searchsorted(self.start_keys, self.key(lane, end_ns), side="left")
        interval, position = expanded(low, high)
        return interval, self.works[position]


def lanes_of(graph: DependencyGraph) -> Lanes:
    """The lanes of a graph."""
    table = graph.activities
    known = pl.col("lane").is_not_null() & pl.col("rank").is_not_null()
    code = pl.when(known).then(pl.struct("rank", "lane").rank("dense").cast(pl.Int64)).otherwise(-1)
    lane = table.select(code.alias("code")).to_series().to_numpy()
    times = graph.moments.time_ns
    first_ns = int(times.min()) if len(times) else 0
    long_ns = int(times.max()) - first_ns + 2 if len(times) else 1
    of_moment = lane[graph.moments.activity]
    moment_keys = of_moment * long_ns + (times - first_ns)
    moments = np.argsort(moment_keys, kind="stable")
    works = np.flatnonzero(table.get_column("stream").is_not_null().to_numpy() & (lane >= 0))
    start, end = (lane[works] * long_ns + times[graph.moment_of[works, point]] - first_ns for point in (0, 1))
    order = np.argsort(start, kind="stable")
    ends = np.maximum.accumulate(end[order]) if len(order) else end
    return Lanes(lane, first_ns, long_ns, moments, moment_keys[moments], works[order], start[order], ends)


def expanded(low: _Ints, high: _Ints) -> tuple[_Ints, _Ints]:
    """Each number from `low` up to `high` of each row: the row, and the number."""
    count = np.maximum(high - low, 0)
    row = np.repeat(np.arange(len(count)), count)
    return row, low[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
