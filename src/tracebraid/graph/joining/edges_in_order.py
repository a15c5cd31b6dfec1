"""Moments in an order that suits any edges, and the edges by the moment that waits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.graph.joining.order import Order, order_of
from tracebraid.graph.joining.rows import Rows, in_order
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["edges_in_order"]


def edges_in_order(times_ns: NDArray[np.int64], edges: EdgeList) -> tuple[Order, Rows]:
    """An order of the moments, and the edges in it, by the moment that waits; `backward` of them close a cycle.

    Args:
        times_ns: of each moment; edges may go against it.
        edges: by the numbers of moments.
    """
    by_after = edges[np.argsort(edges.after, kind="stable")]
    first = np.zeros(len(times_ns) + 1, dtype=np.int64)
    np.cumsum(np.bincount(edges.after, minlength=len(times_ns)), out=first[1:])
    before, owner = by_after.before.astype(np.int32), by_after.activity.astype(np.int32)
    order = order_of(times_ns, first, before)
    rows = Rows(first, before, by_after.work_ns, by_after.kind, owner)
    return order, in_order(rows, order.moments, order.position)
