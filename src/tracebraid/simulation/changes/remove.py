"""Events that are not there: they, what they call, and the device work that they launch."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.graph.rewiring import without_edges
from tracebraid.model.graph.codes import ActivityKind, EdgeKind, Residual
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.changes.nesting import with_nested
from tracebraid.simulation.changes.work import on_time, with_work

__all__ = ["removed"]

_WAITS = (EdgeKind.SYNC, EdgeKind.COMMUNICATION_WAIT, EdgeKind.QUEUE)
_RANKS = (EdgeKind.ARRIVAL, EdgeKind.TRANSFER)
_OF_WHAT_WAITS = (EdgeKind.STREAM_ORDER, EdgeKind.EVENT_WAIT, EdgeKind.SYNC)
"""Latencies that stay where what was waited for is gone: what was before it on the stream is then waited for."""


def removed(graph: DependencyGraph, chosen: NDArray[np.bool_]) -> DependencyGraph:
    """The graph without the chosen events, all that they call, and the device work that they launch.

    They take no time, wait for no device and no communication, and their latencies and residuals are gone. What came
    before them is still before what comes after them, on their thread and on their stream, with the gap that is usual
    there. Members of collectives that are removed neither wait for others, nor hold them.

    Args:
        graph: the graph.
        chosen: whether each activity is meant.
    """
    gone = with_nested(graph, chosen)
    edges, after = graph.edges, graph.after
    of_gone, waits_gone = gone[edges.activity], gone[graph.moments.activity[after]]
    before_gone = gone[graph.moments.activity[edges.before]]
    on_host = graph.activities.get_column("stream").is_null().to_numpy()
    waiting = np.isin(edges.kind, _WAITS) & waits_gone & on_host[graph.moments.activity[after]]
    kinds = graph.activities.get_column("kind").cast(pl.String)
    member = gone & (kinds == ActivityKind.COMMUNICATION.value).to_numpy()
    is_member = member[graph.moments.activity[after]] | member[graph.moments.activity[edges.before]]
    dropped = waiting | (np.isin(edges.kind, _RANKS) & is_member)
    left_without = before_gone & ~np.isin(edges.kind, _OF_WHAT_WAITS)
    is_latency = (edges.kind != EdgeKind.HOST) & (waits_gone | left_without)
    work = np.where(of_gone | is_latency, 0, edges.work_ns)
    late = gone[graph.moments.activity] & (graph.moments.residual != Residual.BEFORE)
    return without_edges(on_time(with_work(graph, work), late), dropped)
