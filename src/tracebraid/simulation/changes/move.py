"""Device work that is queued on another stream."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.rewiring import edge_list, with_edges, without_edges
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import EdgeKind, Point, Residual
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.rank_graph import EdgeList
from tracebraid.simulation.changes.nesting import launched_by
from tracebraid.simulation.changes.work import on_time

__all__ = ["moved"]

_Bools = NDArray[np.bool_]
_Ints = NDArray[np.int64]

_OVERLAPS = (EdgeKind.STREAM_OVERLAP, EdgeKind.STREAM_END)
_WAITS = (EdgeKind.SYNC, EdgeKind.EVENT_WAIT)


def moved(graph: DependencyGraph, chosen: _Bools, stream: float) -> DependencyGraph:
    """The chosen device work is queued on another stream of its rank, behind what was issued before it.

    What waited for it, and for what its old stream had done before, still waits for both. It itself waits no longer
    for its old stream, nor that for it: events and syncs that are there stay, no other is added.

    Args:
        graph: the graph.
        chosen: whether each activity is meant.
        stream: number of the stream; one that the rank does not have is a new stream.

    Raises:
        ArgumentError: none of them is device work of another stream, a rank has streams of that number on several
            devices, work overlaps on its stream by programmatic launches, or what is queued would wait for itself.
    """
    table = graph.activities.select("rank", "lane", "stream")
    number = table.get_column("stream").fill_null(-1).to_numpy()
    meant = chosen & (number >= 0) & (number != int(stream))
    if not meant.any():
        raise ArgumentError(
            "nothing that was selected is device work of another stream; offload moves host work"
        )
    touched = _touched(graph, meant)
    if (touched & np.isin(graph.edges.kind, _OVERLAPS)).any():
        raise ArgumentError(
            "some of the selected work overlaps on its stream by programmatic launches: it cannot be moved alone"
        )
    queue = _queues(graph, meant, int(stream))
    work = np.flatnonzero(table.get_column("stream").is_not_null().to_numpy())
    old = table.select(pl.struct("rank", "lane").rank("dense")).to_series().to_numpy().astype(np.int64)
    by_start = work[np.lexsort((graph.moment_of[work, Point.START], old[work]))]
    before = _last_that_stays(by_start, old, meant)
    issued = _issued(graph)
    by_issue = work[np.lexsort((graph.moment_of[work, Point.START], issued[work], queue[work]))]
    first, second = by_issue[:-1], by_issue[1:]
    behind = (queue[first] == queue[second]) & (meant[first] | meant[second])
    added = EdgeList.joined(
        [
            _order(graph, first[behind], second[behind]),
            _closed(graph, by_start, before, meant),
            _still_waited_for(graph, before, meant),
        ]
    )
    late = np.zeros(len(graph.moments), dtype=np.bool_)
    starts = graph.moment_of[meant, Point.START]
    late[starts] = graph.moments.residual[starts] == Residual.STREAM
    dropped = touched & (graph.edges.kind == EdgeKind.STREAM_ORDER)
    found = with_edges(without_edges(on_time(graph, late), dropped), added)
    return replace(found, activities=_with_stream(graph.activities, meant, int(stream)))


def _touched(graph: DependencyGraph, meant: _Bools) -> _Bools:
    """Whether each edge comes from or goes to one of them."""
    of = graph.moments.activity
    found: _Bools = meant[of[graph.edges.before]] | meant[of[graph.after]]
    return found


def _queues(graph: DependencyGraph, meant: _Bools, stream: int) -> _Ints:
    """A number for each activity, the same for those of a stream, with the chosen on their new one."""
    there = (
        graph.activities.filter(pl.col("stream") == stream).group_by("rank").agg(pl.col("lane").n_unique())
    )
    if there.filter(pl.col("lane") > 1).height:
        raise ArgumentError(f"a rank has stream {stream} on several devices: select work of other ranks")
    table = _with_stream(graph.activities, meant, stream).select(
        pl.struct("rank", "lane", "stream").rank("dense")
    )
    queues: _Ints = table.to_series().to_numpy().astype(np.int64)
    return queues


def _with_stream(activities: pl.DataFrame, meant: _Bools, stream: int) -> pl.DataFrame:
    """The activities with the chosen on their new stream; of a new stream the lane is null."""
    lanes = (
        activities.filter(pl.col("stream") == stream)
        .group_by("rank")
        .agg(pl.col("lane").first().alias("new"))
    )
    chosen = pl.lit(pl.Series(meant))
    return (
        activities.join(lanes, on="rank", how="left", maintain_order="left", nulls_equal=True)
        .with_columns(
            pl.when(chosen).then(pl.lit(stream, dtype=pl.Int64)).otherwise("stream").alias("stream"),
            pl.when(chosen).then("new").otherwise("lane").alias("lane"),
        )
        .drop("new")
    )


def _issued(graph: DependencyGraph) -> _Ints:
    """When each activity was issued, as a moment: the start of its call, or its own where that is not known."""
    by = launched_by(graph)
    own = graph.moment_of[:, Point.START].astype(np.int64)
    found: _Ints = np.where(by >= 0, own[np.maximum(by, 0)], own)
    return found


def _last_that_stays(by_start: _Ints, old: _Ints, meant: _Bools) -> _Ints:
    """For each device work the last before it on its stream that is not moved; -1: none."""
    found = np.full(len(meant), -1, dtype=np.int64)
    stays = np.where(meant[by_start], -1, np.arange(len(by_start)))
    latest = np.maximum.accumulate(np.r_[-1, stays[:-1]])
    known = (latest >= 0) & (old[by_start[np.maximum(latest, 0)]] == old[by_start])
    found[by_start] = np.where(known, by_start[np.maximum(latest, 0)], -1)
    return found


def _closed(graph: DependencyGraph, by_start: _Ints, before: _Ints, meant: _Bools) -> EdgeList:
    """The old streams, closed where work was moved away: the next waits for the last that stays."""
    next_of = by_start[1:][meant[by_start[:-1]] & ~meant[by_start[1:]]]
    next_of = next_of[before[next_of] >= 0]
    return _order(graph, before[next_of], next_of)


def _order(graph: DependencyGraph, first: _Ints, second: _Ints) -> EdgeList:
    """The order of a stream, with the gap that is usual on the rank between such works."""
    kinds = graph.activities.select("rank", kind=as_text("kind"))
    pairs = kinds[pl.Series(first)].with_columns(
        key=pl.concat_str("kind", kinds.get_column("kind").gather(second), separator=" > ")
    )
    usual = graph.latencies.filter(as_text("kind") == EdgeKind.STREAM_ORDER.name.lower())
    gaps = pairs.join(
        usual.select("rank", "key", "typical_ns"), on=["rank", "key"], how="left", maintain_order="left"
    )
    work_ns = gaps.get_column("typical_ns").fill_null(0).cast(pl.Int64).to_numpy()
    ends = graph.moment_of[first, Point.END].astype(np.int64)
    return EdgeList.of(
        ends, graph.moment_of[second, Point.START].astype(np.int64), EdgeKind.STREAM_ORDER, second, work_ns
    )


def _still_waited_for(graph: DependencyGraph, before: _Ints, meant: _Bools) -> EdgeList:
    """Waits for moved work as waits for the last that stays before it, too: the old order stood for that."""
    edges = edge_list(graph)
    of, point = graph.moments.activity[edges.before], graph.moments.point[edges.before]
    waits = edges[np.isin(edges.kind, _WAITS) & meant[of] & (point == Point.END) & (before[of] >= 0)]
    waits.before[:] = graph.moment_of[before[graph.moments.activity[waits.before]], Point.END]
    return waits
