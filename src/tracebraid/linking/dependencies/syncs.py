"""Device work that a call of the host waited for, as the device recorded it (`cuda_sync`)."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tracebraid.linking.dependencies.edges import END_TO_END, edges, no_edges
from tracebraid.linking.dependencies.issue_times import calls_by_correlation, last_before
from tracebraid.model.call_names import CallAction, call_does
from tracebraid.model.expressions import as_text
from tracebraid.model.timeline import Timeline

__all__ = ["recorded_syncs"]

_STREAM, _CONTEXT, _EVENT = "Stream Sync", "Context Sync", "Event Sync"


def recorded_syncs(timeline: Timeline, issued_work: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """From the end of the last work issued before a synchronisation to the end of the call that made it.

    A stream's synchronisation waits for the stream, a context's for every stream of the device, and an event's for
    what was issued on its stream before the call that recorded it. A query of an event does not wait: it
    orders what follows only where the work had ended by then.
    """
    if timeline.tables["syncs"].is_empty():
        return no_edges()
    calls, issued = calls_by_correlation(timeline), issued_work()
    syncs = (
        timeline.tables["syncs"]
        .select("event_id", as_text("kind"), "stream", "correlation", "device")
        .filter(pl.col("kind").is_in([_STREAM, _CONTEXT]))
        .join(calls, on="correlation")
        .with_columns(pl.col("called_ns").alias("until_ns"))
    )
    of_stream = syncs.filter((pl.col("kind") == _STREAM) & (pl.col("stream") >= 0))
    streams = issued.select("device", "stream").drop_nulls().unique(maintain_order=True)
    of_context = syncs.filter(pl.col("kind") == _CONTEXT).drop("stream").join(streams, on="device")
    asked = pl.concat([of_stream, of_context, _of_events(timeline, calls)], how="diagonal_relaxed")
    pairs = (
        last_before(asked, "until_ns", issued)
        .rename({"work_event": "before_event", "call_event": "after_event"})
        .sort("after_event", "event_id", "before_event")
    )
    text = pl.format("cuda_sync {} {} of stream {}", "kind", "correlation", "stream")
    return edges(pairs, "sync", END_TO_END, text, call_does(pl.col("call_name"), CallAction.WAIT))


def _of_events(timeline: Timeline, calls: pl.DataFrame) -> pl.DataFrame:
    recorded = calls.select(
        pl.col("correlation").alias("wait_on_event_record_correlation"),
        pl.col("called_ns").alias("until_ns"),
    )
    return (
        timeline.tables["syncs"]
        .with_columns(as_text("kind"))
        .filter((pl.col("kind") == _EVENT) & (pl.col("wait_on_stream") >= 0))
        .drop("stream")
        .rename({"wait_on_stream": "stream"})
        .join(recorded, on="wait_on_event_record_correlation")
        .select("event_id", "kind", "stream", "correlation", "device", "until_ns")
        .join(calls, on="correlation")
    )
