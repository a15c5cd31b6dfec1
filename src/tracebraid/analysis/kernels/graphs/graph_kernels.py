"""What runs when a graph is launched, and which op was each of its kernels captured from?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.kernels.graphs.graph_captures import Joined, captures, join_captures
from tracebraid.analysis.kernels.graphs.graph_nodes import graph_nodes
from tracebraid.analysis.statistics import mean_of
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import GRAPH_KERNELS
from tracebraid.model.device_kind import MEMORY
from tracebraid.model.kernel_family import kernel_families_of
from tracebraid.model.kernel_family_rules import KernelFamily
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["graph_kernels"]

_IDS = {"graph": pl.Int64, "node": pl.Int64, "op": pl.String, "op_event": pl.Int64}


def graph_kernels(
    linked: LinkedTrace,
    per_step: bool = False,
    annotation: str = PROFILER_STEP,
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """The nodes of each graph that was launched, summed over its launches: `model.answers.GRAPH_KERNELS`.

    Where the trace holds the capture, the launches recorded in it are the nodes, in their order; `method` says so, or
    why no op is said. Without a capture the ops of a graph's kernels are not in the trace.

    Args:
        linked: one rank.
        per_step: rows for each step in which graphs were launched, instead of over all.
        annotation: what marks a step, see `steps`.
        with_doubtful: count the work of doubtful steps in the mean, too.
    """
    work = graph_nodes(linked, StepOptions(annotation, per_step, with_doubtful))
    if work.is_empty():
        return GRAPH_KERNELS.empty()
    joined = _joined(linked, work)
    return (
        work.group_by("step", "graph", "node")
        .agg(
            pl.col("graph_id", "graph_node_id", "name", "kind").first(),
            pl.len().alias("count"),
            pl.col("dur_ns").sum().alias("total_ns"),
            mean_of(pl.col("dur_ns").filter("in_means")),
        )
        .join(_launches(work), on=["step", "graph"], how="left", nulls_equal=True)
        .join(joined, on=["graph", "node"], how="left")
        .pipe(_with_family)
        .with_columns(
            (pl.col("total_ns") / pl.col("total_ns").sum().over("step", "graph")).fill_nan(0.0).alias("share")
        )
        .sort("graph", "node")
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(GRAPH_KERNELS, frame, linked, annotation))
    )


def _launches(work: pl.DataFrame) -> pl.DataFrame:
    return work.group_by("step", "graph").agg(pl.col("launch").n_unique().alias("launches"))


def _joined(linked: LinkedTrace, work: pl.DataFrame) -> pl.DataFrame:
    """For each graph and node: op, op_event, method, confidence."""
    found = captures(linked)
    is_memory = pl.col("kind") == MEMORY
    is_fill = is_memory & (pl.col("family") == KernelFamily.FILL.value)
    sort = (
        pl.when(is_fill).then(pl.lit("fill")).when(is_memory).then(pl.lit("copy")).otherwise(pl.lit("kernel"))
    )
    nodes = (
        work.group_by("graph", "node")
        .agg(
            pl.col("name", "lane").first(),
            sort.first().alias("sort"),
            pl.col("graph_node_id").is_not_null().all().alias("with_id"),
            pl.col("ts_ns").min().alias("first_ns"),
        )
        .sort("graph", "node")
    )
    return pl.concat(
        [
            _of_graph(part, join_captures(part, found))
            for part in nodes.partition_by("graph", maintain_order=True)
        ]
    )


def _of_graph(nodes: pl.DataFrame, joined: Joined) -> pl.DataFrame:
    none = [None] * len(nodes)
    return nodes.select(
        "graph",
        "node",
        pl.Series("op", joined.ops or none, dtype=pl.String),
        pl.Series("op_event", joined.events or none, dtype=pl.Int64),
        pl.lit(joined.method.value).alias("method"),
        pl.lit(joined.confidence, dtype=pl.Float64).alias("confidence"),
    )


def _with_family(nodes: pl.DataFrame) -> pl.DataFrame:
    as_op = pl.when(pl.col("op").is_not_null()).then(pl.lit("cpu_op"))
    work = nodes.select("name", "kind", pl.col("op").alias("op_name"), as_op.alias("op_category"))
    return nodes.with_columns(kernel_families_of(work).get_column("family"))
