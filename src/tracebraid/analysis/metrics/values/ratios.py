"""What is the ratio of two sums over steps, of each rank and of all, and how well do the steps determine it?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.distributions.student import student_quantile
from tracebraid.model.questions.metric import VALUES, OverRanks

__all__ = ["SAMPLE", "ratio_values"]

SAMPLE = ("step", "occurrence")
"""What makes rows of several ranks a single sample; step null: the whole trace, which is none."""

_RANK = pl.col("rank")
_NO_RANK = pl.lit(None, dtype=pl.Int64).alias("rank")


def ratio_values(
    samples: pl.DataFrame,
    over_ranks: OverRanks,
    bounds: tuple[float | None, float | None] = (0.0, None),
) -> pl.DataFrame:
    """`VALUES` of sum(amount) / sum(base), over the steps of each rank and over those of all ranks.

    The interval is that of the ratio estimator (Cochran, "Sampling Techniques", 6.4): with residuals
    e = amount - ratio * base, the standard error is sqrt(sum(e^2) / (n - 1) / n) / mean(base), with Student's t of
    n - 1 degrees. It takes steps for independent. Where base is 1 it is the interval of a mean.

    Args:
        samples: rank, step, occurrence, amount, base; a row per step and rank. Rows with nulls do not count.
        over_ranks: how the ranks of a step are joined. POOLED: both are summed. SUM: amounts are summed. SLOWEST: the
            greatest amount counts.
        bounds: the least and the most that the value can be, to which the interval is cut; None: no bound.
    """
    samples = samples.filter(pl.col("amount").is_not_null() & pl.col("base").is_not_null())
    amount, base = pl.col("amount"), pl.col("base")
    joined = [
        amount.max() if over_ranks is OverRanks.SLOWEST else amount.sum(),
        base.sum() if over_ranks is OverRanks.POOLED else base.max(),
    ]
    job = samples.group_by(*SAMPLE, maintain_order=True).agg(*joined, _RANK.n_unique().alias("ranks"))
    of_ranks = samples.with_columns(pl.lit(1, dtype=pl.UInt32).alias("ranks"))
    columns = ["rank", *SAMPLE, "amount", "base", "ranks"]
    rows = pl.concat(
        [job.with_columns(_NO_RANK).select(columns), of_ranks.select(columns)], how="vertical_relaxed"
    )
    found = _estimates(rows).with_columns(
        pl.when(_RANK.is_null())
        .then(pl.lit(samples.get_column("rank").n_unique()))
        .otherwise(1)
        .alias("ranks")
    )
    bounded = found.with_columns(pl.col("low", "high").clip(*bounds))
    return VALUES.conform(bounded.sort("rank", nulls_last=False))


def _estimates(rows: pl.DataFrame) -> pl.DataFrame:
    """By rank: value, low, high and steps; ranks whose base is 0 are left out."""
    amount, base = pl.col("amount").cast(pl.Float64), pl.col("base").cast(pl.Float64)
    rows = rows.with_columns((amount.sum() / base.sum()).over("rank").alias("value"))
    error = amount - pl.col("value") * base
    found = (
        rows.filter(pl.col("value").is_finite())
        .group_by("rank", maintain_order=True)
        .agg(
            pl.col("value").first(),
            pl.col("step").is_not_null().sum().cast(pl.Int64).alias("steps"),
            ((error**2).sum() / (pl.len() - 1) / pl.len()).sqrt().alias("_error"),
            base.mean().alias("_mean"),
        )
    )
    counts = found.get_column("steps").unique().to_list()
    quantiles = {count: student_quantile(count - 1) for count in counts if count > 1}
    reach = (
        pl.col("steps").replace_strict(quantiles, default=None, return_dtype=pl.Float64)
        * pl.col("_error")
        / pl.col("_mean").abs()
    )
    return found.with_columns((pl.col("value") - reach).alias("low"), (pl.col("value") + reach).alias("high"))
