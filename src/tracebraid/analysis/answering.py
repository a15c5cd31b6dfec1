"""Finish an answer: add the rank, mark doubtful steps, check the schema."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
from msgspec import Struct

from tracebraid.analysis.device import device_events_by_step
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.analysis.validity import validity
from tracebraid.model.answers import DOUBTFUL, RANK
from tracebraid.model.column import Table
from tracebraid.model.linked_trace import LinkedTrace


def answer(table: Table, frame: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Convert a frame to a table of answers: set `rank`, and `doubtful` if the table has that column.

    Args:
        table: the schema.
        frame: has all columns of the table but these two; rows stay in their order.
        linked: the rank that the frame is about.
    """
    frame = frame.with_columns(pl.lit(linked.rank, dtype=pl.Int64).alias(RANK.name))
    if DOUBTFUL in table.columns:
        frame = frame.with_columns(_doubtful(doubtful_steps(linked)).alias(DOUBTFUL.name))
    return table.conform(frame)


def doubtful_steps(linked: LinkedTrace) -> pl.Series:
    """Return the steps that `validity` doubts; null for time outside steps."""
    return validity(linked).get_column("step").unique(maintain_order=True)


def _doubtful(steps: pl.Series) -> pl.Expr:
    """A row over all steps is doubtful with any of them."""
    step = pl.col("step")
    return (
        pl.when(step.is_null())
        .then(pl.lit(len(steps) > 0))
        .otherwise(step.is_in(steps.drop_nulls().to_list()))
    )


NO_STEP = pl.lit(None, dtype=pl.String).alias("step")
"""The column `step` of an answer over all."""


class StepOptions(Struct, frozen=True):
    """The usual options of an analysis about steps.

    Args:
        per_step: rows for each step, instead of over all.
        with_doubtful: whether doubtful steps count in means.
    """

    per_step: bool = False
    with_doubtful: bool = False


def with_step(
    rows: pl.DataFrame, linked: LinkedTrace, options: StepOptions, steps_of: Callable[[], pl.Series]
) -> pl.DataFrame:
    """Add `step`, null for an answer over all, and `in_means`, false in doubtful steps.

    A row about one doubtful step is marked as such: its means are that step's.
    """
    counts = pl.lit(value=True)
    if options.per_step:
        return rows.with_columns(steps_of().alias("step"), counts.alias("in_means"))
    doubtful = doubtful_steps(linked)
    if not options.with_doubtful and not doubtful.is_empty():
        counts = pl.lit(~steps_of().is_in(doubtful.implode(), nulls_equal=True))
    return rows.with_columns(NO_STEP, counts.alias("in_means"))


def by_step(rows: pl.DataFrame, linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """The same for rows that have the column `step`."""
    return with_step(rows, linked, options, lambda: rows.get_column("step"))


def by_start(rows: pl.DataFrame, linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """The same, by the step in which each row's `ts_ns` lies."""
    windows = step_windows(linked)
    moments = rows.select("ts_ns")
    return with_step(rows, linked, options, lambda: step_of_moments(moments, windows).get_column("step"))


def by_launch(rows: pl.DataFrame, linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """The same for rows in the order of `device_events`, by the step in which each event was launched."""
    return with_step(rows, linked, options, lambda: device_events_by_step(linked).get_column("step"))
