"""Communication that starts as soon as its inputs are there."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.rewiring import with_edges, without_edges
from tracebraid.model.graph.codes import ActivityKind, EdgeKind, Point, Residual
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.rank_graph import EdgeList
from tracebraid.simulation.changes.nesting import launched_by
from tracebraid.simulation.changes.work import on_time

__all__ = ["started_early"]

_Bools = NDArray[np.bool_]
_Ints = NDArray[np.int64]


def started_early(graph: DependencyGraph, chosen: _Bools) -> DependencyGraph:
    """The chosen communication of devices starts when its inputs are there, however late the host launches it.

    Its inputs are there when the work has ended that its stream waits for by events; where there are none, the last
    work, other than communication, that the launching thread launched before it. It stays behind what comes before
    it on its own stream.

    Args:
        graph: the graph.
        chosen: whether each activity is meant.

    Raises:
        ArgumentError: none of them is communication of a device whose launch is known.
    """
    edges, after = graph.edges, graph.after
    kinds = graph.activities.get_column("kind").cast(pl.String)
    meant = chosen & (kinds == ActivityKind.COMMUNICATION.value).to_numpy()
    producer = _last_work_before(graph, (kinds == ActivityKind.COMMUNICATION.value).to_numpy())
    waits_for_event = np.zeros(len(meant), dtype=np.bool_)
    waits_for_event[graph.moments.activity[after[edges.kind == EdgeKind.EVENT_WAIT]]] = True
    meant &= (launched_by(graph) >= 0) & (waits_for_event | (producer >= 0))
    if not meant.any():
        raise ArgumentError(
            "nothing that was selected is communication of a device whose launch and inputs are known"
        )
    dropped = (edges.kind == EdgeKind.LAUNCH) & meant[graph.moments.activity[after]]
    starts = graph.moment_of[meant, Point.START].astype(np.int64)
    late = np.zeros(len(graph.moments), dtype=np.bool_)
    late[starts] = graph.moments.residual[starts] == Residual.LAUNCH
    without = np.flatnonzero(meant & ~waits_for_event)
    added = EdgeList.of(
        graph.moment_of[producer[without], Point.END].astype(np.int64),
        graph.moment_of[without, Point.START].astype(np.int64),
        EdgeKind.EVENT_WAIT,
        without,
    )
    return with_edges(without_edges(on_time(graph, late), dropped), added)


def _last_work_before(graph: DependencyGraph, communicates: _Bools) -> _Ints:
    """For each work of a device the last work, other than communication, that its thread launched before; -1: none."""
    by = launched_by(graph)
    work = np.flatnonzero(by >= 0)
    lane = graph.activities.select(pl.struct("rank", "lane").rank("dense")).to_series().to_numpy()
    thread = lane[by[work]].astype(np.int64)
    order = np.lexsort((graph.moment_of[by[work], Point.START], thread))
    work, thread = work[order], thread[order]
    index = np.where(communicates[work], -1, np.arange(len(work)))
    latest = np.maximum.accumulate(np.r_[-1, index[:-1]]) if len(work) else index
    known = (latest >= 0) & (thread[np.maximum(latest, 0)] == thread)
    found = np.full(graph.activities.height, -1, dtype=np.int64)
    found[work] = np.where(known, work[np.maximum(latest, 0)], -1) if len(work) else work
    return found
