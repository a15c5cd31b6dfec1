"""The graph of ops, and parts of it."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from tracebraid.analysis.device import device_events_by_step
from tracebraid.analysis.ops.op_times import op_times
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.answers.ops import OP_GRAPH_EDGES, OP_GRAPH_NODES, OpEdge, OpNode
from tracebraid.model.category import Role, categories_of
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace


class OpGraph(NamedTuple):
    """A graph of ops.

    Args:
        nodes: `OP_GRAPH_NODES`.
        edges: `OP_GRAPH_EDGES`.
    """

    nodes: pl.DataFrame
    edges: pl.DataFrame


def op_graph(linked: LinkedTrace, step: str | None = None) -> OpGraph:
    """The ops, annotations and device events of a rank, and the edges between them.

    Data flows between ops that are linked with nodes of the Execution Trace; without one there are no such edges.
    """
    nodes = pl.concat([_ops(linked), _device_work(linked)])
    if step is not None:
        nodes = nodes.filter(step=step)
    nodes = _with_rank(linked, nodes)
    edges = pl.concat([_calls(linked), _launches(linked), _data(linked), _backward(linked)])
    events = nodes.get_column("event_id").implode()
    edges = edges.filter(
        pl.col("source").is_in(events), pl.col("target").is_in(events), pl.col("source") != pl.col("target")
    )
    edges = edges.unique().sort("source", "target", "kind").with_columns(pl.lit(linked.rank).alias("rank"))
    return OpGraph(OP_GRAPH_NODES.conform(nodes, fill_missing=True), OP_GRAPH_EDGES.conform(edges))


def _ops(linked: LinkedTrace) -> pl.DataFrame:
    times = step_of_moments(op_times(linked).drop("row"), step_windows(linked))
    details = linked.timeline.host_ops.select("event_id", as_text("input_dims", "input_types"))
    is_annotation = as_text("category").is_in(categories_of(Role.ANNOTATION))
    nodes = times.join(details, on="event_id", how="left", maintain_order="left").with_columns(
        pl.when(is_annotation)
        .then(pl.lit(OpNode.ANNOTATION.value))
        .otherwise(pl.lit(OpNode.OP.value))
        .alias("kind"),
        pl.col("inclusive_ns").alias("duration_ns"),
        pl.col("op_exclusive_ns").alias("host_self_ns"),
    )
    if linked.has_et:
        links = linked.host_links.select("event_id", "node_id")
        nodes = nodes.join(links, on="event_id", how="left", maintain_order="left")
    else:
        nodes = nodes.with_columns(pl.lit(None, dtype=pl.Int64).alias("node_id"))
    return _columns(nodes)


def _device_work(linked: LinkedTrace) -> pl.DataFrame:
    events = device_events_by_step(linked)
    return _columns(
        events.with_columns(
            pl.lit(OpNode.DEVICE_WORK.value).alias("kind"),
            pl.col("dur_ns").alias("duration_ns"),
            *(
                pl.lit(None, dtype=dtype).alias(name)
                for name, dtype in OP_GRAPH_NODES.polars_schema().items()
                if name in _OF_OPS
            ),
        )
    )


_OF_OPS = (
    "node_id",
    "input_dims",
    "input_types",
    "host_self_ns",
    "kernels",
    "device_self_ns",
    "device_total_ns",
)
"""Columns of nodes that device events have not."""


def _columns(nodes: pl.DataFrame) -> pl.DataFrame:
    return nodes.select("event_id", "kind", as_text("name"), "step", "ts_ns", "duration_ns", *_OF_OPS)


def _with_rank(linked: LinkedTrace, nodes: pl.DataFrame) -> pl.DataFrame:
    first = linked.timeline.span_ns
    start = pl.col("ts_ns") - (0 if first is None else first[0])
    return nodes.with_columns(
        start.alias("start_ns"), pl.lit(linked.rank).alias("rank"), pl.col("name").fill_null("")
    )


def _edges(pairs: pl.DataFrame, source: str, target: str, kind: OpEdge) -> pl.DataFrame:
    return pairs.select(
        pl.col(source).alias("source"), pl.col(target).alias("target"), pl.lit(kind.value).alias("kind")
    ).drop_nulls()


def _calls(linked: LinkedTrace) -> pl.DataFrame:
    tree = linked.host_tree.filter(pl.col("op_exclusive_ns").is_not_null())
    return _edges(tree, "op_event", "event_id", OpEdge.CALL)


def _launches(linked: LinkedTrace) -> pl.DataFrame:
    return _edges(linked.launches, "op_event", "event_id", OpEdge.LAUNCH)


def _backward(linked: LinkedTrace) -> pl.DataFrame:
    return _edges(linked.forward_backward, "forward_event", "backward_event", OpEdge.FORWARD_BACKWARD)


def _data(linked: LinkedTrace) -> pl.DataFrame:
    et = linked.et
    if et is None:
        none = pl.DataFrame(schema={"before": pl.Int64, "after": pl.Int64})
        return _edges(none, "before", "after", OpEdge.DATA)
    events = linked.node_links.select("node_id", "event_id").drop_nulls()
    flows = (
        et.tensor_edges.select("producer", "consumer")
        .unique()
        .join(events.rename({"event_id": "before"}), left_on="producer", right_on="node_id")
        .join(events.rename({"event_id": "after"}), left_on="consumer", right_on="node_id")
    )
    return _edges(flows, "before", "after", OpEdge.DATA)


_EVENT = pl.col("event_id")


def top(graph: OpGraph, count: int) -> OpGraph:
    """Select the ops with the most self time, their launches, and the ops and annotations around them."""
    ops = graph.nodes.filter(kind=OpNode.OP.value)
    greatest = ops.sort("device_self_ns", "host_self_ns", "event_id", descending=[True, True, False]).head(
        count
    )
    wanted = greatest.get_column("event_id")
    launched = _targets(graph.edges.filter(kind=OpEdge.LAUNCH.value), wanted)
    return _with_events(graph, pl.concat([wanted, _enclosing(graph, wanted), launched]))


def near(graph: OpGraph, name: str) -> OpGraph:
    """Select the ops of a name with everything in and around them, and direct neighbours."""
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
