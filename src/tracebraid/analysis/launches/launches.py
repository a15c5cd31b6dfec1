"""Which launches cost the host most, and which last longer there than their work on the device?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.launches.launch_events import launch_events
from tracebraid.analysis.statistics import max_of, spread
from tracebraid.analysis.step_rows import StepOptions, by_step
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import LAUNCHES
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["launches"]


def launches(
    linked: LinkedTrace,
    annotation: str = PROFILER_STEP,
    per_step: bool = False,
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """Launches by op and API, the most host time first: `model.answers.LAUNCHES`.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
        per_step: a row for each step in which the calls were made, instead of one over all.
        with_doubtful: means and the like over all steps hold doubtful steps too.
    """
    events = launch_events(linked, annotation)
    if events.is_empty():
        return LAUNCHES.empty()
    return (
        by_step(events, linked, StepOptions(annotation, per_step, with_doubtful))
        .group_by("step", "op", "api")
        .agg(
            pl.len().alias("count"),
            pl.col("kernels").sum(),
            *(expression for prefix in ("host", "delay", "device") for expression in _times(prefix)),
            (pl.col("device_ns") < pl.col("host_ns")).sum().alias("short"),
        )
        .sort("host_ns", "op", "api", descending=[True, False, False])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(LAUNCHES, frame, linked, annotation))
    )


def _times(prefix: str) -> list[pl.Expr]:
    """Sum, spread and greatest of a column of times."""
    time = pl.col(f"{prefix}_ns")
    return [time.sum(), *spread(f"{prefix}_ns", prefix), max_of(time, f"{prefix}_max_ns")]
