"""Which kernels are so short that launching them costs more than running them?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.device.stream_gaps import stream_gaps
from tracebraid.analysis.kernels.work import device_work_of
from tracebraid.analysis.statistics import mean_of
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import SHORT_KERNELS
from tracebraid.model.device_kind import COMPUTE
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["SHORT_KERNEL_NS", "short_kernels"]

SHORT_KERNEL_NS = 10_000
"""Kernels below this are short, in ns: TraceLens' default, and about what an eager op takes on the host."""


def short_kernels(
    linked: LinkedTrace,
    max_ns: int = SHORT_KERNEL_NS,
    per_step: bool = False,
    annotation: str = PROFILER_STEP,
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """Kernels that compute, and are shorter than a threshold, by name: `model.answers.SHORT_KERNELS`.

    Copies, fills and communication are left out: neither a graph nor fusion saves the time around a collective. They
    count as neighbours where gaps are measured, as their stream is not empty then.

    Args:
        linked: one rank.
        max_ns: a kernel is short that takes less than this, in ns.
        per_step: rows for each step in which they were launched, instead of over all.
        annotation: what marks a step, see `steps`.
        with_doubtful: count the work of doubtful steps in the mean, too.
    """
    every = device_work_of(linked, StepOptions(annotation, per_step, with_doubtful))
    every = every.with_columns(pl.col("dur_ns").sum().over("step").alias("of_step_ns"))
    work = every.filter(pl.col("kind") == COMPUTE)
    is_short = pl.col("dur_ns") < max_ns
    if work.filter(is_short).is_empty():
        return SHORT_KERNELS.empty()
    gaps = stream_gaps(linked).select("event_id", "gap_before_ns", "gap_after_ns")
    return (
        work.join(gaps, on="event_id", how="left", maintain_order="left")
        .group_by("step", "family", "name")
        .agg(
            is_short.sum().alias("count"),
            pl.len().alias("count_of_all"),
            pl.col("dur_ns").filter(is_short).sum().alias("total_ns"),
            mean_of(pl.col("dur_ns").filter(is_short & pl.col("in_means"))),
            pl.col("gap_before_ns", "gap_after_ns").filter(is_short).sum(),
            pl.col("of_step_ns").first(),
        )
        .filter(pl.col("count") > 0)
        .with_columns((pl.col("total_ns") / pl.col("of_step_ns")).fill_nan(0.0).alias("share"))
        .sort("gap_before_ns", "total_ns", "name", "family", descending=[True, True, False, False])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(SHORT_KERNELS, frame, linked, annotation))
    )
