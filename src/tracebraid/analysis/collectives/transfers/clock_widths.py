"""How well are the clocks of the members of a collective known against each other?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.collectives.codes import USUAL_DRIFT_PPM, ClockMethod
from tracebraid.model.linked_ranks import LinkedRanks

__all__ = ["clock_width", "with_clocks"]


def with_clocks(members: pl.DataFrame, ranks: LinkedRanks) -> pl.DataFrame:
    """The members with the clock of each: `_host`, and `_width_ns`, its interval at `arrival_ns`; null: unknown.

    Args:
        members: have rank and arrival_ns; rows stay in their order.
        ranks: the ranks of the job.
    """
    drift = (pl.col("drift_high_ppm") - pl.col("drift_low_ppm")).fill_null(2 * USUAL_DRIFT_PPM) / 1e6
    clocks = ranks.clocks.select(
        "rank",
        pl.col("host").alias("_host"),
        pl.col("at_ns").alias("_at"),
        drift.alias("_drift"),
        pl.when(pl.col("method") == ClockMethod.REFERENCE.value)
        .then(pl.lit(0))
        .otherwise(pl.col("offset_high_ns") - pl.col("offset_low_ns"))
        .alias("_interval"),
    )
    since = (pl.col("arrival_ns") - pl.col("_at")).abs().fill_null(0)
    grown = pl.col("_interval") + (since * pl.col("_drift")).fill_null(0.0).round().cast(pl.Int64)
    return (
        members.join(clocks, on="rank", how="left", maintain_order="left")
        .with_columns(grown.alias("_width_ns"))
        .drop("_at", "_drift", "_interval")
    )


def clock_width() -> pl.Expr:
    """Of the members of a collective: how far their clocks may be apart; null: unknown.

    Members of one host share a clock. Else it is the widest of their intervals.
    """
    host, width = pl.col("_host"), pl.col("_width_ns")
    is_shared = ((host.null_count() == 0) & (host.n_unique() == 1)) | (pl.col("rank").n_unique() == 1)
    return pl.when(is_shared).then(pl.lit(0)).when(width.null_count() == 0).then(width.max()).cast(pl.Int64)
