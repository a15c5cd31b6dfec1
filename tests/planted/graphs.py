"""Dependency graphs of planted jobs, and what holds of every dependency graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from tests.planted.jobs import PlannedJob
from tracebraid.graph.joining import join_ranks
from tracebraid.graph.rank_graph import rank_graph
from tracebraid.linking.ranks.clocks import link_ranks
from tracebraid.model.graph import DependencyGraph
from tracebraid.simulation.replay import replay


def graph_of(job: PlannedJob, missing: Sequence[int] = ()) -> DependencyGraph:
    """The graph of a planted job, of which some ranks may be missing."""
    ranks = [rank for rank in range(job.world_size) if rank not in missing]
    linked = link_ranks(job.parts(missing))
    return join_ranks([rank_graph(job.linked(rank)) for rank in ranks], linked)


def check_graph(graph: DependencyGraph) -> None:
    """Check what holds of every graph: no cycle, nothing negative, measured times by replay, rows in their order."""
    moments, edges = graph.moments, graph.edges
    assert len(moments) == 2 * graph.activities.height
    assert (edges.before < graph.after).all()
    assert edges.work_ns.min(initial=0) >= 0
    assert moments.residual_ns.min(initial=0) >= 0
    assert edges.first[0] == 0
    assert edges.first[-1] == len(edges)
    assert (moments.activity[graph.moment_of[:, 0]] == np.arange(graph.activities.height)).all()
    assert (moments.point[graph.moment_of[:, 1]] == 1).all()
    earliest = moments.time_ns.min(initial=np.iinfo(np.int64).max)
    replayed = replay(edges.first, edges.before, edges.work_ns, moments.residual_ns)
    assert (replayed == moments.time_ns - earliest).all()


def member_moments(graph: DependencyGraph, rank: int, event_id: int) -> tuple[int, int]:
    """The moments of the start and end of an event."""
    rows = graph.activities.with_row_index("activity")
    is_it = (pl.col("rank") == rank) & (pl.col("event_id") == event_id)
    activity = rows.row(by_predicate=is_it, named=True)
    start, end = graph.moment_of[activity["activity"]]
    return int(start), int(end)
