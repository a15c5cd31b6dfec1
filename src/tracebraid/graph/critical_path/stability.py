"""How stable a path is: replays of a step in which durations are those of other steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.graph.critical_path.resampling import Samples
from tracebraid.graph.critical_path.slack import OWN_WORK
from tracebraid.graph.critical_path.step_bounds import StepBounds
from tracebraid.model.answers.graph.critical_path import PATH_STABILITY
from tracebraid.model.graph.dependency_graph import DependencyGraph

__all__ = ["replays_on_path", "stability_table"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

_SEED = 20_140
"""The state from which the numbers of every step's replays begin: the same in every run."""
_NOT_READY = -(2**63)
"""The ready time of a moment before any edge to it is seen."""


class _Window(NamedTuple):
    """The part of a graph that a step's path lies in, numbered from 0; what is not later than the
    start of the step keeps its measured times.

    Args:
        first: where the edges of each moment begin.
        before: the moment before of each edge; negative: before the window.
        work_ns: of each edge.
        activity: of each edge, numbered within the window.
        resampled: whether the edge's work is its activity's own.
        allowed: whether a path may take it.
        time_ns: measured, of each moment.
        before_ns: measured, of the moment before of each edge.
        residual_ns: of each moment.
        ends: the moments at which the step may end.
        limits: the start of the step in ns; the number of replays.
    """

    first: _Ints
    before: _Ints
    work_ns: _Ints
    activity: _Ints
    resampled: _Flags
    allowed: _Flags
    time_ns: _Ints
    before_ns: _Ints
    residual_ns: _Ints
    ends: _Ints
    limits: _Ints


def replays_on_path(
    graph: DependencyGraph, bounds: StepBounds, drawn: Samples, allowed: _Flags, replays: int
) -> tuple[_Ints, _Ints]:
    """The activities that are on the path of a step in any replay, and in how many each is.

    In each replay every activity of the step's window gets a duration of its group (`samples`); its work at each
    point of it changes in proportion. Latencies and residuals stay as they are.

    Args:
        graph: the graph.
        bounds: of the step.
        drawn: what durations are drawn from.
        allowed: the edges that the path may take.
        replays: how many.
    """
    lowest = int(np.searchsorted(graph.moments.time_ns, bounds.start_ns, side="right"))
    ends = bounds.ends[bounds.ends >= lowest]
    if not len(ends):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    highest = int(ends.max()) + 1
    edges = slice(int(graph.edges.first[lowest]), int(graph.edges.first[highest]))
    activities, number = np.unique(graph.edges.activity[edges], return_inverse=True)
    before = graph.edges.before[edges]
    window = _Window(
        graph.edges.first[lowest : highest + 1] - edges.start,
        before.astype(np.int64) - lowest,
        graph.edges.work_ns[edges],
        number.astype(np.int64).reshape(-1),
        np.isin(graph.edges.kind[edges], OWN_WORK),
        allowed[edges],
        graph.moments.time_ns[lowest:highest],
        graph.moments.time_ns[before],
        graph.moments.residual_ns[lowest:highest],
        ends - lowest,
        np.array([bounds.start_ns, replays], dtype=np.int64),
    )
    groups = (drawn.first[activities], drawn.count[activities], drawn.own_ns[activities])
    counted = np.zeros(len(activities), dtype=np.int64)
    _count(window, groups, drawn.work_ns, _SEED, counted)
    seen = np.flatnonzero(counted)
    return activities[seen].astype(np.int64), counted[seen]


@compiled
def _count(
    window: _Window, groups: tuple[_Ints, _Ints, _Ints], drawn_ns: _Ints, seed: int, counted: _Ints
) -> None:
    """In how many replays each activity of the window is on the path."""
    group_first, group_count, own_ns = groups
    last_seen, factor = np.empty(len(own_ns), dtype=np.int64), np.empty(len(own_ns), dtype=np.float64)
    for activity in range(len(own_ns)):
        last_seen[activity], factor[activity] = -1, 1.0
    times = np.empty(len(window.time_ns), dtype=np.int64)
    latest_edge = np.empty(len(window.time_ns), dtype=np.int64)
    start_ns = window.limits[0]
    state = seed
    for replay in range(window.limits[1]):
        for activity in range(len(own_ns)):
            if group_count[activity] > 1 and own_ns[activity] > 0:
                # "Minimal standard" generator (Park and Miller, 1988): multiplier 48271, modulus 2^31 - 1.
                state = (state * 48271) % 2147483647
                drawn = group_first[activity] + (state * group_count[activity]) // 2147483647
                factor[activity] = drawn_ns[drawn] / own_ns[activity]
        for moment in range(len(times)):
            latest, allowed, chosen = _NOT_READY, _NOT_READY, -1
            for edge in range(window.first[moment], window.first[moment + 1]):
                work = window.work_ns[edge]
                if window.resampled[edge] and work > 0:
                    work = np.int64(work * factor[window.activity[edge]])
                before = window.before[edge]
                ready = (times[before] if before >= 0 else window.before_ns[edge]) + work
                latest = max(latest, ready)
                if window.allowed[edge] and ready > allowed:
                    allowed, chosen = ready, edge
            if latest == _NOT_READY:
                times[moment] = window.time_ns[moment]
            else:
                times[moment] = latest + window.residual_ns[moment]
            latest_edge[moment] = chosen
        current = window.ends[0]
        for end in window.ends:
            if times[end] > times[current]:
                current = end
        while current >= 0 and times[current] > start_ns and latest_edge[current] >= 0:
            edge = latest_edge[current]
            activity = window.activity[edge]
            if window.resampled[edge] and window.work_ns[edge] > 0 and last_seen[activity] != replay:
                last_seen[activity] = replay
                counted[activity] += 1
            current = window.before[edge]


def stability_table(
    graph: DependencyGraph,
    step: str | None,
    counted: tuple[_Ints, _Ints],
    on_path: _Ints,
    replays: int,
) -> pl.DataFrame:
    """`PATH_STABILITY` of a step.

    Args:
        graph: the graph.
        step: its name.
        counted: `replays_on_path`.
        on_path: the activities on the measured path.
        replays: how many replays there were.
    """
    activities, times = counted
    rows = graph.activities[activities].with_columns(
        pl.lit(step, dtype=pl.String).alias("step"),
        pl.Series("activity", activities, dtype=pl.Int64),
        pl.Series("is_on_path", np.isin(activities, on_path)),
        pl.Series("on_path", times / max(replays, 1)),
        pl.lit(replays).alias("replays"),
    )
    return PATH_STABILITY.conform(rows).sort("on_path", "activity", descending=[True, False])
