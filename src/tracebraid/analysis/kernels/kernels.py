"""Which kernels and copies take the most time on the device?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.device_events import device_events, device_events_by_step
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import KERNELS
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["kernels"]


def kernels(linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """Device events by kind and name, the longest in total first: `model.answers.KERNELS`.

    Args:
        linked: one rank.
        per_step: a row for each step in which they were launched, instead of one over all.
        annotation: what marks a step, see `steps`.
    """
    if per_step:
        events = device_events_by_step(linked, annotation)
    else:
        events = device_events(linked).with_columns(pl.lit(None, dtype=pl.String).alias("step"))
    if events.is_empty():
        return KERNELS.empty()
    duration = pl.col("dur_ns")
    return (
        events.group_by("step", "kind", "name")
        .agg(
            pl.len().alias("count"),
            duration.sum().alias("total_ns"),
            duration.mean().alias("mean_ns"),
            duration.min().alias("min_ns"),
            duration.max().alias("max_ns"),
        )
        .with_columns(
            (pl.col("total_ns") / pl.col("total_ns").sum().over("step")).fill_nan(0.0).alias("share"),
        )
        .sort("total_ns", "name", "kind", descending=[True, False, False])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(KERNELS, frame, linked, annotation))
    )
