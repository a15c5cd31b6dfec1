"""The way back from the end of a step over what each moment waited for the longest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.graph.critical_path.step_bounds import StepBounds
from tracebraid.model.graph.dependency_graph import DependencyGraph

__all__ = ["EXCLUDED", "Way", "allowed_edges", "ready_times", "way_back"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

EXCLUDED = -(2**63)
"""The ready time of an edge that a way must not take."""


@dataclass(frozen=True, eq=False)
class Way:
    """The stretches of a path, from the start of a step to its end; each begins where the one before ends.

    Args:
        moment: the moment that each leads to.
        edge: the edge that the moment waited for the longest; -1: it waits for nothing.
        is_gap: whether the stretch lies behind that edge: the moment is later than all that it may wait for.
        start_ns: its start.
        end_ns: its end.
    """

    moment: _Ints
    edge: _Ints
    is_gap: _Flags
    start_ns: _Ints
    end_ns: _Ints


def ready_times(graph: DependencyGraph) -> _Ints:
    """When each edge lets its moment be: the time of the moment before plus the work."""
    times: _Ints = graph.moments.time_ns[graph.edges.before] + graph.edges.work_ns
    return times


def allowed_edges(graph: DependencyGraph, rank: int) -> _Flags:
    """The edges that a path within a rank may take: none comes from another rank."""
    ranks = graph.activities.get_column("rank").fill_null(-1).to_numpy()[graph.moments.activity]
    before, after = ranks[graph.edges.before], ranks[graph.after]
    allowed: _Flags = (before == rank) | ((before == -1) & (after == rank))
    return allowed


def way_back(graph: DependencyGraph, ready_ns: _Ints, bounds: StepBounds) -> Way:
    """The critical path of a step.

    From the latest end of the step back over the latest edge of each moment. Of equally late edges it takes the first
    of the moment's edges; these stand in the order in which `join_ranks` got them: a thread's own order first, then
    the duration of device work, then what linking found, then collectives. So the choice is the same in every run.

    Args:
        graph: the graph.
        ready_ns: `ready_times`, `EXCLUDED` for edges that must not be taken.
        bounds: where the step starts and ends; the path is cut at its start.
    """
    limits = np.array([bounds.end, bounds.start_ns], dtype=np.int64)
    edges = graph.edges
    moment, edge, is_gap, start, end, count = _walk(
        edges.first, edges.before, ready_ns, graph.moments.time_ns, limits
    )
    return Way(*(found[:count][::-1].copy() for found in (moment, edge, is_gap, start, end)))


@compiled
def _walk(
    first: _Ints, before: NDArray[np.int32], ready_ns: _Ints, times_ns: _Ints, limits: _Ints
) -> tuple[_Ints, _Ints, _Flags, _Ints, _Ints, int]:
    """The stretches from the last to the first, and how many there are; those without duration are left out."""
    current, start_ns = limits[0], limits[1]
    # Each moment of the way gives a gap and an edge at most.
    most = 2 * (current + 1)
    moments, edges = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    gaps = np.empty(most, dtype=np.bool_)
    starts, ends = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    count = 0
    while times_ns[current] > start_ns:
        latest, latest_ns = -1, EXCLUDED
        for edge in range(first[current], first[current + 1]):
            if ready_ns[edge] > latest_ns:
                latest, latest_ns = edge, ready_ns[edge]
        latest_ns = max(latest_ns, start_ns)
        if latest_ns < times_ns[current]:
            moments[count], edges[count], gaps[count] = current, latest, True
            starts[count], ends[count] = latest_ns, times_ns[current]
            count += 1
        if latest < 0 or latest_ns == start_ns:
            break
        begun = max(times_ns[before[latest]], start_ns)
        if begun < latest_ns:
            moments[count], edges[count], gaps[count] = current, latest, False
            starts[count], ends[count] = begun, latest_ns
            count += 1
        current = before[latest]
    return moments, edges, gaps, starts, ends, count
