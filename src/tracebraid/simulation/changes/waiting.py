"""A host that does not wait for devices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.rewiring import without_edges
from tracebraid.model.graph.codes import EdgeKind, Residual
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.changes.work import on_time

__all__ = ["without_sync"]


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
