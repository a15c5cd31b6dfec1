"""Which rows count in means: those of doubtful steps do not, unless they are asked for."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import doubtful_steps
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["in_rows_of_steps", "spread"]


def in_rows_of_steps(
    events: pl.DataFrame, linked: LinkedTrace, annotation: str, per_step: bool, with_doubtful: bool
) -> pl.DataFrame:
    """Events as they are grouped: `step` becomes null unless there are rows by step; `counts` says what means hold.

    In a row over all steps, what lies in doubtful steps counts in no mean. A row of one step holds its own means, and
    is marked as doubtful.

    Args:
        events: have the column `step`.
        linked: one rank.
        annotation: what marks a step.
        per_step: whether there are rows by step.
        with_doubtful: whether doubtful steps count too.
    """
    if per_step:
        return events.with_columns(pl.lit(True).alias("counts"))
    counts = pl.lit(True)
    if not with_doubtful:
        doubtful = doubtful_steps(linked, annotation)
        known = doubtful.drop_nulls().to_list()
        in_none = pl.lit(doubtful.null_count() > 0)
        counts = ~pl.when(pl.col("step").is_null()).then(in_none).otherwise(pl.col("step").is_in(known))
    return events.with_columns(counts.alias("counts"), pl.lit(None, dtype=pl.String).alias("step"))


def spread(column: str, prefix: str) -> list[pl.Expr]:
    """Sum of a column of times, and mean, median, 95th percentile (linear) and maximum of what counts."""
    counted = pl.col(column).filter("counts")
    return [
        pl.col(column).sum().alias(f"{prefix}_ns"),
        counted.mean().alias(f"{prefix}_mean_ns"),
        counted.median().alias(f"{prefix}_median_ns"),
        counted.quantile(0.95, "linear").alias(f"{prefix}_p95_ns"),
        counted.max().alias(f"{prefix}_max_ns"),
    ]
