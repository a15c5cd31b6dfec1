"""Collectives merged into buckets."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.latest_edges import edge_list, with_edges, without_edges
from tracebraid.model.graph import DependencyGraph, EdgeKind, Point, Residual
from tracebraid.native.loops import native_loop
from tracebraid.simulation.changes.communication import (
    BETWEEN_RANKS,
    communication_costs,
    drop_residuals,
    whole_ns,
    with_work,
)
from tracebraid.simulation.changes.move import asked_by, with_nested, without_callers
from tracebraid.simulation.changes.verbs import On, Value, verb

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]

_OF_RESULT = (
    EdgeKind.STREAM_ORDER,
    EdgeKind.EVENT_WAIT,
    EdgeKind.SYNC,
    EdgeKind.THREAD,
    EdgeKind.COMMUNICATION_WAIT,
)
"""Edges from the end of a collective to what needs its result."""


@verb("merge", Value.SIZE, on=On.TRANSFERS, error=0.2)
def merged(graph: DependencyGraph, chosen: _Bools, most_bytes: float) -> DependencyGraph:
    """Merge consecutive collectives of a group, type and step into buckets of at most this size.

    The last of a bucket transfers for all: the mean of their times, and what the sizes of the others take by the fitted
    line; the sum of all times where there is none. The host calls the last alone: the calls of the others take no time,
    gaps inside are gone; an error if something in between waits for the first. A thread that waited for host
    communication before it requested the last no longer does.
    """
    costs = communication_costs(graph, chosen)
    last = _last_of_bucket(graph, np.unique(graph.edges.activity[costs.edges]), most_bytes)
    activity = graph.edges.activity[costs.edges]
    bucket = last[activity]
    work = graph.edges.work_ns.copy()
    alone_ns = work[costs.edges].astype(np.float64)
    count, total_ns, size_ns = (
        np.bincount(bucket, weights, minlength=len(last))[bucket]
        for weights in (None, alone_ns, costs.size_ns)
    )
    merged_ns = np.where(costs.known, total_ns / count + (1 - 1 / count) * size_ns, total_ns)
    left_ns = np.where(bucket == activity, merged_ns, 0.0)
    work[costs.edges] = whole_ns(np.where(count > 1, left_ns, alone_ns))
    return _as_one(_waiting_for_last(_asked_once(with_work(graph, work), last), last), last)


def _as_one(graph: DependencyGraph, last: _Ints) -> DependencyGraph:
    """The graph in which the last of each bucket has the bytes of all, and the others meet no other rank."""
    merged = last != np.arange(len(last))
    in_bucket = merged.copy()
    in_bucket[last[merged]] = True
    sizes = graph.activities.get_column("size_bytes").fill_null(0).to_numpy()
    total = np.zeros(len(last), dtype=np.int64)
    np.add.at(total, last[in_bucket], sizes[in_bucket])
    size = pl.when(pl.Series(in_bucket)).then(pl.Series(total)).otherwise("size_bytes").alias("size_bytes")
    activity, edges = graph.moments.activity, graph.edges
    meets = np.isin(edges.kind, BETWEEN_RANKS) & (
        merged[activity[edges.before]] | merged[activity[graph.after]]
    )
    return replace(without_edges(graph, meets), activities=graph.activities.with_columns(size))


def _asked_once(graph: DependencyGraph, last: _Ints) -> DependencyGraph:
    """The graph in which only the last of each bucket is asked for: by the op, or the call of its launch."""
    edges, asked = graph.edges, asked_by(graph)
    merged = np.flatnonzero(last != np.arange(len(last)))
    gone, kept = (np.zeros(len(last), dtype=np.bool_) for _ in range(2))
    gone[asked[merged][asked[merged] >= 0]] = True
    kept[asked[last[merged]][asked[last[merged]] >= 0]] = True
    gone = with_nested(graph, gone & ~kept)
    quiet = (edges.kind == EdgeKind.HOST) & gone[edges.activity]
    work = np.where(quiet, 0, edges.work_ns)
    return with_work(graph, without_callers(graph, gone, work))


def _last_of_bucket(graph: DependencyGraph, members: _Ints, most_bytes: float) -> _Ints:
    """Return the last member of each activity's bucket on its rank; itself if it has none."""
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


@native_loop
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
    needless = moves & _waits_before_issue(graph, last)
    moved = edges[moves & ~needless]
    moved.before[:] = graph.moment_of[last[of[moves & ~needless]], Point.END]
    work = np.where(inside, 0, graph.edges.work_ns)
    late = np.zeros(len(moments), dtype=np.bool_)
    late[edges.after[needless]] = True
    late &= moments.residual == Residual.COMMUNICATION
    return with_edges(without_edges(drop_residuals(with_work(graph, work), late), moves), moved)


def _waits_before_issue(graph: DependencyGraph, last: _Ints) -> _Bools:
    """Return whether each edge is a thread's wait for communication before it issues the bucket's last."""
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
