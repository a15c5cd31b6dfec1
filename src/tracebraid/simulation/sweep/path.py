"""The edges of a longest path to a moment, marked."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.graph.latest_edges import latest_edges
from tracebraid.model.graph.dependency_graph import Edges

__all__ = ["edges_of_path"]

_Ints = NDArray[np.int64]


def edges_of_path(edges: Edges, times_ns: _Ints, end: int) -> NDArray[np.bool_]:
    """Whether each edge is on the path of those that the end, and what it waited for, waited for the longest.

    Args:
        edges: of a graph.
        times_ns: of each moment, as replayed.
        end: the moment at which the path ends.
    """
    latest = latest_edges(edges, times_ns)
    on_path = np.zeros(len(edges), dtype=np.bool_)
    _mark(latest, edges.before, end, on_path)
    return on_path


@compiled
def _mark(latest: _Ints, before: NDArray[np.int32], end: int, on_path: NDArray[np.bool_]) -> None:
    moment = end
    while latest[moment] >= 0:
        edge = latest[moment]
        on_path[edge] = True
        moment = before[edge]
