"""How long are the queues between host and device, stream by stream?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.launches.launched_work import STREAM
from tracebraid.analysis.launches.queues.queues import queue_changes_of
from tracebraid.analysis.statistics import max_of, mean_of, min_of, quartiles_of, std_of
from tracebraid.analysis.step_rows import StepOptions, by_step
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import QUEUE_LENGTHS
from tracebraid.model.expressions import by_number
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["queue_lengths", "summary_of_queues"]


def queue_lengths(
    linked: LinkedTrace,
    annotation: str = PROFILER_STEP,
    per_step: bool = False,
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """Statistics of each stream's queue, by device and stream: `model.answers.QUEUE_LENGTHS`.

    A device event joins the queue of its stream when its call starts and leaves it when it starts itself. The
    statistics are HTA's (`get_queue_length_summary`), over the lengths after each change; `mean_over_time` weights
    them by time. A queue near 0 means that the device waits for the host.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
        per_step: a row for each step in which the work was launched, instead of one over all.
        with_doubtful: means and quartiles over all steps hold the changes of doubtful steps too.
    """
    changes = queue_changes_of(linked, annotation)
    if changes.is_empty():
        return QUEUE_LENGTHS.empty()
    lasting = changes.with_columns(
        (pl.col("ts_ns").shift(-1).over(STREAM) - pl.col("ts_ns")).fill_null(0).alias("lasted_ns")
    )
    rows = by_step(lasting, linked, StepOptions(annotation, per_step, with_doubtful))
    found = in_order_of_steps(summary_of_queues(rows), linked, annotation)
    return answer(QUEUE_LENGTHS, found, linked, annotation)


def summary_of_queues(changes: pl.DataFrame) -> pl.DataFrame:
    """Statistics of changes with the columns `length`, `lasted_ns`, `step` and `in_means`; by device and stream."""
    length = pl.col("length").filter("in_means")
    lasted = pl.col("lasted_ns").filter("in_means")
    return (
        changes.group_by("step", *STREAM)
        .agg(
            pl.len().alias("count"),
            mean_of(length, "mean"),
            std_of(length, "std"),
            min_of(pl.col("length"), "min"),
            *quartiles_of(length, ""),
            max_of(pl.col("length"), "max"),
            (length * lasted).sum().alias("weighted"),
            lasted.sum().alias("lasted_ns"),
        )
        .with_columns(
            pl.when(pl.col("lasted_ns") > 0)
            .then(pl.col("weighted") / pl.col("lasted_ns"))
            .alias("mean_over_time")
        )
        .sort(*by_number(*STREAM))
    )
