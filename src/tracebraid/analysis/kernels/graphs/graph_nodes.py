"""What ran when graphs were launched: each device event with its graph and its node of that graph."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device.graph_events import graph_events
from tracebraid.analysis.device.launch_calls import launch_calls
from tracebraid.analysis.kernels.work import device_work_of
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["graph_nodes"]


def graph_nodes(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """The device events of graphs, by graph, launch and node.

    A graph is what has the same graph id; without ids, launches that ran the same kernels, in the same order on each
    stream. Its nodes are numbered in the order of their ids, without ids in the order of streams and starts.

    Returns:
        Columns of `device_work_of`, and: launch (a number), graph (a number, in the order of first launches),
        graph_id, graph_node_id, node.
    """
    graphs = graph_events(linked).select("event_id", "correlation", "graph_id", "graph_node_id")
    calls = launch_calls(linked).select("event_id", "call", "call_ns")
    work = (
        device_work_of(linked, options)
        .join(graphs, on="event_id", maintain_order="left")
        .join(calls, on="event_id", how="left", maintain_order="left")
    )
    launch = pl.struct("call_event", pl.when(pl.col("call_event").is_null()).then("correlation"))
    launched = work.with_columns(launch.rank("dense").cast(pl.Int64).alias("launch")).sort(
        "launch", "lane", "ts_ns", "event_id"
    )
    return launched.pipe(_with_graph).pipe(_with_node)


def _with_graph(work: pl.DataFrame) -> pl.DataFrame:
    number, stream = pl.col("name").rank("dense").fill_null(0), pl.col("lane").rank("dense").over("launch")
    launches = (
        work.with_columns(pl.concat_str(stream, number, separator=":").alias("number"))
        .group_by("launch", maintain_order=True)
        .agg(
            pl.col("graph_id").first(),
            pl.col("ts_ns").min().alias("first_ns"),
            pl.col("number").str.join(",").alias("numbers"),
        )
    )
    same = pl.when(pl.col("graph_id").is_null()).then("numbers").alias("signature")
    graphs = (
        launches.group_by("graph_id", same)
        .agg(pl.col("first_ns").min(), pl.col("launch"))
        .sort("first_ns", "graph_id")
        .with_row_index("graph")
        .select(pl.col("graph").cast(pl.Int64), "launch")
        .explode("launch")
    )
    return work.drop("graph_id").join(
        graphs.join(launches.select("launch", "graph_id"), on="launch", how="left"),
        on="launch",
        how="left",
        maintain_order="left",
    )


def _with_node(work: pl.DataFrame) -> pl.DataFrame:
    by_id = pl.col("graph_node_id").rank("dense").over("graph").cast(pl.Int64) - 1
    by_order = pl.int_range(pl.len(), dtype=pl.Int64).over("launch")
    all_given = pl.col("graph_node_id").is_not_null().all().over("graph")
    return work.with_columns(pl.when(all_given).then(by_id).otherwise(by_order).alias("node")).sort(
        "graph", "launch", "node", "ts_ns"
    )
