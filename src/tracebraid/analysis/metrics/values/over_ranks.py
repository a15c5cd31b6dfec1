"""What is the value of a job, from the values of its ranks?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.questions.metric import VALUES, OverRanks

__all__ = ["values_over_ranks"]

_JOINED = {
    OverRanks.MEAN: pl.col("value").mean(),
    OverRanks.SUM: pl.col("value").sum(),
    OverRanks.MAX: pl.col("value").max(),
    OverRanks.MIN: pl.col("value").min(),
}


def values_over_ranks(found: pl.DataFrame, over_ranks: OverRanks) -> pl.DataFrame:
    """`VALUES` of the ranks, and of all of them that have a value; a sum needs the value of each rank.

    Args:
        found: rank, value; a row per rank.
        over_ranks: MEAN, SUM, MAX or MIN.

    Raises:
        KeyError: another.
    """
    known = found.filter(pl.col("value").is_not_null() & pl.col("value").cast(pl.Float64).is_finite())
    if known.is_empty() or (over_ranks is OverRanks.SUM and known.height < found.height):
        job = known.clear().select("rank", "value", pl.lit(0).alias("ranks"))
    else:
        joined = _JOINED[over_ranks].cast(pl.Float64).alias("value")
        job = known.select(pl.lit(None, dtype=pl.Int64).alias("rank"), joined, pl.len().alias("ranks"))
    each = known.sort("rank").select("rank", "value", pl.lit(1).alias("ranks"))
    rows = pl.concat([job, each], how="vertical_relaxed")
    return VALUES.conform(rows, fill_missing=True)
