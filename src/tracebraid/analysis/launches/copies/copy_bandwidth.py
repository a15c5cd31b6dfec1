"""How fast are copies and fills, by direction?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.launches.copies.bandwidths import SORT_OF_COPY, bandwidth_changes
from tracebraid.analysis.statistics import max_of, mean_of, min_of, quartiles_of, std_of
from tracebraid.analysis.step_rows import StepOptions, by_step
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import COPY_BANDWIDTH
from tracebraid.model.expressions import by_number
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["copy_bandwidth"]


def copy_bandwidth(
    linked: LinkedTrace,
    annotation: str = PROFILER_STEP,
    per_step: bool = False,
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """Statistics of the bandwidth while copies run, by device and sort of copy: `model.answers.COPY_BANDWIDTH`.

    They are HTA's (`get_memory_bw_summary`): over the values of `copy_bandwidth_series` above 0, not weighted by time
    or size; copies that overlap add up. `copies` has bytes by time.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
        per_step: a row for each step in which the copies were launched, instead of one over all.
        with_doubtful: means and quartiles over all steps hold the copies of doubtful steps too.
    """
    changes = bandwidth_changes(linked, annotation).filter(pl.col("bytes_per_s") > 0)
    if changes.is_empty():
        return COPY_BANDWIDTH.empty()
    rate = pl.col("bytes_per_s").filter("in_means")
    return (
        by_step(changes, linked, StepOptions(annotation, per_step, with_doubtful))
        .group_by("step", *SORT_OF_COPY)
        .agg(
            pl.len().alias("count"),
            mean_of(rate, "mean_bytes_per_s"),
            std_of(rate, "std_bytes_per_s"),
            min_of(pl.col("bytes_per_s"), "min_bytes_per_s"),
            *quartiles_of(rate, "_bytes_per_s"),
            max_of(pl.col("bytes_per_s"), "max_bytes_per_s"),
        )
        .sort(*by_number("device"), *SORT_OF_COPY[1:])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(COPY_BANDWIDTH, frame, linked, annotation))
    )
