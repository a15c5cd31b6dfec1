"""Device work that is launched as graphs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.graph.codes import EdgeKind, Point
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.changes.nesting import host_moments, launched_by
from tracebraid.simulation.changes.work import with_work

__all__ = ["launched_as_graphs"]

_Bools = NDArray[np.bool_]
_Ints = NDArray[np.int64]


def launched_as_graphs(graph: DependencyGraph, chosen: _Bools) -> DependencyGraph:
    """The chosen device work is launched by one call per region, the first; the host does nothing else meanwhile.

    A region is all that a thread launches in a step from one wait for a device to the next. From the end of its first
    call to the end of its last the host's work is gone: calls, ops, Python. Latencies stay those of single launches.

    Args:
        graph: the graph.
        chosen: whether each activity is meant.

    Raises:
        ArgumentError: no region launches more than one of them.
    """
    by = launched_by(graph)
    work = np.flatnonzero(chosen & (by >= 0))
    calls = np.unique(by[work])
    moments, thread = host_moments(graph)
    rank = np.full(len(graph.moments), -1, dtype=np.int64)
    rank[moments] = np.arange(len(moments))
    first, last = _bounds(graph, calls, rank, _regions(graph, calls, rank, thread))
    if (first == last).all():
        raise ArgumentError(
            "no thread launches several of the selected kernels between two waits for a device"
        )
    edges, after = graph.edges, graph.after
    captured = _captured(graph, rank, first, last)
    quiet = (edges.kind == EdgeKind.HOST) & captured[after]
    first_of = np.arange(graph.activities.height, dtype=np.int64)
    first_of[calls] = first
    moved = (edges.kind == EdgeKind.LAUNCH) & chosen[graph.moments.activity[after]]
    start = graph.moment_of[first_of[graph.moments.activity[edges.before]], Point.START]
    before = np.where(moved, start, edges.before).astype(np.int32)
    found = with_work(graph, np.where(quiet, 0, edges.work_ns))
    return replace(found, edges=replace(found.edges, before=before))


def _regions(graph: DependencyGraph, calls: _Ints, rank: _Ints, thread: _Ints) -> _Ints:
    """A number for each call, the same for those of a region."""
    edges, after = graph.edges, graph.after
    syncs = np.zeros(len(thread), dtype=np.int64)
    waits = rank[after[edges.kind == EdgeKind.SYNC]]
    syncs[waits[waits >= 0]] = 1
    starts = rank[graph.moment_of[calls, Point.START]]
    keys = graph.activities.select("step")[pl.Series(calls)].with_columns(
        pl.Series("thread", thread[starts]), pl.Series("waits", np.cumsum(syncs)[starts])
    )
    found: _Ints = keys.select(pl.struct("step", "thread", "waits").rank("dense")).to_series().to_numpy()
    return found.astype(np.int64) - 1


def _bounds(graph: DependencyGraph, calls: _Ints, rank: _Ints, region: _Ints) -> tuple[_Ints, _Ints]:
    """The first and the last call of the region of each call."""
    order = np.argsort(rank[graph.moment_of[calls, Point.START]], kind="stable")
    count = int(region.max(initial=-1)) + 1
    first, last = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    last[region[order]] = calls[order]
    first[region[order[::-1]]] = calls[order[::-1]]
    return first[region], last[region]


def _captured(graph: DependencyGraph, rank: _Ints, first: _Ints, last: _Ints) -> _Bools:
    """Whether each moment lies behind the first call of a region and not behind the last."""
    opens = np.zeros(len(graph.moments) + 1, dtype=np.int64)
    first, last = np.unique(np.stack([first, last]), axis=1)
    np.add.at(opens, rank[graph.moment_of[first, Point.END]] + 1, 1)
    np.add.at(opens, rank[graph.moment_of[last, Point.END]] + 1, -1)
    inside = np.cumsum(opens) > 0
    found: _Bools = (rank >= 0) & inside[np.maximum(rank, 0)]
    return found
