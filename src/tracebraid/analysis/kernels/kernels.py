"""Which kernels and copies take the most time on the device?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.kernels.work import device_work_of
from tracebraid.analysis.statistics import max_of, mean_of, median_of, min_of, p95_of, share_of, std_of
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import KERNELS
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["kernels"]

_KEY = ["step", "kind", "name"]


def kernels(
    linked: LinkedTrace,
    per_step: bool = False,
    annotation: str = PROFILER_STEP,
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """Device events by kind and name, the longest in total first: `model.answers.KERNELS`.

    Args:
        linked: one rank.
        per_step: a row for each step in which they were launched, instead of one over all.
        annotation: what marks a step, see `steps`.
        with_doubtful: count the work of doubtful steps in mean, median, p95 and std, too.
    """
    work = device_work_of(linked, StepOptions(annotation, per_step, with_doubtful))
    if work.is_empty():
        return KERNELS.empty()
    duration = pl.col("dur_ns")
    counted = duration.filter("in_means")
    return (
        work.group_by(_KEY)
        .agg(
            pl.len().alias("count"),
            duration.sum().alias("total_ns"),
            mean_of(counted),
            median_of(counted),
            p95_of(counted),
            min_of(duration),
            max_of(duration),
            std_of(counted),
        )
        .join(_families(work), on=_KEY, how="left", nulls_equal=True)
        .with_columns(share_of("total_ns").alias("share"))
        .sort("total_ns", "name", "kind", descending=[True, False, False])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(KERNELS, frame, linked, annotation))
    )


def _families(work: pl.DataFrame) -> pl.DataFrame:
    """The family in which each row spent the most time."""
    return (
        work.group_by(*_KEY, "family")
        .agg(pl.col("dur_ns").sum())
        .sort("dur_ns", "family", descending=[True, False])
        .unique(_KEY, keep="first", maintain_order=True)
        .select(*_KEY, "family")
    )
