"""Slack: how much longer each activity can be without any step or the job ending later."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.graph.critical_path.step_bounds import StepBounds
from tracebraid.graph.latest_edges import ready_times
from tracebraid.model.answers.graph.critical_path import SLACK
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.dependency_graph import DependencyGraph

__all__ = ["OWN_WORK", "edge_slack", "own_work", "slack"]

_Ints = NDArray[np.int64]

OWN_WORK = (EdgeKind.HOST, EdgeKind.DEVICE, EdgeKind.TRANSFER)
"""The edges whose work is the duration of their activity; that of others is a latency before it."""
_UNLIMITED = np.iinfo(np.int64).max


def slack(graph: DependencyGraph, edges_slack: _Ints) -> pl.DataFrame:
    """`SLACK`: of each activity the least slack of its own edges.

    Args:
        graph: the graph.
        edges_slack: `edge_slack`.
    """
    own = np.flatnonzero(np.isin(graph.edges.kind, OWN_WORK))
    found = np.full(graph.activities.height, _UNLIMITED, dtype=np.int64)
    np.minimum.at(found, graph.edges.activity[own], edges_slack[own])
    rows = graph.activities.with_columns(
        (pl.col("end_ns") - pl.col("start_ns")).alias("duration_ns"),
        pl.Series("work_ns", own_work(graph)),
        pl.Series("slack_ns", found).replace(_UNLIMITED, None),
    ).with_row_index("activity")
    return SLACK.conform(rows)


def own_work(graph: DependencyGraph) -> _Ints:
    """The work of each activity's own edges, in ns."""
    own = np.isin(graph.edges.kind, OWN_WORK)
    work = np.zeros(graph.activities.height, dtype=np.int64)
    np.add.at(work, graph.edges.activity[own], graph.edges.work_ns[own])
    return work


def edge_slack(graph: DependencyGraph, bounds: Sequence[StepBounds]) -> _Ints:
    """How much more work each edge can have without any step or the job ending later.

    The latest time of a moment is the earliest of those of what waits for it, less their residuals and the work
    between; of the ends of a step it is the end of the step, of all others the last moment of the job at most. The
    slack of an edge is what is left between it and the latest time of its moment: the total float of project
    planning (Kelley and Walker, Critical-Path Planning and Scheduling, 1959).
    """
    moments, edges = graph.moments, graph.edges
    latest_ns = np.full(len(moments), moments.time_ns.max(initial=0), dtype=np.int64)
    for step in bounds:
        latest_ns[step.ends] = np.minimum(latest_ns[step.ends], step.end_ns)
    _pass_back(edges.first, edges.before, edges.work_ns, moments.residual_ns, latest_ns)
    after = graph.after
    ready_ns = ready_times(edges, moments.time_ns)
    left: _Ints = latest_ns[after] - moments.residual_ns[after] - ready_ns
    return left


@compiled
def _pass_back(
    first: _Ints, before: NDArray[np.int32], work_ns: _Ints, residual_ns: _Ints, latest_ns: _Ints
) -> None:
    """Lower the latest time of each moment to what those that wait for it allow."""
    for moment in range(len(residual_ns) - 1, -1, -1):
        allowed = latest_ns[moment] - residual_ns[moment]
        for edge in range(first[moment], first[moment + 1]):
            latest = allowed - work_ns[edge]
            if latest < latest_ns[before[edge]]:
                latest_ns[before[edge]] = latest
