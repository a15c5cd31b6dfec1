"""How every answer is finished: its rank, its doubtful steps, its schema."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.validity.validity import validity
from tracebraid.model.answers.columns import DOUBTFUL, RANK
from tracebraid.model.column import Table
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["answer", "doubtful_steps"]


def answer(
    table: Table, frame: pl.DataFrame, linked: LinkedTrace, annotation: str = PROFILER_STEP
) -> pl.DataFrame:
    """A frame as a table of `model.answers`: `rank` is set, and `doubtful` where the table has that column.

    Args:
        table: the schema.
        frame: has all columns of the table but these two; rows stay in their order.
        linked: the rank that the frame is about.
        annotation: what marks a step.
    """
    frame = frame.with_columns(pl.lit(linked.rank, dtype=pl.Int64).alias(RANK.name))
    if DOUBTFUL in table.columns:
        frame = frame.with_columns(_doubtful(doubtful_steps(linked, annotation)).alias(DOUBTFUL.name))
    return table.conform(frame)


def doubtful_steps(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.Series:
    """The steps about which `validity` has a doubt, null among them where it is about what lies in no step."""
    return validity(linked, annotation).get_column("step").unique(maintain_order=True)


def _doubtful(steps: pl.Series) -> pl.Expr:
    """A row over all steps is doubtful with any of them."""
    step = pl.col("step")
    return (
        pl.when(step.is_null())
        .then(pl.lit(len(steps) > 0))
        .otherwise(step.is_in(steps.drop_nulls().to_list()))
    )
