"""The times of a dependency graph, computed from its work alone, in one pass over its moments."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled

__all__ = ["replay"]

_Ints = NDArray[np.int64]


@compiled
def replay(first: _Ints, before: NDArray[np.int32], work_ns: _Ints, residual_ns: _Ints) -> _Ints:
    """When each moment is, in ns after the earliest: its latest edge, plus its residual.

    Args:
        first: see `Edges`.
        before: the moment that each edge waits for.
        work_ns: of each edge.
        residual_ns: of each moment.
    """
    times = np.empty(len(residual_ns), dtype=np.int64)
    for moment in range(len(residual_ns)):
        latest = 0
        for edge in range(first[moment], first[moment + 1]):
            ready = times[before[edge]] + work_ns[edge]
            if ready > latest:
                latest = ready
        times[moment] = latest + residual_ns[moment]
    return times
