"""What does activation checkpointing compute again in the backward pass, and what does that cost?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.efficiency.counted_ops import counted_ops_by_step
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import RECOMPUTATION
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["recomputation"]


def recomputation(
    linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP
) -> pl.DataFrame:
    """Ops of a forward pass that ran again in the backward pass, the most time first: `model.answers.RECOMPUTATION`.

    Both kinds of `torch.utils.checkpoint` are seen, by sequence numbers: see `recomputed_rows`. An op that lies in
    another which counts is part of it; a row without known FLOPs, such as `linear` around its `addmm`, has its own host
    time alone. In a trace with device work only ops that launched something are there.

    Args:
        linked: one rank.
        per_step: rows for each step in which the ops started, instead of over all.
        annotation: what marks a step, see `steps`.
    """
    ops = counted_ops_by_step(linked, per_step, annotation).filter("is_recompute")
    flops = pl.col("flops")
    return (
        ops.group_by("step", "name", "family")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("host_ns", "device_ns").sum(),
            pl.when(flops.is_not_null().any()).then(flops.sum()).alias("flops"),
        )
        .sort("device_ns", "host_ns", "name", descending=[True, True, False])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(RECOMPUTATION, frame, linked, annotation))
    )
