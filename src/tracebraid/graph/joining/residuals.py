"""By how much each moment is later than all that it waits for, and why."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.model.graph.codes import EdgeKind, Residual

__all__ = ["latest_edges", "residuals"]

_Ints = NDArray[np.int64]

_RESIDUAL = {
    EdgeKind.LAUNCH: Residual.LAUNCH,
    EdgeKind.STREAM_ORDER: Residual.STREAM,
    EdgeKind.STREAM_OVERLAP: Residual.STREAM,
    EdgeKind.STREAM_END: Residual.STREAM,
    EdgeKind.EVENT_WAIT: Residual.EVENT_WAIT,
    EdgeKind.SYNC: Residual.SYNC,
    EdgeKind.THREAD: Residual.THREAD,
    EdgeKind.DATA: Residual.THREAD,
    EdgeKind.FORWARD_BACKWARD: Residual.THREAD,
    EdgeKind.COMMUNICATION_WAIT: Residual.COMMUNICATION,
    EdgeKind.ARRIVAL: Residual.COMMUNICATION,
    EdgeKind.TRANSFER: Residual.COMMUNICATION,
}


def latest_edges(first: _Ints, ready_ns: _Ints) -> _Ints:
    """The edge that each moment waited for the longest; the first of equals, -1 for moments without edges.

    Args:
        first: see `Edges`.
        ready_ns: the time of the moment before plus the work, of each edge.
    """
    found = np.full(len(first) - 1, -1, dtype=np.int64)
    has_edges = np.flatnonzero(np.diff(first))
    if not len(has_edges):
        return found
    starts = first[has_edges]
    latest = np.repeat(np.maximum.reduceat(ready_ns, starts), np.diff(first)[has_edges])
    moment = np.repeat(has_edges, np.diff(first)[has_edges])
    edges = np.flatnonzero(ready_ns == latest)[::-1]
    found[moment[edges]] = edges
    return found


def residuals(
    first: _Ints, ready_ns: _Ints, kind: NDArray[np.uint8], times_ns: _Ints
) -> tuple[_Ints, NDArray[np.uint8]]:
    """The residual of each moment in ns, and its `Residual`.

    Args:
        first: see `Edges`.
        ready_ns: the time of the moment before plus the work, of each edge.
        kind: of each edge.
        times_ns: of each moment.
    """
    latest = latest_edges(first, ready_ns)
    has_edges = latest >= 0
    earliest = times_ns.min(initial=np.iinfo(np.int64).max)
    edge = np.maximum(latest, 0)
    ready = ready_ns[edge] if len(ready_ns) else np.zeros(len(times_ns), dtype=np.int64)
    residual_ns = times_ns - np.where(has_edges, ready, earliest)
    names = np.full(len(EdgeKind), Residual.UNEXPLAINED, dtype=np.uint8)
    for edge_kind, name in _RESIDUAL.items():
        names[edge_kind] = name
    by_edge = names[kind[edge]] if len(kind) else np.zeros(len(times_ns), dtype=np.uint8)
    residual = np.where(has_edges, by_edge, Residual.BEFORE).astype(np.uint8)
    return residual_ns, np.where(residual_ns == 0, Residual.NONE, residual).astype(np.uint8)
