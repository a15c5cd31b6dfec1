"""Edges that show a latency alone: the moment waited for nothing else."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["waited_for_alone"]

_Ints = NDArray[np.int64]

_LOWEST = np.iinfo(np.int64).min


def waited_for_alone(edges: EdgeList, times_ns: _Ints, most_ns: _Ints) -> NDArray[np.bool_]:
    """Whether all else that the moment of each edge waits for was ready when this edge's wait began.

    Args:
        edges: all edges of a rank.
        times_ns: of each moment.
        most_ns: how long after its moment before each edge is ready at the latest: its work, or a high latency.
    """
    began = times_ns[edges.before]
    latest, second = (np.full(len(times_ns), _LOWEST, dtype=np.int64) for _ in range(2))
    edge_of = np.full(len(times_ns), -1, dtype=np.int64)
    return began >= _latest_of_others(edges.after, began + most_ns, latest, second, edge_of)


@compiled
def _latest_of_others(after: _Ints, ready_ns: _Ints, latest: _Ints, second: _Ints, edge_of: _Ints) -> _Ints:
    """When the last of the other edges to the same moment is ready; the lowest number where there is none.

    The last three have an entry for each moment: the two latest times, which begin as the lowest number, and the
    edge of the latest, -1.
    """
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
