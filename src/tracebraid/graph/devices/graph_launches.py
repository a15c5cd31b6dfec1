"""Calls that launch much work at once: the call starts what has no predecessor in it, stream order the rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.graph.devices.device_works import DeviceWorks
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["first_of_launches"]


def first_of_launches(edges: EdgeList, works: DeviceWorks) -> EdgeList:
    """The edges without launches of work that follows other work of the same call on its stream.

    Args:
        edges: of one rank, in any order.
        works: of the same rank.
    """
    after = edges.after // 2 - works.first
    ordered = edges.kind == EdgeKind.STREAM_ORDER
    follows = np.zeros(len(works), dtype=np.bool_)
    behind, ahead = after[ordered], edges.before[ordered] // 2 - works.first
    same = (works.call[behind] == works.call[ahead]) & (works.call[behind] >= 0)
    follows[behind[same]] = True
    return edges[~_launches_of(edges, after, follows)]


def _launches_of(edges: EdgeList, work: NDArray[np.int64], chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    launches = np.flatnonzero(edges.kind == EdgeKind.LAUNCH)
    found = np.zeros(len(edges), dtype=np.bool_)
    found[launches] = chosen[work[launches]]
    return found
