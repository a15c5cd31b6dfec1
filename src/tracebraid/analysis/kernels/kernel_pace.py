"""At what pace does each kernel come back on its stream?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.kernels.work import device_work_of
from tracebraid.analysis.statistics import max_of, mean_of, median_of, min_of, p95_of, std_of
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import KERNEL_PACE
from tracebraid.model.device_kind import COMMUNICATION, COMPUTE
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["kernel_pace"]

_KEY = ["step", "lane", "family", "name"]


def kernel_pace(linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """Distances from start to start of each kernel on its stream: `model.answers.KERNEL_PACE`.

    Sorted by the number of distances, the most first. What lies in doubtful steps is counted: a distance that left
    out a step would be that of other kernels.

    Args:
        linked: one rank.
        per_step: distances within each step in which both were launched, instead of over all.
        annotation: what marks a step, see `steps`.
    """
    work = device_work_of(linked, StepOptions(annotation, per_step))
    work = work.filter(pl.col("kind").is_in([COMPUTE, COMMUNICATION])).sort("ts_ns", "event_id")
    if work.is_empty():
        return KERNEL_PACE.empty()
    stream = pl.coalesce(as_text("tid"), "tid_text", pl.lit("unknown")).alias("stream")
    distance = pl.col("distance")
    return (
        work.with_columns(pl.col("ts_ns").diff().over(_KEY).alias("distance"))
        .filter(distance.is_not_null())
        .group_by(_KEY)
        .agg(
            pl.col("device").first(),
            pl.len().alias("count"),
            mean_of(distance),
            median_of(distance),
            p95_of(distance),
            min_of(distance),
            max_of(distance),
            std_of(distance),
        )
        .join(linked.timeline.lanes.select("lane", stream), on="lane", how="left")
        .sort("count", "name", "family", "lane", descending=[True, False, False, False])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(KERNEL_PACE, frame, linked, annotation))
    )
