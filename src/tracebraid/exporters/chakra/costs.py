"""What nodes compute and move: `num_ops` and `tensor_size`, for simulators that tell time from a roofline."""

from __future__ import annotations

import polars as pl

from tracebraid.model.chakra.codes import NodeType
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.rank_graph import RankGraph

__all__ = ["with_costs"]

_COSTS = {"flops": "num_ops", "bytes": "tensor_size"}


def with_costs(nodes: pl.DataFrame, graph: RankGraph, costs: pl.DataFrame) -> pl.DataFrame:
    """The nodes with the costs of ops: those of an op are shared among its nodes by their durations.

    The work of devices has them, where an op launched any; else its work on the host. So the costs of all nodes add up
    to those of all ops.

    Args:
        nodes: `CHAKRA_NODES`.
        graph: of the same rank.
        costs: of ops: `op_event`, `counted_event` of the op that counts, its `flops` and `bytes`.
    """
    if costs.is_empty():
        return nodes
    op_of_event = graph.activities.filter(pl.col("event_id").is_not_null()).select(
        "event_id", "op_event", pl.col("stream").is_not_null().alias("is_on_device")
    )
    owned = (
        nodes.select("event_id", "duration_ns", as_text("type"))
        .with_row_index("row")
        .filter(pl.col("type") == NodeType.COMP_NODE.name)
        .join(op_of_event, on="event_id", how="inner", maintain_order="left")
        .join(costs, on="op_event", how="inner", maintain_order="left")
        .filter(pl.col("is_on_device") == pl.col("is_on_device").any().over("counted_event"))
    )
    shares = owned.select("row", *(_share(cost).alias(name) for cost, name in _COSTS.items()))
    return (
        nodes.drop(_COSTS.values())
        .with_row_index("row")
        .join(shares, on="row", how="left", maintain_order="left")
        .select(nodes.columns)
    )


def _share(cost: str) -> pl.Expr:
    """What a node has of the cost of its op, in whole numbers that add up."""
    total_ns = pl.col("duration_ns").sum().over("counted_event")
    weight = pl.when(total_ns > 0).then("duration_ns").otherwise(1).cast(pl.Float64)
    until = (weight.cum_sum() / weight.sum()).over("counted_event")
    reached = (until * pl.col(cost)).round().cast(pl.Int64)
    return reached - reached.shift(fill_value=0).over("counted_event")
