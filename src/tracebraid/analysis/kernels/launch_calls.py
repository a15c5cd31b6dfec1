"""When did the call that launched each device event run, and what did it cost on the host?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device_events import device_events
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["launch_calls"]


def launch_calls(linked: LinkedTrace) -> pl.DataFrame:
    """For each device event, in the order of `device_events`: `event_id` and of its launch call the following.

    Returns:
        call_event, call (its name), call_ns (start), launch_ns: its duration, counted once, for the first event of
        those that it launched; 0 for the others. All but `launch_ns` are null without a call.
    """
    return linked.derived(_launch_calls)


def _launch_calls(linked: LinkedTrace) -> pl.DataFrame:
    calls = linked.timeline.events.select(
        pl.col("event_id").alias("call_event"),
        as_text("name").alias("call"),
        pl.col("ts_ns").alias("call_ns"),
        pl.col("dur_ns").alias("launch_ns"),
    )
    events = device_events(linked).select("event_id", "call_event", "ts_ns")
    rank = pl.struct("ts_ns", "event_id").rank("ordinal").over("call_event")
    return (
        events.join(calls, on="call_event", how="left", maintain_order="left")
        .with_columns(pl.when(rank == 1).then("launch_ns").fill_null(0).alias("launch_ns"))
        .drop("ts_ns")
    )
