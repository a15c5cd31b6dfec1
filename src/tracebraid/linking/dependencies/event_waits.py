"""Work that waits for an event of another stream, from the waits that the device recorded (`cuda_sync`)."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from tracebraid.linking.dependencies.edges import END_TO_START, edges, no_edges
from tracebraid.linking.dependencies.issue_times import calls_by_correlation, first_after, last_before
from tracebraid.model.expressions import as_text
from tracebraid.model.timeline import Timeline

__all__ = ["event_waits"]

_WAIT = "Stream Wait Event"


def event_waits(timeline: Timeline, issued_work: Callable[[], pl.DataFrame]) -> pl.DataFrame:
    """From the last work before the record of the event, to the first work after the wait on the other stream.

    Before and after go by when the calls were made: the host queues work, records and waits on a stream in that order.
    """
    if timeline.tables["syncs"].is_empty():
        return no_edges()
    calls, issued = calls_by_correlation(timeline), issued_work()
    recorded = calls.select(
        pl.col("correlation").alias("wait_on_event_record_correlation"),
        pl.col("called_ns").alias("recorded_ns"),
    )
    waits = (
        timeline.tables["syncs"]
        .filter(as_text("kind") == _WAIT)
        .filter((pl.col("wait_on_stream") >= 0) & (pl.col("wait_on_stream") != pl.col("stream")))
        .join(timeline.events.select("event_id", "ts_ns"), on="event_id")
        .join(recorded, on="wait_on_event_record_correlation")
        .join(calls.select("correlation", "called_ns"), on="correlation", how="left")
        .with_columns(pl.coalesce("called_ns", "ts_ns").alias("waited_ns"))
        .select("event_id", "correlation", "device", "stream", "wait_on_stream", "recorded_ns", "waited_ns")
    )
    later = first_after(waits, "waited_ns", issued).select(
        "event_id", pl.col("work_event").alias("after_event"), pl.col("stream").alias("waiting")
    )
    asked = waits.with_columns(pl.col("wait_on_stream").alias("stream"))
    pairs = (
        last_before(asked, "recorded_ns", issued)
        .rename({"work_event": "before_event"})
        .join(later, on="event_id")
        .sort("waited_ns", "event_id")
    )
    text = pl.format(
        "cuda_sync {} {}: stream {} waits for {}", pl.lit(_WAIT), "correlation", "waiting", "stream"
    )
    return edges(pairs, "event_wait", END_TO_START, text)
