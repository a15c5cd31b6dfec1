"""Where intervals leave open what an op without length lies in, the Execution Trace says it."""

from __future__ import annotations

from collections import defaultdict

import polars as pl

from tracebraid.model.execution_trace import ExecutionTrace
from tracebraid.model.schema import HOST_TREE
from tracebraid.model.timeline import Timeline

__all__ = ["nest_as_execution_trace"]


def nest_as_execution_trace(
    tree: pl.DataFrame, timeline: Timeline, et: ExecutionTrace, host_links: pl.DataFrame
) -> pl.DataFrame:
    """The table `host_tree`, where ops without length lie in their node's parent if their moment allows for it.

    An op without length may as well lie in any op that begins or ends at its moment, as long as no op is in between
    that was running both before and after it.
    """
    if not (timeline.events.get_column("dur_ns") == 0).any():
        return tree
    claims = _claims(tree, timeline, et, host_links)
    if claims.is_empty():
        return tree
    spans = {event: (start, end) for event, start, end in _spans(timeline).iter_rows()}
    enclosing = dict(tree.select("event_id", "op_event").iter_rows())
    moved: dict[int, int] = {}
    for event, parent in claims.sort("event_id").iter_rows():
        moment = spans[event][0]

        def running(start: int | None, moment: int = moment) -> int | None:
            while start is not None and not spans[start][0] < moment < spans[start][1]:
                start = enclosing[start]
            return start

        touches = spans[parent][0] <= moment <= spans[parent][1]
        if touches and running(parent) == running(enclosing[event]):
            enclosing[event] = moved[event] = parent
    return _with_parents(tree, moved)


def _claims(
    tree: pl.DataFrame, timeline: Timeline, et: ExecutionTrace, host_links: pl.DataFrame
) -> pl.DataFrame:
    """Linked ops without length, and the linked op before them of their thread that is another parent's."""
    linked = host_links.filter(pl.col("node_id").is_not_null()).select("event_id", "node_id")
    claimed = linked.select(pl.col("event_id").alias("claimed"), pl.col("node_id").alias("parent_id"))
    lanes = timeline.events.select("event_id", "lane", "dur_ns")
    without_length = linked.join(lanes.filter(pl.col("dur_ns") == 0), on="event_id")
    if without_length.is_empty():
        return without_length.select("event_id", claimed="node_id")
    return (
        without_length.join(et.nodes.select("node_id", "parent_id"), on="node_id")
        .join(claimed, on="parent_id")
        .join(tree.select("event_id", "op_event"), on="event_id")
        .join(lanes.select(claimed="event_id", claimed_lane="lane"), on="claimed")
        .filter(
            pl.col("claimed").ne_missing(pl.col("op_event")),
            pl.col("claimed_lane") == pl.col("lane"),
            pl.col("claimed") < pl.col("event_id"),
        )
        .select("event_id", "claimed")
    )


def _spans(timeline: Timeline) -> pl.DataFrame:
    return timeline.events.select("event_id", "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"))


def _with_parents(tree: pl.DataFrame, moved: dict[int, int]) -> pl.DataFrame:
    """The tree with other parents of events that cover no time: of other columns, only depths change."""
    if not moved:
        return tree
    parent_of = dict(tree.select("event_id", "parent_event").iter_rows())
    depth = dict(tree.select("event_id", "depth").iter_rows())
    inside = defaultdict(list)
    for event, parent in {**parent_of, **moved}.items():
        inside[parent].append(event)
    waiting = sorted(moved)
    while waiting:
        event = waiting.pop()
        depth[event] = depth[moved.get(event, parent_of[event])] + 1
        waiting += inside[event]
    old = pl.col("event_id")
    moved_tree = tree.with_columns(
        old.replace_strict(moved, default=pl.col("parent_event"), return_dtype=pl.Int64).alias(
            "parent_event"
        ),
        old.replace_strict(moved, default=pl.col("op_event"), return_dtype=pl.Int64).alias("op_event"),
        pl.Series("depth", [depth[event] for event in tree.get_column("event_id")]),
    )
    return HOST_TREE.conform(moved_tree)
