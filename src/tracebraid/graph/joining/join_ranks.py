"""The parts of all ranks as one dependency graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from tracebraid.graph.joining.collective_edges import Joined, joined_by_collectives
from tracebraid.graph.joining.edges_in_order import edges_in_order
from tracebraid.graph.joining.graph_steps import graph_steps
from tracebraid.graph.joining.order import order_of
from tracebraid.graph.joining.residuals import residuals
from tracebraid.model.graph.dependency_graph import DependencyGraph, Moments
from tracebraid.model.graph.rank_graph import EdgeList, RankGraph
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.graph import ACTIVITIES, LATENCIES
from tracebraid.model.step import PROFILER_STEP

__all__ = ["join_ranks"]


def join_ranks(
    parts: Sequence[RankGraph], ranks: LinkedRanks, annotation: str = PROFILER_STEP
) -> DependencyGraph:
    """Join the parts of all ranks: their clocks aligned, their collectives waiting for all members.

    Args:
        parts: of each rank, each rank once.
        ranks: the ranks, linked with each other.
        annotation: what marks a step.
    """
    ordered = sorted(parts, key=lambda part: part.rank)
    joined = joined_by_collectives(_before_joining(ordered, ranks), ranks)
    forward = (
        joined.times_ns[joined.edges.before] + joined.edges.work_ns <= joined.times_ns[joined.edges.after]
    )
    edges = joined.edges[forward]
    order = order_of(joined.times_ns, edges)
    moment_of = order.position.astype(np.int32).reshape(-1, 2)
    in_order = edges_in_order(edges[order.forward], order)
    times_ns = joined.times_ns[order.moments]
    ready_ns = times_ns[in_order.before] + in_order.work_ns
    residual_ns, residual = residuals(in_order.first, ready_ns, in_order.kind, times_ns)
    moments = Moments(
        order.moments // 2, (order.moments % 2).astype(np.uint8), times_ns, residual_ns, residual
    )
    findings = (*ranks.findings, *(finding for part in ordered for finding in part.findings))
    return DependencyGraph(
        joined.activities,
        moments,
        in_order,
        moment_of,
        graph_steps(joined.activities, moment_of, annotation),
        LATENCIES.empty(),
        ranks,
        findings,
    )


def _before_joining(parts: Sequence[RankGraph], ranks: LinkedRanks) -> Joined:
    """All parts as one, on aligned clocks; the numbers of activities and moments go on from rank to rank."""
    activities = pl.concat([ACTIVITIES.empty(), *(part.activities for part in parts)])
    activities = ranks.aligned(activities, "start_ns", "end_ns")
    moments = pl.DataFrame(
        {
            "rank": np.repeat([part.rank for part in parts], [len(part.times_ns) for part in parts]),
            "time_ns": np.concatenate([np.empty(0, dtype=np.int64), *(part.times_ns for part in parts)]),
        },
        schema={"rank": pl.Int64, "time_ns": pl.Int64},
    )
    times_ns = ranks.aligned(moments, "time_ns").get_column("time_ns").to_numpy(writable=True)
    edges, first = [], 0
    for part in parts:
        edges.append(
            replace(
                part.edges,
                before=part.edges.before + 2 * first,
                after=part.edges.after + 2 * first,
                activity=part.edges.activity + first,
            )
        )
        first += part.activities.height
    nothing = np.empty(0, dtype=np.int64)
    none = EdgeList.of(nothing, nothing, 0, nothing)
    return Joined(ACTIVITIES.conform(activities), times_ns, EdgeList.joined([none, *edges]))
