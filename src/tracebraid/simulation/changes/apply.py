"""Changes applied to a dependency graph, in their order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.graph.change import Change, Verb
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.changes.as_median import as_median
from tracebraid.simulation.changes.communication import of_group_size, with_bandwidth, with_latency
from tracebraid.simulation.changes.early import started_early
from tracebraid.simulation.changes.fuse import fused
from tracebraid.simulation.changes.graph_launch import launched_as_graphs
from tracebraid.simulation.changes.merge import merged
from tracebraid.simulation.changes.move import moved
from tracebraid.simulation.changes.offload import offloaded
from tracebraid.simulation.changes.parse import checked
from tracebraid.simulation.changes.remove import removed
from tracebraid.simulation.changes.select import selected
from tracebraid.simulation.changes.waiting import deferred, without_sync
from tracebraid.simulation.changes.work import scaled, set_to, split

__all__ = ["changed"]

_Bools = NDArray[np.bool_]

_WITHOUT_VALUE: dict[Verb, Callable[[DependencyGraph, _Bools], DependencyGraph]] = {
    Verb.REMOVE: removed,
    Verb.EARLY: started_early,
    Verb.GRAPH_LAUNCH: launched_as_graphs,
    Verb.NO_SYNC: without_sync,
    Verb.DEFER: deferred,
    Verb.AS_MEDIAN: as_median,
}

_WITH_VALUE: dict[Verb, Callable[[DependencyGraph, _Bools, float], DependencyGraph]] = {
    Verb.SCALE: scaled,
    Verb.SET: set_to,
    Verb.SPLIT: split,
    Verb.MOVE: moved,
    Verb.BANDWIDTH: with_bandwidth,
    Verb.LATENCY: with_latency,
    Verb.MERGE: merged,
    Verb.OFFLOAD: offloaded,
    Verb.RANKS: of_group_size,
}

_OF_COMMUNICATION = (Verb.BANDWIDTH, Verb.LATENCY, Verb.MERGE, Verb.EARLY, Verb.RANKS)
"""Changes of communication alone, whatever else is selected."""


def changed(graph: DependencyGraph, change: Change) -> tuple[DependencyGraph, _Bools]:
    """The changed graph, and which activities were selected.

    Args:
        graph: the graph; it stays as it is.
        change: what is done.

    Raises:
        ArgumentError: the change makes no sense, selects nothing, or cannot be.
    """
    change = checked(change)
    chosen = selected(graph, change.where)
    if change.verb in _OF_COMMUNICATION:
        kinds = graph.activities.get_column("kind").cast(pl.String)
        chosen &= (kinds == ActivityKind.COMMUNICATION.value).to_numpy()
    if change.verb is Verb.FUSE:
        factor = 1.0 if change.factor is None else change.factor
        return fused(graph, chosen, change.value or 0.0, factor), chosen
    if change.value is None:
        return _WITHOUT_VALUE[change.verb](graph, chosen), chosen
    return _WITH_VALUE[change.verb](graph, chosen, change.value), chosen
