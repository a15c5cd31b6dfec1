"""An order of moments in which each comes after all that it waits for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled

__all__ = ["Order", "order_of"]

_Ints = NDArray[np.int64]
_Ids = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Order:
    """An order of moments.

    Args:
        moments: the moments in order.
        position: where in it each moment stands.
    """

    moments: _Ids
    position: _Ids


def order_of(times_ns: _Ints, first: _Ints, before: _Ids) -> Order:
    """Order moments by time, and those of one time by what they wait for.

    Args:
        times_ns: of each moment.
        first: where the edges of each moment begin, as in `Edges`.
        before: the moment that each edge waits for; none of them is later.
    """
    by_time = np.argsort(times_ns, kind="stable").astype(np.int32)
    moments = _ordered(by_time, first, before)
    position = np.empty(len(moments), dtype=np.int32)
    position[moments] = np.arange(len(moments), dtype=np.int32)
    return Order(moments, position)


@compiled
def _ordered(by_time: _Ids, first: _Ints, before: _Ids) -> _Ids:
    """Moments by time, each after what it waits for; where these form a cycle, one of its edges goes back."""
    count = len(by_time)
    placed = np.zeros(count, dtype=np.int8)
    ordered = np.empty(count, dtype=np.int32)
    # The moments that wait for each other, and the next edge of each. Only those of one time can.
    room = 1024
    stack, edge = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
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
                    if depth == room:
                        room *= 2
                        short, short_edge = stack, edge
                        stack, edge = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
                        for index in range(depth):
                            stack[index], edge[index] = short[index], short_edge[index]
                    stack[depth], edge[depth], placed[waited] = waited, first[waited], 1
            else:
                ordered[position] = current
                position += 1
                depth -= 1
    return ordered
