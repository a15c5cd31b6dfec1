"""What do the steps of a rank consist of, and which of them count?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.launches.launch_bound import launch_gaps
from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.analysis.time.intervals import cover_of
from tracebraid.analysis.time.step_times import step_times
from tracebraid.analysis.time.work_events import work_events
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.metric import MetricOptions

__all__ = ["counted_steps", "measured_steps", "of_sound_steps"]

_PARTS = (
    "compute_ns",
    "communication_ns",
    "overlap_ns",
    "exposed_communication_ns",
    "exposed_memory_ns",
    "idle_ns",
)


def measured_steps(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """A row per occurrence of a step; of a trace without steps a row for the whole trace.

    Columns: rank, step (null: the whole trace), occurrence (of that name, from 0), span_ns, device_span_ns (the sum of
    the spans of its devices), the times of `breakdown` and `launch_bound_ns` as sums over its devices, warmup,
    doubtful. `launch_bound_ns` is the part of `idle_ns` in which some stream waits for a launch in a stretch of
    `launch_bound`.
    """
    parts = breakdown(linked, annotation)
    parts = parts.with_columns(pl.Series("launch_bound_ns", _launch_bound(linked, annotation, parts)))
    by_step = parts.filter(pl.col("step").is_not_null())
    whole = by_step.is_empty()
    rows = (parts if whole else by_step).with_columns(pl.int_range(pl.len()).over("device").alias("window"))
    warmup = _warmup(linked, annotation)
    return (
        rows.group_by("window", maintain_order=True)
        .agg(
            pl.col("step").first(),
            pl.col("span_ns").max(),
            pl.col("span_ns").sum().alias("device_span_ns"),
            pl.col(*_PARTS, "launch_bound_ns").sum(),
            pl.col("doubtful").first(),
        )
        .join(warmup, on="window", how="left", maintain_order="left")
        .select(
            pl.lit(linked.rank, dtype=pl.Int64).alias("rank"),
            "step",
            pl.int_range(pl.len(), dtype=pl.Int64).over("step").alias("occurrence"),
            "span_ns",
            "device_span_ns",
            *_PARTS,
            "launch_bound_ns",
            pl.col("warmup").fill_null(value=False),
            "doubtful",
        )
    )


def counted_steps(steps: pl.DataFrame, options: MetricOptions) -> pl.DataFrame:
    """The rows of `measured_steps` that count: neither warm-up nor, unless asked for, doubtful."""
    return of_sound_steps(steps, options).filter(~pl.col("warmup"))


def of_sound_steps(rows: pl.DataFrame, options: MetricOptions) -> pl.DataFrame:
    """Rows that have `doubtful`, without those of doubtful steps unless they are asked for."""
    return rows if options.with_doubtful else rows.filter(~pl.col("doubtful"))


def _warmup(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    times = step_times(linked, annotation)
    return times.select(pl.int_range(pl.len()).over("device").alias("window"), "warmup").unique(
        "window", keep="first", maintain_order=True
    )


def _launch_bound(
    linked: LinkedTrace, annotation: str, parts: pl.DataFrame
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Of each row of `breakdown`, the time in which its device is idle and some stream waits for a launch."""
    gaps, work = launch_gaps(linked, annotation), work_events(linked)
    start, span = (parts.get_column(name).to_numpy() for name in ("start_ns", "span_ns"))
    found = np.zeros(parts.height, dtype=np.int64)
    for device in gaps.get_column("device").unique().to_list():
        waits = gaps.filter(pl.col("device") == device).sort("start_ns")
        waiting = cover_of(waits.get_column("start_ns").to_numpy(), waits.get_column("end_ns").to_numpy())
        events = work.filter(pl.col("device") == device)
        starts, durations = (events.get_column(name).to_numpy() for name in ("ts_ns", "dur_ns"))
        busy = cover_of(starts, starts + durations)
        rows = (parts.get_column("device") == device).to_numpy()
        first, last = start[rows], start[rows] + span[rows]
        found[rows] = waiting.within(first, last) - waiting.shared_within(busy, first, last)
    return found
