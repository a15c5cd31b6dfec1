"""Edges by the moment that waits, in an order of moments."""

from __future__ import annotations

import numpy as np

from tracebraid.graph.joining.order import Order
from tracebraid.model.graph.dependency_graph import Edges
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["edges_in_order"]


def edges_in_order(edges: EdgeList, order: Order) -> Edges:
    """The edges by the moment that waits, with positions in the order.

    Args:
        edges: all go forward in the order.
        order: of the moments.
    """
    after = order.position[edges.after]
    by_after = np.argsort(after, kind="stable")
    first = np.zeros(len(order.moments) + 1, dtype=np.int64)
    np.cumsum(np.bincount(after, minlength=len(order.moments)), out=first[1:])
    return Edges(
        first,
        order.position[edges.before][by_after].astype(np.int32),
        edges.work_ns[by_after],
        edges.kind[by_after],
        edges.activity[by_after].astype(np.int32),
    )
