"""What a rule of validity hands over: the events that it doubts, and the steps that these falsify."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device.device_events import device_events_by_step
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.answers import Doubt
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["DOUBTS", "about_events", "device_work"]

DOUBTS = pl.Schema(
    {
        "step": pl.String(),
        "doubt": pl.String(),
        "count": pl.Int64(),
        "event_id": pl.Int64(),
        "time_ns": pl.Int64(),
    }
)
"""The columns of every rule's answer: those of `model.answers.VALIDITY` but the rank."""


def device_work(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Device events with `step`, that of their launch, and `end_ns`."""
    return device_events_by_step(linked, annotation).with_columns(
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns")
    )


def about_events(doubt: Doubt, events: pl.DataFrame, linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """A row for each step that some events falsify: that which launched them, and all during which they run.

    Args:
        doubt: what is doubted.
        events: columns event_id, ts_ns, end_ns, step (of the launch), time_ns (null where unknown).
        linked: one rank.
        annotation: what marks a step.
    """
    if events.is_empty():
        return pl.DataFrame(schema=DOUBTS)
    columns = ["event_id", "ts_ns", "time_ns", "step"]
    launched = events.filter(pl.col("step").is_not_null()).select(columns)
    run = (
        events.drop("step")
        .with_columns(pl.max_horizontal("end_ns", pl.col("ts_ns") + 1).alias("end_ns"))
        .join_where(
            step_windows(linked, annotation).select(
                "step", "start_ns", pl.max_horizontal("end_ns", pl.col("start_ns") + 1).alias("stop_ns")
            ),
            pl.col("ts_ns") < pl.col("stop_ns"),
            pl.col("end_ns") > pl.col("start_ns"),
        )
        .select(columns)
    )
    of_steps = pl.concat([launched, run]).unique(["event_id", "step"])
    of_none = events.join(of_steps.select("event_id"), on="event_id", how="anti").select(columns)
    found = pl.concat([of_steps, of_none]).sort("ts_ns", "event_id")
    return (
        found.group_by("step", maintain_order=True)
        .agg(
            pl.lit(doubt.value).alias("doubt"),
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("event_id").first(),
            pl.when(pl.col("time_ns").is_null().any())
            .then(None)
            .otherwise(pl.col("time_ns").sum())
            .alias("time_ns"),
        )
        .select(DOUBTS.names())
    )
