"""By how much each moment is later than all that it waits for, and why."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.graph.latencies.usual import LONGEST_NS
from tracebraid.compiled import compiled
from tracebraid.graph.joining.rows import Rows
from tracebraid.model.graph.codes import EdgeKind, Residual
from tracebraid.model.graph.dependency_graph import Edges

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


def residuals(edges: Edges, times_ns: _Ints) -> tuple[_Ints, _Codes]:
def residuals(rows: Rows, times_ns: _Ints) -> tuple[_Ints, _Codes]:
    """The residual of each moment in ns, and its `Residual`.

    It has the name of the edge that the moment waited for the longest, if it can be a latency of that kind: one
    above `LONGEST_NS` and above 10 times the usual is unexplained; and work that waits for its launch alone, the first
    on its stream, waited for what is not in the graph.

    Args:
        edges: what each moment waits for.
        times_ns: of each moment.
    """
    if not len(edges):
        before = times_ns - times_ns.min(initial=np.iinfo(np.int64).max)
        return before, np.where(before == 0, Residual.NONE, Residual.BEFORE).astype(np.uint8)
    ready_ns = times_ns[edges.before] + edges.work_ns
    latest = latest_edges(edges.first, ready_ns)
    has_edges, edge = latest >= 0, np.maximum(latest, 0)
    residual_ns = times_ns - np.where(has_edges, ready_ns[edge], times_ns.min())
    names = np.full(len(EdgeKind), Residual.UNEXPLAINED, dtype=np.uint8)
    for edge_kind, name in _RESIDUAL.items():
        names[edge_kind] = name
    residual = names[edges.kind[edge]]
    far = (residual_ns > LONGEST_NS) & (residual_ns > _FAR_TIMES * edges.work_ns[edge])
    residual[far & np.isin(residual, _LATENCIES)] = Residual.UNEXPLAINED
    launched_alone = (np.diff(edges.first) == 1) & (edges.kind[edge] == EdgeKind.LAUNCH)
    residual[~has_edges | (far & launched_alone)] = Residual.BEFORE
    residual[residual_ns == 0] = Residual.NONE
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
