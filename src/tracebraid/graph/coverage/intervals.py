"""The time of each thread and stream from moment to moment, and what the graph says of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.graph.latest_edges import latest_edges
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.dependency_graph import DependencyGraph

__all__ = ["Intervals", "intervals"]

_Ints = NDArray[np.int64]

_OWN = (EdgeKind.HOST, EdgeKind.DEVICE, EdgeKind.TRANSFER)
"""Edges whose work is what the thread or stream does, and no latency."""


@dataclass(frozen=True, eq=False)
class Intervals:
    """The intervals of all threads and streams, each from a moment to the next one; by thread or stream, then in time.

    An interval is work + latency + waiting + residual, each at least 0 ns.

    Args:
        moment: at which it ends.
        track: the thread or stream: a number of this table alone.
        edge: what the moment waited for the longest; -1: for nothing.
        work_ns: what the thread or stream did meanwhile, by that edge.
        latency_ns: a usual latency, by that edge.
        waiting_ns: until what it waited for had happened.
        residual_ns: what is not explained.
    """

    moment: _Ints
    track: _Ints
    edge: _Ints
    work_ns: _Ints
    latency_ns: _Ints
    waiting_ns: _Ints
    residual_ns: _Ints


def intervals(graph: DependencyGraph) -> Intervals:
    """All intervals of a graph; collectives have none, their members do."""
    moments, edges = graph.moments, graph.edges
    track = _tracks(graph.activities)[moments.activity]
    by_track = np.argsort(track, kind="stable")
    by_track = by_track[np.searchsorted(track[by_track], 0) :]
    follows = track[by_track[1:]] == track[by_track[:-1]]
    moment, before = by_track[1:][follows], by_track[:-1][follows]
    span = np.maximum(moments.time_ns[moment] - moments.time_ns[before], 0)
    latest = latest_edges(edges, moments.time_ns)[moment]
    has_edge = latest >= 0
    residual = np.where(has_edge, np.minimum(moments.residual_ns[moment], span), span)
    rest = span - residual
    if not len(edges):
        nothing = np.zeros(len(moment), dtype=np.int64)
        return Intervals(moment, track[moment], latest, nothing, nothing, nothing, residual)
    work = np.where(has_edge, np.minimum(edges.work_ns[latest], rest), 0)
    own = np.isin(edges.kind[latest], [int(kind) for kind in _OWN])
    return Intervals(
        moment, track[moment], latest, np.where(own, work, 0), np.where(own, 0, work), rest - work, residual
    )


def _tracks(activities: pl.DataFrame) -> _Ints:
    """The thread or stream of each activity as a number; -1: it is on none."""
    lanes = activities.select("rank", "lane")
    known = lanes.drop_nulls().unique().sort("rank", "lane").with_row_index("track")
    found = lanes.join(known, on=["rank", "lane"], how="left", maintain_order="left")
    tracks: _Ints = found.get_column("track").cast(pl.Int64).fill_null(-1).to_numpy()
    return tracks
