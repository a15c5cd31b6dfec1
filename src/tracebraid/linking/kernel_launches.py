"""Device event to the host call that launched it, the op that encloses that call, and that op's node."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.model.op_tree import op_tree
from tracebraid.model.reason import OrphanReason
from tracebraid.model.schema import DEVICE_LINKS, LAUNCHES
from tracebraid.model.timeline import Timeline

__all__ = ["link_launches", "with_nodes"]


def link_launches(timeline: Timeline, tree: pl.DataFrame) -> pl.DataFrame:
    """The table `launches`.

    A device event belongs to the host call with its correlation id, whatever the call's name, and to the
    innermost op or annotation that encloses that call on its thread. Where no such call is in the trace, an
    `External id` that is not just the correlation again names the op, if that op started before the event.
    """
    if timeline.device_work.is_empty():
        return LAUNCHES.empty()
    work = timeline.device_work.select("event_id", "correlation", "external_id").join(
        timeline.events.select("event_id", "ts_ns"), on="event_id"
    )
    found = (
        work.with_columns(pl.when(pl.col("correlation") != 0).then("correlation"))
        .join(_calls(timeline, tree), on="correlation", how="left")
        .join(_ops_by_external_id(timeline), on="external_id", how="left")
    )
    by_external = (
        pl.col("call_event").is_null()
        & (pl.col("external_id") != pl.col("correlation").fill_null(0))
        & (pl.col("named_ts_ns") <= pl.col("ts_ns"))
    )
    has_op = pl.col("op_event").is_not_null()
    links = found.with_columns(
        pl.when(has_op)
        .then(pl.lit("correlation"))
        .when(by_external)
        .then(pl.lit("external_id"))
        .alias("method"),
        pl.when(has_op).then("op_event").when(by_external).then("named_event").alias("op_event"),
    ).with_columns(
        pl.when(pl.col("op_event").is_not_null())
        .then(None)
        .when(pl.col("call_event").is_not_null())
        .then(pl.lit(OrphanReason.OUTSIDE_OF_OPS.value))
        .when(pl.col("correlation").is_null())
        .then(pl.lit(OrphanReason.NO_CORRELATION.value))
        .otherwise(pl.lit(OrphanReason.NO_CALL.value))
        .alias("reason"),
    )
    return LAUNCHES.conform(links).sort("event_id")


def with_nodes(launches: pl.DataFrame, tree: pl.DataFrame, host_links: pl.DataFrame) -> pl.DataFrame:
    """The table `device_links`: the launches, each with the node of its op, or of the nearest op that encloses it."""
    if launches.is_empty():
        return DEVICE_LINKS.empty()
    nodes = _enclosing_nodes(launches.get_column("op_event"), tree, host_links)
    return DEVICE_LINKS.conform(launches.with_columns(nodes))


def _calls(timeline: Timeline, tree: pl.DataFrame) -> pl.DataFrame:
    """One call for each correlation: the innermost, where several calls carry it (a driver's inside a runtime's)."""
    return (
        timeline.host_calls.filter(pl.col("correlation").is_not_null())
        .select(pl.col("event_id").alias("call_event"), "correlation")
        .join(
            tree.select(pl.col("event_id").alias("call_event"), "op_event", "depth"),
            on="call_event",
            how="left",
        )
        .sort("correlation", "depth", "call_event", nulls_last=False)
        .unique("correlation", keep="last", maintain_order=True)
        .select("correlation", "call_event", "op_event")
    )


def _ops_by_external_id(timeline: Timeline) -> pl.DataFrame:
    return (
        timeline.host_ops.filter((pl.col("external_id") > 0) & pl.col("external_id").is_unique())
        .select(pl.col("event_id").alias("named_event"), "external_id")
        .join(
            timeline.events.select(
                pl.col("event_id").alias("named_event"), pl.col("ts_ns").alias("named_ts_ns")
            ),
            on="named_event",
        )
    )


def _enclosing_nodes(ops: pl.Series, tree: pl.DataFrame, host_links: pl.DataFrame) -> pl.Series:
    """The node of each op, or of the nearest enclosing op that has one; null without an op."""
    walk = op_tree(tree)
    node_of_row = np.full(len(walk.event_id), -1, dtype=np.int64)
    linked = host_links.filter(pl.col("node_id").is_not_null())
    node_of_row[walk.rows(linked.get_column("event_id").to_numpy())] = linked.get_column("node_id").to_numpy()
    nearest = walk.nearest(node_of_row >= 0)
    rows = walk.rows(ops.drop_nulls().to_numpy())
    nodes = np.full(len(ops), -1, dtype=np.int64)
    nodes[ops.is_not_null().to_numpy()] = np.where(nearest[rows] >= 0, node_of_row[nearest[rows]], -1)
    return pl.Series("node_id", nodes).set(pl.Series(nodes < 0), None)
