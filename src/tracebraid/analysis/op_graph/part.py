"""A part of a graph of ops: what takes the most time, or what is near an op."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.op_graph.op_graph import OpGraph
from tracebraid.model.answers import OpEdge, OpNode

__all__ = ["near", "top"]

_EVENT = pl.col("event_id")


def top(graph: OpGraph, count: int) -> OpGraph:
    """The ops with the most self time, what they launched, and the ops and annotations around them.

    Args:
        graph: of a single rank.
        count: how many ops: by the device time that they launched themselves, then by their host self time.
    """
    ops = graph.nodes.filter(kind=OpNode.OP.value)
    greatest = ops.sort("device_self_ns", "host_self_ns", "event_id", descending=[True, True, False]).head(
        count
    )
    wanted = greatest.get_column("event_id")
    launched = _targets(graph.edges.filter(kind=OpEdge.LAUNCH.value), wanted)
    return _with_events(graph, pl.concat([wanted, _enclosing(graph, wanted), launched]))


def near(graph: OpGraph, name: str) -> OpGraph:
    """The ops of a name with all that is in them and around them, and what is a single edge away.

    Args:
        graph: of a single rank.
        name: of ops, annotations or device events, exactly.
    """
    named = graph.nodes.filter(name=name).get_column("event_id")
    inside = named
    calls = graph.edges.filter(pl.col("kind").is_in([OpEdge.CALL.value, OpEdge.LAUNCH.value]))
    found = named
    while not inside.is_empty():
        inside = _targets(calls, inside)
        inside = inside.filter(~inside.is_in(found.implode()))
        found = pl.concat([found, inside])
    crossing = graph.edges.filter(
        pl.col("source").is_in(found.implode()) | pl.col("target").is_in(found.implode())
    )
    neighbours = pl.concat([crossing.get_column("source"), crossing.get_column("target").alias("source")])
    return _with_events(graph, pl.concat([found, neighbours.alias("event_id"), _enclosing(graph, named)]))


def _targets(edges: pl.DataFrame, sources: pl.Series) -> pl.Series:
    found = edges.filter(pl.col("source").is_in(sources.implode()))
    return found.get_column("target").alias("event_id").unique(maintain_order=True)


def _enclosing(graph: OpGraph, events: pl.Series) -> pl.Series:
    """The ops and annotations that enclose some, at any depth; the launching op and what encloses it."""
    upwards = graph.edges.filter(pl.col("kind").is_in([OpEdge.CALL.value, OpEdge.LAUNCH.value]))
    outer_of = dict(upwards.select("target", "source").iter_rows())
    found: dict[int, None] = {}
    for event in events.to_list():
        outer = outer_of.get(event)
        while outer is not None and outer not in found:
            found[outer] = None
            outer = outer_of.get(outer)
    return pl.Series("event_id", list(found), dtype=pl.Int64)


def _with_events(graph: OpGraph, events: pl.Series) -> OpGraph:
    wanted = events.unique().implode()
    return OpGraph(
        graph.nodes.filter(_EVENT.is_in(wanted)),
        graph.edges.filter(pl.col("source").is_in(wanted), pl.col("target").is_in(wanted)),
    )
