"""By how much each moment is later than all that it waits for, and why."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.graph.joining.rows import Rows
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
    EdgeKind.THREAD: Residual.THREAD,
    EdgeKind.DATA: Residual.THREAD,
    EdgeKind.FORWARD_BACKWARD: Residual.THREAD,
    EdgeKind.COMMUNICATION_WAIT: Residual.COMMUNICATION,
    EdgeKind.ARRIVAL: Residual.COMMUNICATION,
    EdgeKind.TRANSFER: Residual.COMMUNICATION,
}


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

    Args:
        rows: the edges, by the moment that waits.
        times_ns: of each moment.
    """
    return _residuals(
        (rows.first, rows.before, rows.work_ns, rows.kind),
        times_ns,
        _NAMES,
        (int(Residual.NONE), int(Residual.BEFORE)),
    )


@compiled
def _residuals(
    edges: tuple[_Ints, _Ids, _Ints, _Codes], times_ns: _Ints, names: _Codes, without_edges: tuple[int, int]
) -> tuple[_Ints, _Codes]:
    first, before, work_ns, kind = edges
    residual_ns, residual = np.empty(len(times_ns), dtype=np.int64), np.empty(len(times_ns), dtype=np.uint8)
    earliest = times_ns.min() if len(times_ns) else 0
    none, nothing_before = without_edges
    for moment in range(len(times_ns)):
        latest, name = earliest, nothing_before
        for edge in range(first[moment], first[moment + 1]):
            ready = times_ns[before[edge]] + work_ns[edge]
            if edge == first[moment] or ready > latest:
                latest, name = ready, names[kind[edge]]
        residual_ns[moment] = times_ns[moment] - latest
        residual[moment] = name if residual_ns[moment] else none
    return residual_ns, residual
