"""What host events call, and what device work is launched in them."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.graph.codes import EdgeKind, Point
from tracebraid.model.graph.dependency_graph import DependencyGraph

__all__ = ["host_moments", "launched", "launched_by", "with_nested"]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


def host_moments(graph: DependencyGraph) -> tuple[_Ints, _Ints]:
    """The moments of all threads, thread by thread, each in its order; and the thread of each, a number."""
    table = graph.activities.select(
        pl.col("stream").is_null() & pl.col("lane").is_not_null() & pl.col("rank").is_not_null(),
        thread=pl.struct("rank", "lane").rank("dense"),
    )
    is_host, thread = (table.get_column(name).to_numpy() for name in ("stream", "thread"))
    moments = np.flatnonzero(is_host[graph.moments.activity])
    of_moment = thread[graph.moments.activity[moments]].astype(np.int64)
    order = np.argsort(of_moment, kind="stable")
    return moments[order], of_moment[order]


def with_nested(graph: DependencyGraph, chosen: _Bools) -> _Bools:
    """The chosen activities, all that host events among them call, and the device work that is launched there."""
    moments = host_moments(graph)[0]
    activity = graph.moments.activity[moments]
    is_start = graph.moments.point[moments] == Point.START
    opens = np.where(chosen[activity], np.where(is_start, 1, -1), 0)
    # Events that cross a thread's end do not exist: the sum is 0 where a thread begins.
    depth = np.cumsum(opens)
    found: _Bools = chosen.copy()
    found[activity[is_start & (depth > 0)]] = True
    found |= launched(graph, found)
    return found


def launched_by(graph: DependencyGraph) -> _Ints:
    """The call that launched each activity; -1: none is known."""
    edges = graph.edges
    of_launch = np.flatnonzero(edges.kind == EdgeKind.LAUNCH)
    found = np.full(graph.activities.height, -1, dtype=np.int64)
    work = graph.moments.activity[graph.after[of_launch]]
    found[work] = graph.moments.activity[edges.before[of_launch]]
    return found


def launched(graph: DependencyGraph, calls: _Bools) -> _Bools:
    """The device work that was launched by some activities."""
    by = launched_by(graph)
    found: _Bools = (by >= 0) & calls[np.maximum(by, 0)]
    return found
