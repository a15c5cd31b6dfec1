"""Which device events came from launches of graphs?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.event_names import event_names
from tracebraid.model.call_names import PATTERNS, CallAction, call_does
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["graph_events", "has_graphs"]


def graph_events(linked: LinkedTrace) -> pl.DataFrame:
    """Device events of graphs, by the name of their launching call or by the graph's id.

    Columns: event_id, ts_ns, dur_ns, call_event, api (the call's name; null: not in the trace), correlation,
    graph_id and graph_node_id (null: the trace does not say).
    """
    return linked.derived(_graph_events)


def has_graphs(linked: LinkedTrace) -> bool:
    """Whether a graph was launched, or any work came from one."""
    launched = any(PATTERNS[CallAction.LAUNCH_GRAPH] in name for name in event_names(linked))
    return launched or bool((linked.timeline.device_work.get_column("graph_id").fill_null(0) > 0).any())


def _graph_events(linked: LinkedTrace) -> pl.DataFrame:
    if not has_graphs(linked):
        return pl.DataFrame(schema=_COLUMNS)
    timeline = linked.timeline
    calls = timeline.events.select(pl.col("event_id").alias("call_event"), as_text("name").alias("api"))
    details = timeline.device_work.select(
        "event_id", "correlation", _given("graph_id"), _given("graph_node_id")
    )
    by_call = call_does(pl.col("api"), CallAction.LAUNCH_GRAPH).fill_null(value=False)
    by_id = pl.col("graph_id").is_not_null()
    return (
        device_events(linked)
        .select("event_id", "ts_ns", "dur_ns", "call_event")
        .join(calls, on="call_event", how="left", maintain_order="left")
        .join(details, on="event_id", how="left", maintain_order="left")
        .filter(by_call | by_id)
        .select(*_COLUMNS)
    )


def _given(column: str) -> pl.Expr:
    """An id; writers put 0 where there is none."""
    return pl.when(pl.col(column) > 0).then(pl.col(column)).alias(column)


_COLUMNS = {
    "event_id": pl.Int64,
    "ts_ns": pl.Int64,
    "dur_ns": pl.Int64,
    "call_event": pl.Int64,
    "api": pl.String,
    "correlation": pl.Int64,
    "graph_id": pl.Int64,
    "graph_node_id": pl.Int64,
}
