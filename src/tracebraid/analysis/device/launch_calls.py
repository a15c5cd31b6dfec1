"""When did the call that launched each device event run, and what did it cost on the host?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device.device_events import device_events
from tracebraid.model.category import Role
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
    calls = linked.timeline.of_role(Role.CALL).select(
        pl.col("event_id").alias("call_event"),
        as_text("name").alias("call"),
        pl.col("ts_ns").alias("call_ns"),
        pl.col("dur_ns").alias("launch_ns"),
    )
    events = device_events(linked).select("event_id", "call_event", "ts_ns")
    firsts = (
        events.sort("ts_ns", "event_id")
        .filter(pl.col("call_event").is_first_distinct())
        .get_column("event_id")
    )
    counted = pl.when(pl.col("event_id").is_in(firsts.implode())).then("launch_ns").fill_null(0)
    return (
        events.drop("ts_ns")
        .join(calls, on="call_event", how="left", maintain_order="left")
        .with_columns(counted.alias("launch_ns"))
    )
