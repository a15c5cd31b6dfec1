"""What sort of kernels takes the device's time: GEMM, attention, elementwise, copies, communication, ...?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.kernels.work import device_work_of
from tracebraid.analysis.statistics import mean_of, share_of
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import KERNEL_FAMILIES
from tracebraid.model.kernel_family_rules import FamilyBasis
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["kernel_families"]


def kernel_families(
    linked: LinkedTrace,
    per_step: bool = False,
    annotation: str = PROFILER_STEP,
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """Device events by the family of their kernel, the longest in total first: `model.answers.KERNEL_FAMILIES`.

    Args:
        linked: one rank.
        per_step: rows for each step in which they were launched, instead of over all.
        annotation: what marks a step, see `steps`.
        with_doubtful: count the work of doubtful steps in the mean, too.
    """
    work = device_work_of(linked, StepOptions(annotation, per_step, with_doubtful))
    if work.is_empty():
        return KERNEL_FAMILIES.empty()
    return (
        work.group_by("step", "family")
        .agg(
            pl.col("name").n_unique().alias("names"),
            pl.len().alias("count"),
            pl.col("dur_ns").sum().alias("total_ns"),
            _decided_by(FamilyBasis.OP).alias("by_op_ns"),
            _decided_by(FamilyBasis.NAME).alias("by_name_ns"),
            mean_of(pl.col("dur_ns").filter("in_means")),
        )
        .with_columns(share_of("total_ns").alias("share"))
        .sort("total_ns", "family", descending=[True, False])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(KERNEL_FAMILIES, frame, linked, annotation))
    )


def _decided_by(basis: FamilyBasis) -> pl.Expr:
    return pl.col("dur_ns").filter(pl.col("family_by") == basis.value).sum()
