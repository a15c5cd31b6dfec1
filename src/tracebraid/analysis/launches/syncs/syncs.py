"""Who makes the host wait for the device, for what, and for how long?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.launches.syncs.sync_calls import sync_calls
from tracebraid.analysis.statistics import max_of, mean_of
from tracebraid.analysis.step_rows import StepOptions, by_step
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import SYNCS
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["syncs"]

_KEY = [
    "api",
    "kind",
    "op",
    "top_op",
    "annotation",
    "frame",
    "waited_name",
    "waited_device",
    "waited_stream",
]
"""What makes two calls one row."""


def syncs(
    linked: LinkedTrace,
    annotation: str = PROFILER_STEP,
    per_step: bool = False,
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """Synchronising calls by API, caller and what they waited for, the most host time first: `model.answers.SYNCS`.

    `sync_calls` has a row for each call, and says how it is known what it waited for.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
        per_step: a row for each step in which the calls were made, instead of one over all.
        with_doubtful: the mean over all steps holds doubtful steps too.
    """
    calls = sync_calls(linked, annotation)
    if calls.is_empty():
        return SYNCS.empty()
    return (
        by_step(calls, linked, StepOptions(annotation, per_step, with_doubtful))
        .group_by("step", *_KEY)
        .agg(
            pl.len().alias("count"),
            (pl.col("blocked_ns") > 0).sum().alias("waits"),
            pl.col("host_ns").sum(),
            pl.col("blocked_ns").sum(),
            mean_of(pl.col("host_ns").filter("in_means")),
            max_of(pl.col("host_ns")),
            pl.col("confidence").min(),
        )
        .sort("host_ns", *_KEY, descending=[True, *([False] * len(_KEY))])
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(SYNCS, frame, linked, annotation))
    )
