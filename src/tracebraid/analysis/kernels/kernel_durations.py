"""How are the kernels' durations distributed, by number and by time?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.kernels.work import device_work_of
from tracebraid.analysis.statistics import share_of
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import KERNEL_DURATIONS
from tracebraid.model.device_kind import COMMUNICATION, COMPUTE
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["DURATION_EDGES_NS", "kernel_durations"]

_DECADES = 18
DURATION_EDGES_NS = np.array(
    [0, *(step * 10**decade for decade in range(_DECADES) for step in (1, 2, 5)), 10**_DECADES],
    dtype=np.int64,
)
"""Where the bins begin, in ns: 0, then 1, 2 and 5 of each decade up to 10^18 (31 years)."""


def kernel_durations(
    linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP
) -> pl.DataFrame:
    """The histogram of the kernels' durations, in logarithmic bins: `model.answers.KERNEL_DURATIONS`.

    Copies, fills and waits are no kernels.

    Args:
        linked: one rank.
        per_step: a histogram for each step in which they were launched, instead of one over all.
        annotation: what marks a step, see `steps`.
    """
    work = device_work_of(linked, StepOptions(annotation, per_step))
    work = work.filter(pl.col("kind").is_in([COMPUTE, COMMUNICATION]))
    if work.is_empty():
        return KERNEL_DURATIONS.empty()
    found = np.searchsorted(DURATION_EDGES_NS, work.get_column("dur_ns").to_numpy(), side="right") - 1
    bins = np.clip(found, 0, len(DURATION_EDGES_NS) - 2)
    return (
        work.with_columns(
            pl.Series("from_ns", DURATION_EDGES_NS[bins]), pl.Series("below_ns", DURATION_EDGES_NS[bins + 1])
        )
        .group_by("step", "from_ns", "below_ns")
        .agg(pl.len().alias("count"), pl.col("dur_ns").sum().alias("total_ns"))
        .with_columns(share_of("count").alias("share_of_count"), share_of("total_ns").alias("share"))
        .sort("from_ns")
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(KERNEL_DURATIONS, frame, linked, annotation))
    )
