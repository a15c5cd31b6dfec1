"""How long was the queue between host and device full, and how long did launches block on it?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.launches.launched_work import STREAM, launched_work
from tracebraid.analysis.launches.queues.queues import queue_changes_of
from tracebraid.analysis.step_rows import NO_STEP
from tracebraid.analysis.time.step_windows import in_order_of_steps, step_windows
from tracebraid.model.answers import FULL_QUEUE
from tracebraid.model.expressions import by_number
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["MAX_QUEUE_LENGTH", "NEARLY_FULL", "SLOW", "full_queue"]

MAX_QUEUE_LENGTH = 1024
"""Launches that a CUDA stream takes before the next launch blocks; HTA's default too."""

NEARLY_FULL = 0.95
"""Share of the maximum from which a queue is nearly full: drivers keep some entries for themselves."""

SLOW = 4.0
"""How many times the median of its API a launch takes at least to count as blocked."""


def full_queue(
    linked: LinkedTrace,
    annotation: str = PROFILER_STEP,
    per_step: bool = False,
    max_queue_length: int = MAX_QUEUE_LENGTH,
) -> pl.DataFrame:
    """Time at which each stream's queue was full, by device and stream: `model.answers.FULL_QUEUE`.

    `full_ns` is HTA's `duration_at_max_queue_length`, with launches of graphs counted once. A launch is blocked if the
    queue was nearly full (95 % of that) when it began, it took four times the median of its API elsewhere, and work
    of the stream started before it returned: that made room for it.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
        per_step: a row for each step in which the work was launched, instead of one over all.
        max_queue_length: launches that wait on a full stream.
    """
    changes = queue_changes_of(linked, annotation)
    if changes.is_empty():
        return FULL_QUEUE.empty()
    began = _began_nearly_full(linked, annotation, changes, max_queue_length)
    if not per_step:
        changes, began = changes.with_columns(NO_STEP), began.with_columns(NO_STEP)
    found = _summed(changes, began, max_queue_length).join(
        _spans(linked, annotation), on="step", how="left", nulls_equal=True, maintain_order="left"
    )
    share = pl.when(pl.col("span_ns") > 0).then(pl.col("full_ns") / pl.col("span_ns"))
    found = found.with_columns(share.alias("share"))
    return answer(FULL_QUEUE, in_order_of_steps(found, linked, annotation), linked, annotation)


def _summed(changes: pl.DataFrame, began: pl.DataFrame, max_queue_length: int) -> pl.DataFrame:
    """A row for each step and stream: longest, full_ns, launches, blocked, blocked_ns."""
    key = ["step", *STREAM]
    lasted = (pl.col("ts_ns").shift(-1).over(STREAM) - pl.col("ts_ns")).fill_null(0)
    full = pl.col("launches") >= max_queue_length
    blocked = began.group_by(key).agg(
        pl.len().alias("launches"), pl.col("is_blocked").sum().alias("blocked"), pl.col("blocked_ns").sum()
    )
    return (
        changes.with_columns(pl.when(full).then(lasted).otherwise(0).alias("full_ns"))
        .group_by(key)
        .agg(pl.col("launches").max().alias("longest"), pl.col("full_ns").sum())
        .join(blocked, on=key, how="left", nulls_equal=True)
        .with_columns(pl.col("launches", "blocked", "blocked_ns").fill_null(0))
        .sort(*by_number(*STREAM))
    )


def _began_nearly_full(
    linked: LinkedTrace, annotation: str, changes: pl.DataFrame, max_queue_length: int
) -> pl.DataFrame:
    """The launches that began while the queue was nearly full: step, device, stream, is_blocked, blocked_ns."""
    work = launched_work(linked, annotation)
    nearly_full = pl.col("launches") - 1 >= NEARLY_FULL * max_queue_length
    calls = (
        work.filter(pl.col("call_event").is_not_null())
        .select(
            "call_event",
            "api",
            "called_ns",
            "returned_ns",
            (pl.col("returned_ns") - pl.col("called_ns")).alias("host_ns"),
        )
        .unique("call_event", maintain_order=True)
    )
    began = changes.filter(pl.col("call_event").is_not_null() & nearly_full)
    began = began.select("step", *STREAM, "call_event").unique([*STREAM, "call_event"], maintain_order=True)
    usual = (
        calls.join(began, on="call_event", how="anti")
        .group_by("api")
        .agg(pl.col("host_ns").median().alias("usual_ns"))
    )
    starts = work.select(*STREAM, pl.col("ts_ns").alias("started_ns")).sort("started_ns")
    slow = (pl.col("host_ns") >= SLOW * pl.col("usual_ns")) & (pl.col("started_ns") > pl.col("called_ns"))
    return (
        began.join(calls, on="call_event")
        .join(usual, on="api", how="left")
        .sort("returned_ns", "call_event")
        .join_asof(
            starts,
            left_on="returned_ns",
            right_on="started_ns",
            by=STREAM,
            check_sortedness=False,
            coalesce=False,
        )
        .with_columns(slow.fill_null(False).alias("is_blocked"))
        .with_columns(
            pl.when("is_blocked")
            .then(pl.col("host_ns") - pl.col("usual_ns").cast(pl.Int64))
            .otherwise(0)
            .alias("blocked_ns")
        )
    )


def _spans(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The length of each step, and of the trace as that of no step."""
    spans = (
        step_windows(linked, annotation)
        .group_by("step", maintain_order=True)
        .agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("span_ns"))
    )
    start, end = linked.timeline.span_ns or (0, 0)
    whole = pl.DataFrame(
        {"step": [None], "span_ns": [end - start]}, schema={"step": pl.String, "span_ns": pl.Int64}
    )
    return pl.concat([whole, spans])
