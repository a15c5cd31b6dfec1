"""Collectives merged into buckets."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.errors import ArgumentError
from tracebraid.graph.rewiring import edge_list, with_edges, without_edges
from tracebraid.model.graph.codes import EdgeKind, Point, Residual
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.changes.communication import communication_costs
from tracebraid.simulation.changes.work import on_time, whole_ns, with_work

__all__ = ["merged"]

_Bools = NDArray[np.bool_]
_Ints = NDArray[np.int64]

_OF_RESULT = (
    EdgeKind.STREAM_ORDER,
    EdgeKind.EVENT_WAIT,
    EdgeKind.SYNC,
    EdgeKind.THREAD,
    EdgeKind.COMMUNICATION_WAIT,
)
"""Edges from the end of a collective to what needs its result."""


def merged(graph: DependencyGraph, chosen: _Bools, most_bytes: float) -> DependencyGraph:
    """Collectives of a group, type and step that follow each other become a bucket of at most so many bytes.

    The last of a bucket transfers for all, with one alpha: alpha + the sum of (time - alpha), which is not below 0:
    times that are less than the fitted alpha make up for those that are more. What waited for any of them waits for
    the last; but a thread that waited for communication of the host before it asked for the last goes
    on without.

    Args:
        graph: the graph.
        chosen: whether each activity is meant; those of unknown size are left as they are.
        most_bytes: the most of a bucket; a single collective may have more.

    Raises:
        ArgumentError: no two of them fit into a bucket, or what comes before the last of a bucket waits for an
            earlier one.
    """
    costs = communication_costs(graph, chosen)
    last = _last_of_bucket(graph, np.unique(graph.edges.activity[costs.edges]), most_bytes)
    activity = graph.edges.activity[costs.edges]
    work = graph.edges.work_ns.copy()
    beyond = np.zeros(len(last), dtype=np.float64)
    np.add.at(beyond, last[activity], work[costs.edges] - costs.fitted_ns)
    in_buckets = np.bincount(last[activity], minlength=len(last))[last[activity]] > 1
    merged_ns = costs.fitted_ns + np.maximum(beyond[activity], 0.0)
    alone_ns = work[costs.edges].astype(np.float64)
    total = np.where(in_buckets, np.where(last[activity] == activity, merged_ns, 0.0), alone_ns)
    work[costs.edges] = whole_ns(total)
    return _waiting_for_last(with_work(graph, work), last)


def _last_of_bucket(graph: DependencyGraph, members: _Ints, most_bytes: float) -> _Ints:
    """For each activity the last of its bucket on its rank; itself where it is in none."""
    table = graph.activities.select("rank", "lane", "group", "step", "size_bytes", "collective")
    types = graph.ranks.members.select("rank", "event_id", "type").unique(["rank", "event_id"])
    rows = (
        table.with_columns(graph.activities.get_column("event_id"))[pl.Series(members)]
        .with_columns(
            pl.Series("activity", members, dtype=pl.Int64),
            pl.Series("position", graph.moment_of[members, Point.START], dtype=pl.Int64),
        )
        .join(types, on=["rank", "event_id"], how="left", maintain_order="left")
        .drop_nulls("size_bytes")
        .with_columns(key=pl.struct("rank", "group", "type", "step").rank("dense").cast(pl.Int64))
        .sort("key", "position")
    )
    last = np.arange(graph.activities.height, dtype=np.int64)
    if rows.height:
        own = rows.get_column("activity").to_numpy()
        key, size = (rows.get_column(name).to_numpy() for name in ("key", "size_bytes"))
        bucket = _buckets(key, size, most_bytes)
        ends = np.flatnonzero(np.r_[bucket[1:] != bucket[:-1], True])
        last[own] = own[ends][bucket]
    if (last == np.arange(len(last))).all():
        raise ArgumentError(
            "no two of the selected collectives fit into a bucket: they must be of one group, type and step, "
            "of known size, and together not above the size given"
        )
    return last


@compiled
def _buckets(key: _Ints, size: _Ints, most_bytes: float) -> _Ints:
    """The number of each row's bucket, from 0 up, in the order of rows."""
    found = np.empty(len(key), dtype=np.int64)
    number, held = 0, 0.0
    for row in range(len(key)):
        if row > 0 and (key[row] != key[row - 1] or held + size[row] > most_bytes):
            number, held = number + 1, 0.0
        held += size[row]
        found[row] = number
    return found


def _waiting_for_last(graph: DependencyGraph, last: _Ints) -> DependencyGraph:
    edges, moments = edge_list(graph), graph.moments
    of, by = moments.activity[edges.before], moments.activity[edges.after]
    moves = (last[of] != of) & (moments.point[edges.before] == Point.END) & np.isin(edges.kind, _OF_RESULT)
    inside = moves & (last[by] == last[of])
    moves &= ~inside
    needless = moves & _waits_before_asking(graph, last)
    moved = edges[moves & ~needless]
    moved.before[:] = graph.moment_of[last[of[moves & ~needless]], Point.END]
    work = np.where(inside, 0, graph.edges.work_ns)
    late = np.zeros(len(moments), dtype=np.bool_)
    late[edges.after[needless]] = True
    late &= moments.residual == Residual.COMMUNICATION
    return with_edges(without_edges(on_time(with_work(graph, work), late), moves), moved)


def _waits_before_asking(graph: DependencyGraph, last: _Ints) -> _Bools:
    """Whether each edge is the wait of a thread for communication that comes before it asks for the bucket's last."""
    edges, moments, after = graph.edges, graph.moments, graph.after
    asks = (edges.kind == EdgeKind.THREAD) & (moments.point[after] == Point.START)
    asked = np.full(len(last), -1, dtype=np.int64)
    asked[moments.activity[after[asks]]] = edges.before[asks]
    until = asked[last[moments.activity[edges.before]]]
    threads = graph.activities.select(pl.struct("rank", "lane").rank("dense")).to_series().to_numpy()
    thread = threads[moments.activity]
    found: _Bools = (edges.kind == EdgeKind.COMMUNICATION_WAIT) & (after <= until)
    found &= thread[after] == thread[np.maximum(until, 0)]
    return found
