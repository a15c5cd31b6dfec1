"""What a Kineto trace adds to an Execution Trace: the times of its nodes, and the events of the devices."""

from __future__ import annotations

import polars as pl

from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.reason import OrphanReason
from tracebraid.model.units import NS_PER_US

__all__ = ["decimal_us", "device_events", "host_times"]


def host_times(linked: LinkedTrace) -> dict[int, tuple[int, int, int]]:
    """(start, inclusive, exclusive) in ns of each linked node; exclusive is less the ops inside, not less calls."""
    rows = (
        linked.node_links.filter(pl.col("event_id").is_not_null())
        .join(linked.host_tree.select("event_id", "inclusive_ns", "op_exclusive_ns"), on="event_id")
        .join(linked.timeline.events.select("event_id", "ts_ns"), on="event_id")
        .select("node_id", "ts_ns", "inclusive_ns", "op_exclusive_ns")
    )
    return {node: (ts, inclusive, exclusive) for node, ts, inclusive, exclusive in rows.iter_rows()}


def device_events(linked: LinkedTrace) -> pl.DataFrame:
    """Each device event with its node, or the reason why it has none, in the order of starts.

    What was launched in iterations that were not matched is left out, as their ops are.
    """
    timeline = linked.timeline
    elsewhere = linked.host_links.filter(as_text("reason") == OrphanReason.OTHER_ITERATION.value)
    text = (as_text("name"), as_text("category"))
    return (
        linked.device_links.join(elsewhere, left_on="op_event", right_on="event_id", how="anti")
        .select("event_id", "node_id", as_text("reason"))
        .join(timeline.events.select("event_id", *text, "ts_ns", "dur_ns"), on="event_id")
        .join(timeline.device_work.select("event_id", "stream"), on="event_id")
        .join(
            timeline.collectives.select("event_id", as_text("pg_name")),
            on="event_id",
            how="left",
        )
        .sort("ts_ns", "event_id")
    )


def decimal_us(ns: int) -> str:
    """Nanoseconds as decimal microseconds, without going through a float."""
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // NS_PER_US}.{ns % NS_PER_US:03d}"
