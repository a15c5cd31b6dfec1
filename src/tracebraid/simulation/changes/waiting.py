"""A host that does not wait for devices, or that waits later."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.rewiring import edge_list, with_edges, without_edges
from tracebraid.model.graph.codes import EdgeKind, Residual
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.changes.work import on_time

__all__ = ["deferred", "without_sync"]

_WAITS = (EdgeKind.SYNC, EdgeKind.COMMUNICATION_WAIT)
"""Waits of threads for what was issued before."""
_LATE = (Residual.SYNC, Residual.COMMUNICATION)
"""Residuals of threads that were later than such a wait says."""


def without_sync(graph: DependencyGraph, chosen: NDArray[np.bool_]) -> DependencyGraph:
    """The graph in which the chosen calls wait for no device: they return at once.

    Their residuals, if a wait explains them, are gone with the wait.

    Args:
        graph: the graph.
        chosen: whether each activity is meant.

    Raises:
        ArgumentError: none of them waits for a device.
    """
    edges, after = graph.edges, graph.after
    dropped = (edges.kind == EdgeKind.SYNC) & chosen[graph.moments.activity[after]]
    if not dropped.any():
        raise ArgumentError(
            "none of the selected events waits for a device; select calls that do, by name or op"
        )
    waited = np.zeros(len(graph.moments), dtype=np.bool_)
    waited[after[dropped]] = True
    waited &= graph.moments.residual == Residual.SYNC
    return without_edges(on_time(graph, waited), dropped)


def deferred(graph: DependencyGraph, chosen: NDArray[np.bool_]) -> DependencyGraph:
    """The graph in which threads wait at the end of the step for what the chosen waits were for.

    Waits are chosen by the call that waits for a device, or by the communication of the host that is waited for.
    Waits behind the last step stay.

    Args:
        graph: the graph.
        chosen: whether each activity is meant.

    Raises:
        ArgumentError: no thread waits in a step for any of them.
    """
    edges, after = graph.edges, graph.after
    by = np.where(edges.kind == EdgeKind.SYNC, graph.moments.activity[after], edges.activity)
    waits = np.flatnonzero(np.isin(edges.kind, _WAITS) & chosen[by])
    until = _ends_of_steps(graph, after[waits].astype(np.int64))
    waits, until = waits[until >= 0], until[until >= 0]
    if not len(waits):
        raise ArgumentError(
            "no thread waits in a step for anything that was selected; select calls that wait for a device, or "
            "communication of the host, by name or op"
        )
    late = np.zeros(len(graph.moments), dtype=np.bool_)
    late[after[waits]] = True
    late &= np.isin(graph.moments.residual, _LATE)
    moved = edge_list(graph)[waits]
    moved.after[:] = until
    dropped = np.zeros(len(edges), dtype=np.bool_)
    dropped[waits] = True
    return with_edges(without_edges(on_time(graph, late), dropped), moved)


def _ends_of_steps(graph: DependencyGraph, moments: NDArray[np.int64]) -> NDArray[np.int64]:
    """The host's end of the step, on its rank, in which each moment lies; -1: it lies behind the last."""
    ranks = graph.activities.get_column("rank").cast(pl.Int64).fill_null(-1).to_numpy()
    of_moment = ranks[graph.moments.activity[moments]]
    found = np.full(len(moments), -1, dtype=np.int64)
    for rank in np.unique(of_moment).tolist():
        ends = graph.steps.filter(pl.col("rank") == rank).get_column("host_end_moment").drop_nulls()
        ordered = np.append(np.sort(ends.to_numpy().astype(np.int64)), -1)
        own = of_moment == rank
        found[own] = ordered[np.searchsorted(ordered[:-1], moments[own])]
    return found
