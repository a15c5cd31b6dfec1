"""Edges that show a latency alone: the moment waited for nothing else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["waited_for_alone"]

_Ints = NDArray[np.int64]


def waited_for_alone(edges: EdgeList, times_ns: _Ints, most_ns: _Ints) -> NDArray[np.bool_]:
    """Whether all else that the moment of each edge waits for was ready when this edge's wait began.

    Args:
        edges: all edges of a rank.
        times_ns: of each moment.
        most_ns: how long after its moment before each edge is ready at the latest: its work, or a high latency.
    """
    began = times_ns[edges.before]
    return began >= _latest_of_others(edges.after, began + most_ns, len(times_ns))


@compiled
def _latest_of_others(after: _Ints, ready_ns: _Ints, moments: int) -> _Ints:
    """When the last of the other edges to the same moment is ready; the lowest number where there is none."""
    lowest = np.iinfo(np.int64).min
    latest, second = np.full(moments, lowest), np.full(moments, lowest)
    edge_of = np.full(moments, -1)
    for edge in range(len(after)):
        moment, ready = after[edge], ready_ns[edge]
        if ready > latest[moment] or edge_of[moment] < 0:
            second[moment], latest[moment], edge_of[moment] = latest[moment], ready, edge
        elif ready > second[moment]:
            second[moment] = ready
    found = np.empty(len(after), dtype=np.int64)
    for edge in range(len(after)):
        moment = after[edge]
        found[edge] = second[moment] if edge_of[moment] == edge else latest[moment]
    return found
