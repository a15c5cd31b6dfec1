"""The iterations of an Execution Trace, and a part of it as a trace of its own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from tracebraid.errors import ArgumentError
from tracebraid.model.expressions import as_text
from tracebraid.model.schema import ET_ITERATIONS
from tracebraid.model.stage import Stage
from tracebraid.model.tensor_graph import TensorGraph, devices_of

if TYPE_CHECKING:
    from tracebraid.model.execution_trace import ExecutionTrace

__all__ = ["iterations", "trimmed"]


def iterations(et: ExecutionTrace, annotation: str) -> pl.DataFrame:
    """The table `model.schema.ET_ITERATIONS`: from each node whose name contains the annotation to the next such."""
    marks = et.op_nodes.filter(as_text("name").str.contains(annotation, literal=True))
    # Of annotations inside of each other the outer one counts.
    marks = marks.filter(~pl.col("parent_id").is_in(marks.get_column("node_id").implode()).fill_null(False))
    starts = marks.sort("node_id").select(
        pl.int_range(pl.len()).alias("iteration"),
        as_text("name"),
        pl.col("node_id").alias("first_node"),
    )
    nodes = et.op_nodes.select("node_id").sort("node_id")
    within = nodes.join_asof(
        starts.select("iteration", "first_node"), left_on="node_id", right_on="first_node"
    )
    counts = (
        within.drop_nulls("iteration")
        .group_by("iteration")
        .agg(pl.col("node_id").max().alias("last_node"), pl.len().alias("nodes"))
    )
    return ET_ITERATIONS.conform(starts.join(counts, on="iteration", maintain_order="left"))


def trimmed(et: ExecutionTrace, iteration: int, annotation: str) -> ExecutionTrace:
    """One iteration alone, with the roots of the process and the threads, and what its nodes take and give.

    Raises:
        ArgumentError: there is no such iteration.
    """
    found = iterations(et, annotation)
    if not 0 <= iteration < found.height:
        raise ArgumentError(f"there is no iteration {iteration}; {annotation!r} begins {found.height}")
    first, last = found.select("first_node", "last_node").row(iteration)
    nodes = _under_roots(et.nodes.filter(pl.col("is_root") | pl.col("node_id").is_between(first, last)))
    kept = nodes.get_column("node_id").implode()
    graph = Stage(lambda: _graph_of(et.tensor_graph(), kept))
    return replace(
        et,
        nodes=nodes,
        values=et.values.filter(pl.col("node_id").is_in(kept)),
        tensor_graph=graph,
        tensor_devices=Stage(lambda: devices_of(graph().tensors)),
        collectives=et.collectives.filter(pl.col("node_id").is_in(kept)),
        extra_attrs=et.extra_attrs.filter(pl.col("node_id").is_in(kept)),
    )


def _graph_of(graph: TensorGraph, kept: pl.Series) -> TensorGraph:
    """What of a tensor graph is between some nodes; a tensor is its row, so that tensors are numbered again."""
    uses = graph.uses.filter(pl.col("node_id").is_in(kept))
    tensors = graph.tensors.filter(pl.col("tensor").is_in(uses.get_column("tensor").implode()))
    row = pl.col("tensor").replace_strict(
        tensors.get_column("tensor"), range(tensors.height), return_dtype=pl.Int64
    )
    edges = pl.col("producer").is_in(kept) & pl.col("consumer").is_in(kept)
    return TensorGraph(
        tensors.with_columns(row, pl.when(pl.col("producer").is_in(kept)).then("producer")),
        uses.with_columns(row),
        graph.edges.filter(edges).with_columns(row),
    )


def _under_roots(nodes: pl.DataFrame) -> pl.DataFrame:
    """The nodes; where a node's parent is not among them, its thread's root becomes its parent."""
    roots = nodes.filter("is_root").group_by("tid").agg(pl.col("node_id").min().alias("root"))
    is_there = (
        pl.col("parent_id").is_in(nodes.get_column("node_id").implode()) | pl.col("parent_id").is_null()
    )
    return (
        nodes.join(roots, on="tid", how="left", maintain_order="left")
        .with_columns(pl.when(is_there).then("parent_id").otherwise("root").alias("parent_id"))
        .drop("root")
    )
