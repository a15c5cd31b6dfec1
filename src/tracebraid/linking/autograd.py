"""Backward op to forward op, by sequence number and thread."""

from __future__ import annotations

import polars as pl

from tracebraid.model.schema import FORWARD_BACKWARD
from tracebraid.model.timeline import Timeline

__all__ = ["link_forward_backward"]


def link_forward_backward(timeline: Timeline) -> pl.DataFrame:
    """The table `forward_backward`.

    Forward ops carry the sequence number that the next autograd node gets, so that several can carry one; the
    last to start among them made the node. A backward op names the number and the forward thread, the latter by
    PyTorch's logical id, which Kineto does not map to its own: threads and ids are paired one to one, those whose
    forward and backward numbers are most alike first.
    """
    seq = timeline.host_ops.filter(pl.col("sequence_number") >= 0).select(
        "event_id", "sequence_number", pl.col("fwd_thread_id").fill_null(0)
    )
    if not (seq.get_column("fwd_thread_id") > 0).any():
        return FORWARD_BACKWARD.empty()
    seq = seq.join(timeline.events.select("event_id", "lane", "ts_ns"), on="event_id")
    forward = (
        seq.filter(pl.col("fwd_thread_id") == 0)
        .sort("ts_ns", "event_id")
        .unique(["lane", "sequence_number"], keep="last", maintain_order=True)
        .select(
            pl.col("event_id").alias("forward_event"),
            "sequence_number",
            "lane",
            pl.col("ts_ns").alias("forward_ts_ns"),
        )
    )
    backward = seq.filter(pl.col("fwd_thread_id") > 0).select(
        pl.col("event_id").alias("backward_event"), "sequence_number", "fwd_thread_id", "ts_ns"
    )
    pairs = backward.join(forward, on="sequence_number").filter(pl.col("forward_ts_ns") <= pl.col("ts_ns"))
    thread = _threads(backward, forward)
    return (
        pairs.join(thread, on=["fwd_thread_id", "lane"]).pipe(FORWARD_BACKWARD.conform).sort("backward_event")
    )


def _threads(backward: pl.DataFrame, forward: pl.DataFrame) -> pl.DataFrame:
    """Each forward thread's logical id and its lane, one to one, the pairs with the most alike numbers first."""
    asked = backward.select("fwd_thread_id", "sequence_number").unique()
    given = forward.select("lane", "sequence_number").unique()
    sizes = asked.group_by("fwd_thread_id").agg(pl.len().alias("asked"))
    lane_sizes = given.group_by("lane").agg(pl.len().alias("given"))
    alike = (
        asked.join(given, on="sequence_number")
        .group_by("fwd_thread_id", "lane")
        .agg(pl.len().alias("shared"))
        .join(sizes, on="fwd_thread_id")
        .join(lane_sizes, on="lane")
        .with_columns(
            (pl.col("shared") / (pl.col("asked") + pl.col("given") - pl.col("shared"))).alias("alike")
        )
        .sort("alike", "fwd_thread_id", "lane", descending=[True, False, False])
    )
    taken: dict[int, int] = {}
    for thread, lane in alike.select("fwd_thread_id", "lane").iter_rows():
        if thread not in taken and lane not in taken.values():
            taken[thread] = lane
    rows = list(taken.items())
    return pl.DataFrame(rows, schema={"fwd_thread_id": pl.Int64, "lane": pl.Int64}, orient="row")
