"""The options about steps, and what they make of rows: the step of each, and whether it counts in means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from tracebraid.analysis.answering import doubtful_steps
from tracebraid.analysis.device.device_events import device_events_by_step
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["NO_STEP", "StepOptions", "by_launch", "by_start", "by_step", "with_step"]

NO_STEP = pl.lit(None, dtype=pl.String).alias("step")
"""The column `step` of an answer over all."""


@dataclass(frozen=True)
class StepOptions:
    """The usual options of an analysis about steps.

    Args:
        annotation: what marks a step.
        per_step: rows for each step, instead of over all.
        with_doubtful: what lies in doubtful steps counts in means, too.
    """

    annotation: str = PROFILER_STEP
    per_step: bool = False
    with_doubtful: bool = False


def with_step(
    rows: pl.DataFrame, linked: LinkedTrace, options: StepOptions, steps_of: Callable[[], pl.Series]
) -> pl.DataFrame:
    """Rows with `step`, null for an answer over all, and `in_means`, false for what lies in a doubtful step.

    A row about one doubtful step is marked as such: its means are that step's.

    Args:
        rows: any frame.
        linked: one rank.
        options: see `StepOptions`.
        steps_of: the step of each row; only asked where it is needed.
    """
    counts = pl.lit(value=True)
    if options.per_step:
        return rows.with_columns(steps_of().alias("step"), counts.alias("in_means"))
    doubtful = doubtful_steps(linked, options.annotation)
    if not options.with_doubtful and not doubtful.is_empty():
        counts = pl.lit(~steps_of().is_in(doubtful.implode(), nulls_equal=True))
    return rows.with_columns(NO_STEP, counts.alias("in_means"))


def by_step(rows: pl.DataFrame, linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """The same for rows that have the column `step`."""
    return with_step(rows, linked, options, lambda: rows.get_column("step"))


def by_start(rows: pl.DataFrame, linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """The same, by the step in which each row's `ts_ns` lies."""
    windows = step_windows(linked, options.annotation)
    moments = rows.select("ts_ns")
    return with_step(rows, linked, options, lambda: step_of_moments(moments, windows).get_column("step"))


def by_launch(rows: pl.DataFrame, linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """The same for rows in the order of `device_events`, by the step in which each event was launched."""
    return with_step(
        rows, linked, options, lambda: device_events_by_step(linked, options.annotation).get_column("step")
    )
