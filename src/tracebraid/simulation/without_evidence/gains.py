"""By how much a run ends earlier without the time of each advice's evidence."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.replay import replay
from tracebraid.simulation.step_times import step_moments
from tracebraid.simulation.without_evidence.cuts import Cuts, cuts_of

__all__ = ["gains_of"]

_Ints = NDArray[np.int64]


def gains_of(graph: DependencyGraph, parts: pl.DataFrame) -> pl.DataFrame:
    """`item`, `gain_ns`: by how much earlier the last step ends; of items whose time the graph does not know no row.

    Each item costs a pass over the edges. Residuals outside of the evidence stay.

    Args:
        graph: of the ranks of the evidence.
        parts: occurrences: `item`, `detector`, `rank`, `start_ns`, `end_ns`, `saving_ns`, `event_id`; times on the
            clocks of the ranks.
    """
    cuts = cuts_of(graph, parts)
    moments = step_moments(graph.steps)
    ends = np.unique(np.concatenate([moments.host_end, moments.device_end]))
    work, residual = graph.edges.work_ns.copy(), graph.moments.residual_ns.copy()
    whole = _end_ns(graph, work, residual, ends)
    gains = [max(whole - _without(graph, cuts, item, (work, residual), ends), 0) for item in cuts.items]
    return pl.DataFrame(
        {"item": cuts.items, "gain_ns": gains}, schema={"item": pl.Int64, "gain_ns": pl.Int64}
    )


def _without(graph: DependencyGraph, cuts: Cuts, item: int, arrays: tuple[_Ints, _Ints], ends: _Ints) -> int:
    """When the last step ends without an item; the arrays are changed meanwhile, and then as before."""
    work, residual = arrays
    edges, new_work = cuts.edges_of(item)
    moments = cuts.moments_of(item)
    work[edges], residual[moments] = new_work, 0
    found = _end_ns(graph, work, residual, ends)
    work[edges], residual[moments] = graph.edges.work_ns[edges], graph.moments.residual_ns[moments]
    return found


def _end_ns(graph: DependencyGraph, work: _Ints, residual: _Ints, ends: _Ints) -> int:
    times = replay(graph.edges.first, graph.edges.before, work, residual)
    return int(times[ends].max()) if len(ends) else 0
