"""Device events with the calls that launched them, and calls by the step in which they lie."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device import device_events_by_step, event_columns, fetched, rows_of_events
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

STREAM = ["device", "stream"]
"""Key of a queue: work of one stream starts in launch order."""


def launched_work(linked: LinkedTrace) -> pl.DataFrame:
    """Device events of known and unknown launches, by stream and start.

    Columns: event_id, name, kind, device, stream, ts_ns, end_ns, dur_ns, step (of the launch), op_event, op;
    call_event, api, called_ns, returned_ns, null if no call is in the trace; busy_until_ns, the latest end of the
    events before it on its stream, null for the first.
    """
    return linked.derived(_launched_work)


def _launched_work(linked: LinkedTrace) -> pl.DataFrame:
    timeline = linked.timeline
    work = device_events_by_step(linked)
    call, op = work.get_column("call_event"), work.get_column("op_event")
    calls = event_columns(timeline, call, api="name", called_ns="ts_ns", call_ns="dur_ns")
    lane = timeline.lanes.select("lane", pl.coalesce(as_text("tid"), "tid_text").alias("lane_name"))
    known = timeline.device_work
    rows = rows_of_events(known.get_column("event_id"), work.get_column("event_id"))
    end = (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns")
    return (
        work.with_columns(fetched(known.select(as_text("stream")), rows).get_columns())
        .join(lane, on="lane", how="left", maintain_order="left")
        .with_columns(calls)
        .with_columns(
            pl.coalesce("stream", "lane_name", pl.lit("unknown")).alias("stream"),
            end,
            as_text("api"),
            (pl.col("called_ns") + pl.col("call_ns")).alias("returned_ns"),
            *event_columns(timeline, op, op="name"),
        )
        .with_columns(as_text("op"))
        .drop("call_ns")
        .sort(*STREAM, "ts_ns", "event_id")
        .with_columns(pl.col("end_ns").cum_max().shift(1).over(STREAM).alias("busy_until_ns"))
        .drop("lane", "lane_name")
    )


def with_steps(calls: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Add the column `step` to calls with `ts_ns`: the step in which they start; null in none."""
    return step_of_moments(calls, step_windows(linked))
