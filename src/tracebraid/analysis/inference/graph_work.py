"""Device work that came from replays of graphs."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device_events import device_events
from tracebraid.analysis.event_names import event_names
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["GRAPH_LAUNCH", "graph_events", "has_graphs"]

GRAPH_LAUNCH = "GraphLaunch"
"""Part of the names of the calls that launch a graph: `cudaGraphLaunch`, `cuGraphLaunch`, `hipGraphLaunch`."""


def graph_events(linked: LinkedTrace) -> pl.DataFrame:
    """Device events of graphs, by their launching call or, where that is not in the trace, by the graph's id.

    Columns: event_id, ts_ns, dur_ns, call_event, api (the call's name; null: not in the trace), correlation,
    graph_id (null: the trace does not say).
    """
    return linked.derived(_graph_events)


def has_graphs(linked: LinkedTrace) -> bool:
    """Whether a graph was launched, or any work came from one."""
    launched = any(GRAPH_LAUNCH in name for name in event_names(linked))
    return launched or bool((linked.timeline.device_work.get_column("graph_id").fill_null(0) > 0).any())


def _graph_events(linked: LinkedTrace) -> pl.DataFrame:
    if not has_graphs(linked):
        return pl.DataFrame(schema=_COLUMNS)
    timeline = linked.timeline
    calls = timeline.events.select(pl.col("event_id").alias("call_event"), as_text("name").alias("api"))
    details = timeline.device_work.select(
        "event_id", "correlation", pl.when(pl.col("graph_id") > 0).then("graph_id").alias("graph_id")
    )
    by_call = pl.col("api").str.contains(GRAPH_LAUNCH, literal=True).fill_null(value=False)
    by_id = pl.col("graph_id").is_not_null() & pl.col("call_event").is_null()
    return (
        device_events(linked)
        .select("event_id", "ts_ns", "dur_ns", "call_event")
        .join(calls, on="call_event", how="left", maintain_order="left")
        .join(details, on="event_id", how="left", maintain_order="left")
        .filter(by_call | by_id)
        .select(*_COLUMNS)
    )


_COLUMNS = {
    "event_id": pl.Int64,
    "ts_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "call_event": pl.Int64,
    "api": pl.String,
    "correlation": pl.Int64,
    "graph_id": pl.Int64,
}
