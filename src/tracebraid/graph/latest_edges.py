"""What did each moment wait for the longest?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.model.graph.dependency_graph import Edges

__all__ = ["latest_edges", "ready_times"]

_Ints = NDArray[np.int64]


def ready_times(edges: Edges, times_ns: _Ints) -> _Ints:
    """When each edge lets its moment be: the time of the moment before plus the work.

    Args:
        edges: of a graph.
        times_ns: of each moment: measured, or of a replay.
    """
    times: _Ints = times_ns[edges.before] + edges.work_ns
    return times


def latest_edges(edges: Edges, times_ns: _Ints) -> _Ints:
    """The edge that each moment waited for the longest; the first of equals, -1 for moments without edges.

    Args:
        edges: of a graph.
        times_ns: of each moment: measured, or of a replay.
    """
    found: _Ints = _latest(edges.first, ready_times(edges, times_ns))
    return found


@compiled
def _latest(first: _Ints, ready_ns: _Ints) -> _Ints:
    found = np.full(len(first) - 1, -1, dtype=np.int64)
    for moment in range(len(found)):
        for edge in range(first[moment], first[moment + 1]):
            if found[moment] < 0 or ready_ns[edge] > ready_ns[found[moment]]:
                found[moment] = edge
    return found
