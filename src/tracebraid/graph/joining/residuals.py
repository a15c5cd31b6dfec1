"""By how much each moment is later than all that it waits for, and why."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.graph.joining.rows import Rows
from tracebraid.graph.latencies.usual import LONGEST_NS
from tracebraid.model.graph.codes import EdgeKind, Residual

__all__ = ["latest_edges", "residuals"]

_Ints = NDArray[np.int64]
_Ids = NDArray[np.int32]
_Codes = NDArray[np.uint8]

_RESIDUAL = {
    EdgeKind.LAUNCH: Residual.LAUNCH,
    EdgeKind.STREAM_ORDER: Residual.STREAM,
    EdgeKind.STREAM_OVERLAP: Residual.STREAM,
    EdgeKind.STREAM_END: Residual.STREAM,
    EdgeKind.EVENT_WAIT: Residual.EVENT_WAIT,
    EdgeKind.SYNC: Residual.SYNC,
    EdgeKind.QUEUE: Residual.SYNC,
    EdgeKind.THREAD: Residual.THREAD,
    EdgeKind.DATA: Residual.THREAD,
    EdgeKind.FORWARD_BACKWARD: Residual.THREAD,
    EdgeKind.COMMUNICATION_WAIT: Residual.COMMUNICATION,
    EdgeKind.ARRIVAL: Residual.COMMUNICATION,
    EdgeKind.TRANSFER: Residual.COMMUNICATION,
}


_LATENCIES = (Residual.LAUNCH, Residual.STREAM, Residual.EVENT_WAIT, Residual.SYNC)
"""Residuals that are a latency which is longer than usual."""

_FAR_TIMES = 10
"""How many times what is usual a latency hardly is."""

_NAMES = np.array([_RESIDUAL.get(kind, Residual.UNEXPLAINED) for kind in EdgeKind], dtype=np.uint8)
"""`Residual` by the `EdgeKind` of the latest edge."""


@compiled
def latest_edges(first: _Ints, ready_ns: _Ints) -> _Ints:
    """The edge that each moment waited for the longest; the first of equals, -1 for moments without edges.

    Args:
        first: see `Edges`.
        ready_ns: the time of the moment before plus the work, of each edge.
    """
    found = np.full(len(first) - 1, -1, dtype=np.int64)
    for moment in range(len(found)):
        for edge in range(first[moment], first[moment + 1]):
            if found[moment] < 0 or ready_ns[edge] > ready_ns[found[moment]]:
                found[moment] = edge
    return found


def residuals(rows: Rows, times_ns: _Ints) -> tuple[_Ints, _Codes]:
    """The residual of each moment in ns, and its `Residual`.

    It has the name of the edge that the moment waited for the longest, if it can be a latency of that kind: one
    above `LONGEST_NS` and above 10 times the usual is unexplained; and work that waits for its launch alone, the first
    on its stream, waited for what is not in the graph.

    Args:
        rows: the edges, by the moment that waits.
        times_ns: of each moment.
    """
    earliest = int(times_ns.min()) if len(times_ns) else 0
    residual_ns, latest = _residuals((rows.first, rows.before, rows.work_ns), times_ns, earliest)
    has_edges = latest >= 0
    if not len(rows.kind):
        return residual_ns, np.where(residual_ns == 0, Residual.NONE, Residual.BEFORE).astype(np.uint8)
    kind = rows.kind[np.maximum(latest, 0)]
    residual = _NAMES[kind]
    far = (residual_ns > LONGEST_NS) & (residual_ns > _FAR_TIMES * rows.work_ns[np.maximum(latest, 0)])
    residual[far & np.isin(residual, _LATENCIES)] = Residual.UNEXPLAINED
    launched_alone = (np.diff(rows.first) == 1) & (kind == EdgeKind.LAUNCH)
    residual[~has_edges | (far & launched_alone)] = Residual.BEFORE
    residual[residual_ns == 0] = Residual.NONE
    return residual_ns, residual


@compiled
def _residuals(edges: tuple[_Ints, _Ids, _Ints], times_ns: _Ints, earliest: int) -> tuple[_Ints, _Ints]:
    """The residual of each moment, and the edge that it waited for the longest; -1: it waits for nothing."""
    first, before, work_ns = edges
    residual_ns, found = np.empty(len(times_ns), dtype=np.int64), np.empty(len(times_ns), dtype=np.int64)
    for moment in range(len(times_ns)):
        latest, found[moment] = earliest, -1
        for edge in range(first[moment], first[moment + 1]):
            ready = times_ns[before[edge]] + work_ns[edge]
            if found[moment] < 0 or ready > latest:
                latest, found[moment] = ready, edge
        residual_ns[moment] = times_ns[moment] - latest
    return residual_ns, found
