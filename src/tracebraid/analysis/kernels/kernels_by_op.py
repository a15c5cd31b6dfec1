"""Which op launched which kernels, and what do they cost?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.kernels.work import device_work_of
from tracebraid.analysis.statistics import max_of, mean_of, min_of, share_of, std_of
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import KERNELS_BY_OP
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["kernels_by_op"]


def kernels_by_op(
    linked: LinkedTrace,
    per_step: bool = False,
    annotation: str = PROFILER_STEP,
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """Device events by launching op and name, the longest in total first: `model.answers.KERNELS_BY_OP`.

    Args:
        linked: one rank.
        per_step: rows for each step in which they were launched, instead of over all.
        annotation: what marks a step, see `steps`.
        with_doubtful: count the work of doubtful steps in mean and std, too.
    """
    work = device_work_of(linked, StepOptions(annotation, per_step, with_doubtful))
    if work.is_empty():
        return KERNELS_BY_OP.empty()
    duration = pl.col("dur_ns")
    counted = duration.filter("in_means")
    return (
        work.rename({"op_name": "op"})
        .group_by("step", "op", "op_category", "kind", "family", "family_by", "name")
        .agg(
            pl.len().alias("count"),
            duration.sum().alias("total_ns"),
            mean_of(counted),
            min_of(duration),
            max_of(duration),
            std_of(counted),
        )
        .with_columns(share_of("total_ns").alias("share"))
        .sort("total_ns", "op", "op_category", "name", "kind", descending=[True, False, False, False, False])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(KERNELS_BY_OP, frame, linked, annotation))
    )
