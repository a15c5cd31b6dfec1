"""Kernels that are fused."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.rewiring import edge_list, with_edges, without_edges
from tracebraid.model.graph.codes import ActivityKind, EdgeKind, Point, Residual
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.changes.nesting import launched_by
from tracebraid.simulation.changes.work import on_time, whole_ns, with_work

__all__ = ["fused"]

_Bools = NDArray[np.bool_]
_Ints = NDArray[np.int64]


def fused(graph: DependencyGraph, chosen: _Bools, most: float, factor: float) -> DependencyGraph:
    """Chosen kernels that follow each other on a stream, in a step, become one: up to so many.

    It starts when the inputs of all are there, with the first's launch; it takes `factor` times what they took
    together. The calls that launched the others take no time, and gaps between them are gone. The ops of the host
    stay.

    Args:
        graph: the graph.
        chosen: whether each activity is meant.
        most: kernels that become one, at most.
        factor: duration of the fused kernel over the sum of those that it replaces: below 1 for bytes saved.

    Raises:
        ArgumentError: no two of them follow each other, or one waits for what another was needed for.
    """
    first = _first_of_fused(graph, chosen, int(most))
    kernels = np.flatnonzero(first >= 0)
    later = np.zeros(graph.activities.height, dtype=np.bool_)
    later[kernels] = first[kernels] != kernels
    if not later.any():
        raise ArgumentError("no two of the selected kernels follow each other on a stream within a step")
    fused_to = np.where(first >= 0, first, np.arange(len(first)))
    edges, moments = edge_list(graph), graph.moments
    owner, by = edges.activity, moments.activity[edges.after]
    of = moments.activity[edges.before]
    is_device = edges.kind == EdgeKind.DEVICE
    total = np.zeros(len(first), dtype=np.int64)
    np.add.at(total, fused_to[owner[is_device]], edges.work_ns[is_device])
    in_fused = (first >= 0) & (np.bincount(fused_to, minlength=len(first))[fused_to] > 1)
    becomes = is_device & in_fused[owner]
    work = edges.work_ns.copy()
    work[becomes] = whole_ns(np.where(later, 0.0, total * factor)[owner[becomes]])
    calls = np.zeros(len(first), dtype=np.bool_)
    calls[launched_by(graph)[later]] = True
    inside = later[by] & (fused_to[of] == fused_to[by]) & ~is_device
    work = np.where(inside | ((edges.kind == EdgeKind.HOST) & calls[owner]), 0, work)
    launches = (edges.kind == EdgeKind.LAUNCH) & later[by]
    is_start = moments.point[edges.after] == Point.START
    inputs = (edges.kind == EdgeKind.EVENT_WAIT) & later[by] & is_start & ~inside
    moved = edges[inputs]
    moved.after[:] = graph.moment_of[fused_to[by[inputs]], Point.START]
    late = later[moments.activity] & (moments.residual != Residual.BEFORE)
    return with_edges(without_edges(on_time(with_work(graph, work), late), launches | inputs), moved)


def _first_of_fused(graph: DependencyGraph, chosen: _Bools, most: int) -> _Ints:
    """The first kernel of those that each chosen kernel is fused with; -1 for what is not chosen."""
    table = graph.activities.select("rank", "lane", "step", pl.col("kind").cast(pl.String), "stream")
    device = np.flatnonzero(table.get_column("stream").is_not_null().to_numpy())
    keys = table.select(
        lane=pl.struct("rank", "lane").rank("dense").cast(pl.Int64),
        run=pl.struct("rank", "lane", "step").rank("dense"),
    )
    lane, run = (keys.get_column(name).to_numpy()[device] for name in keys.columns)
    order = np.lexsort((graph.moment_of[device, Point.START], lane))
    device, run = device[order], run[order]
    kernel = chosen[device] & (table.get_column("kind") == ActivityKind.KERNEL.value).to_numpy()[device]
    follows = np.r_[False, kernel[1:] & kernel[:-1] & (run[1:] == run[:-1])] if len(device) else kernel
    index = np.arange(len(device))
    begin = np.maximum.accumulate(np.where(follows, 0, index)) if len(device) else index
    begin += (index - begin) // most * most
    found = np.full(graph.activities.height, -1, dtype=np.int64)
    found[device[kernel]] = device[begin[kernel]]
    return found
