"""An order of moments in which each comes after all that it waits for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["Order", "order_of"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Order:
    """An order of moments, and the edges that go forward in it.

    Args:
        moments: the moments in order.
        position: where in it each moment stands.
        forward: whether each edge goes forward: those that do not would close a cycle.
    """

    moments: _Ints
    position: _Ints
    forward: NDArray[np.bool_]


def order_of(times_ns: _Ints, edges: EdgeList) -> Order:
    """Order moments by time, and those of one time by what they wait for.

    Args:
        times_ns: of each moment.
        edges: none goes back in time.
    """
    by_after = np.argsort(edges.after, kind="stable")
    first = np.searchsorted(edges.after[by_after], np.arange(len(times_ns) + 1))
    moments = _ordered(np.argsort(times_ns, kind="stable"), first, edges.before[by_after])
    position = np.empty(len(moments), dtype=np.int64)
    position[moments] = np.arange(len(moments))
    return Order(moments, position, position[edges.before] < position[edges.after])


@compiled
def _ordered(by_time: _Ints, first: _Ints, before: _Ints) -> _Ints:
    """Moments by time, each after what it waits for; where these form a cycle, one of its edges goes back."""
    count = len(by_time)
    placed = np.zeros(count, dtype=np.int8)
    ordered = np.empty(count, dtype=np.int64)
    stack, edge = np.empty(count + 1, dtype=np.int64), np.empty(count + 1, dtype=np.int64)
    position = 0
    for moment in by_time:
        if placed[moment]:
            continue
        depth = 0
        stack[0], edge[0], placed[moment] = moment, first[moment], 1
        while depth >= 0:
            current = stack[depth]
            if edge[depth] < first[current + 1]:
                waited = before[edge[depth]]
                edge[depth] += 1
                if not placed[waited]:
                    depth += 1
                    stack[depth], edge[depth], placed[waited] = waited, first[waited], 1
            else:
                ordered[position] = current
                position += 1
                depth -= 1
    return ordered
