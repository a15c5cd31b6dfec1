"""A dependency graph with other edges, or with more activities, its moments in an order that suits them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.joining.edges_in_order import edges_in_order
from tracebraid.graph.joining.order import Order
from tracebraid.graph.joining.rows import Rows
from tracebraid.model.graph.codes import Residual
from tracebraid.model.graph.dependency_graph import DependencyGraph, Edges, Moments
from tracebraid.model.graph.rank_graph import EdgeList
from tracebraid.model.schema.graph import ACTIVITIES

__all__ = ["edge_list", "with_activities", "with_edges", "without_edges"]

_Bools = NDArray[np.bool_]


def edge_list(graph: DependencyGraph) -> EdgeList:
    """The edges of a graph, each with the moment that waits."""
    edges = graph.edges
    return EdgeList(
        edges.before.astype(np.int64),
        graph.after.astype(np.int64),
        edges.work_ns,
        edges.kind,
        edges.activity.astype(np.int64),
    )


def without_edges(graph: DependencyGraph, dropped: _Bools) -> DependencyGraph:
    """The graph without some of its edges; its moments keep their order.

    Args:
        graph: the graph.
        dropped: whether each edge is left out.
    """
    edges = graph.edges
    first = np.zeros(len(graph.moments) + 1, dtype=np.int64)
    np.cumsum(np.bincount(graph.after[~dropped], minlength=len(graph.moments)), out=first[1:])
    kept = ~dropped
    return replace(
        graph,
        edges=Edges(first, edges.before[kept], edges.work_ns[kept], edges.kind[kept], edges.activity[kept]),
    )


def with_edges(graph: DependencyGraph, added: EdgeList) -> DependencyGraph:
    """The graph with more edges, and its moments in a new order: whatever held their numbers holds them no more.

    Args:
        graph: the graph.
        added: edges between its moments; they may go against the order in which these are.

    Raises:
        ArgumentError: the edges close a cycle: something would have to wait for itself.
    """
    edges = EdgeList.joined([edge_list(graph), added])
    order, rows = edges_in_order(np.arange(len(graph.moments)), edges)
    if rows.backward:
        forward = order.position[edges.before] < order.position[edges.after]
        edge = int(np.flatnonzero(~forward)[0])
        waits, for_this = (_name(graph, int(moment)) for moment in (edges.after[edge], edges.before[edge]))
        raise ArgumentError(
            f"this cannot be: {waits} would wait for {for_this}, which itself waits for it. "
            "Select less, or events that do not depend on each other"
        )
    return _reordered(graph, rows, order)


def with_activities(graph: DependencyGraph, rows: pl.DataFrame) -> DependencyGraph:
    """The graph with more activities, of which the moments stand last, in pairs, and wait for nothing.

    Args:
        graph: the graph.
        rows: columns of `ACTIVITIES`; what is missing is null.
    """
    count, before = rows.height, len(graph.moments)
    fresh = before + np.arange(2 * count, dtype=np.int32).reshape(-1, 2)
    times = rows.select("start_ns", "end_ns").to_numpy().reshape(-1).astype(np.int64)
    moments, edges = graph.moments, graph.edges
    activity = graph.activities.height + np.arange(count, dtype=np.int64)
    none = np.zeros(2 * count, dtype=np.int64)
    return replace(
        graph,
        activities=pl.concat([graph.activities, ACTIVITIES.conform(rows, fill_missing=True)]),
        moments=Moments(
            np.r_[moments.activity, np.repeat(activity, 2)],
            np.r_[moments.point, np.tile(np.array([0, 1], dtype=np.uint8), count)],
            np.r_[moments.time_ns, times],
            np.r_[moments.residual_ns, none],
            np.r_[moments.residual, np.full(2 * count, Residual.NONE, dtype=np.uint8)],
        ),
        edges=replace(edges, first=np.r_[edges.first, edges.first[-1] + none]),
        moment_of=np.concatenate([graph.moment_of, fresh]),
    )


def _name(graph: DependencyGraph, moment: int) -> str:
    row = graph.activities.row(int(graph.moments.activity[moment]), named=True)
    rank = "" if row["rank"] is None else f" of rank {row['rank']}"
    return f"{row['kind']} {row['name']}{rank}"


def _reordered(graph: DependencyGraph, rows: Rows, order: Order) -> DependencyGraph:
    position, moments = order.position, graph.moments
    numbers = pl.Series(position, dtype=pl.Int64)
    columns = [
        numbers.gather(graph.steps.get_column(name)).alias(name)
        for name in ("start_moment", "host_end_moment", "device_end_moment")
    ]
    return replace(
        graph,
        moments=Moments(
            moments.activity[order.moments],
            moments.point[order.moments],
            moments.time_ns[order.moments],
            moments.residual_ns[order.moments],
            moments.residual[order.moments],
        ),
        edges=Edges(rows.first, rows.before, rows.work_ns, rows.kind, rows.activity),
        moment_of=position.astype(np.int32)[graph.moment_of],
        steps=graph.steps.with_columns(columns),
    )
