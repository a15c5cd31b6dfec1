"""For which share of its time each activity of a device runs beside communication of its rank."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.graph.codes import ActivityKind, Point
from tracebraid.model.graph.dependency_graph import DependencyGraph

__all__ = ["communication_shares"]

_Ints = NDArray[np.int64]


def communication_shares(graph: DependencyGraph, times_ns: _Ints) -> NDArray[np.float64]:
    """Of each activity, the share of its time in which its rank communicates on a device; 0: none, or on no device.

    Communication includes the time in which it waits for others, as its kernel occupies the device.

    Args:
        graph: any.
        times_ns: of each moment, measured or replayed.
    """
    columns = graph.activities.select(
        pl.col("rank").rank("dense").fill_null(0).cast(pl.Int64),
        pl.col("stream").is_not_null().alias("device"),
        (pl.col("kind").cast(pl.String) == ActivityKind.COMMUNICATION.value).alias("communicates"),
    )
    rank, device, communicates = (columns.get_column(name).to_numpy() for name in columns.columns)
    earliest = times_ns.min(initial=0)
    length = times_ns.max(initial=0) - earliest + 1
    # The ranks one behind the other, so that one pass serves all.
    start, end = (
        times_ns[graph.moment_of[:, point]] - earliest + rank * length for point in (Point.START, Point.END)
    )
    low, high = _union(start[device & communicates], end[device & communicates])
    duration = end - start
    covered = _covered(end, low, high) - _covered(start, low, high)
    return np.where(device & ~communicates & (duration > 0), covered / np.maximum(duration, 1), 0.0)


def _union(start: _Ints, end: _Ints) -> tuple[_Ints, _Ints]:
    """Intervals that cover the same time, without overlap, in order."""
    order = np.argsort(start, kind="stable")
    start, latest = start[order], np.maximum.accumulate(end[order])
    new = np.ones(len(start), dtype=np.bool_)
    new[1:] = start[1:] > latest[:-1]
    last = np.append(np.flatnonzero(new)[1:] - 1, len(start) - 1) if len(start) else np.flatnonzero(new)
    return start[new], latest[last]


def _covered(moment: _Ints, low: _Ints, high: _Ints) -> _Ints:
    """How much of the time before each moment the intervals cover."""
    if not len(low):
        return np.zeros_like(moment)
    total = np.concatenate([[0], np.cumsum(high - low)])
    begun = np.searchsorted(low, moment, side="right")
    last = np.maximum(begun - 1, 0)
    return np.where(begun > 0, total[last] + np.minimum(moment, high[last]) - low[last], 0)
