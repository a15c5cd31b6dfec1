"""A circle of nodes that wait for each other, found among those that never run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.chakra.dependencies import RankDependencies

__all__ = ["cycle_of"]

_Ints = NDArray[np.int64]


def cycle_of(dependencies: RankDependencies, order: _Ints) -> list[int]:
    """The rows of a circle, each waiting for the next and the last for the first; none where there is no circle.

    Args:
        dependencies: of the rank.
        order: rows that can run, as `run_order` gives them.
    """
    nodes = len(dependencies.first) - 1
    stuck = np.ones(nodes, dtype=np.bool_)
    stuck[order] = False
    rows = np.repeat(np.arange(nodes), np.diff(dependencies.first))
    within = stuck[rows] & stuck[dependencies.before]
    # Each node that never runs and waits for no node of this kind waits for itself: there is no circle behind it.
    waits_for = np.full(nodes, -1, dtype=np.int64)
    waits_for[rows[within]] = dependencies.before[within]
    waits_for[dependencies.self_row] = -1
    seen = np.zeros(nodes, dtype=np.int64)
    for number, start in enumerate(np.flatnonzero(waits_for >= 0).tolist(), start=1):
        row = start
        while row >= 0 and seen[row] == 0:
            seen[row] = number
            row = int(waits_for[row])
        if row >= 0 and seen[row] == number:
            return _circle(waits_for, row)
    return []


def _circle(waits_for: _Ints, start: int) -> list[int]:
    circle, row = [start], int(waits_for[start])
    while row != start:
        circle.append(row)
        row = int(waits_for[row])
    return circle
