"""How long does each rank transfer and wait in collectives, and how long does it make others wait?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.collectives.transfers.transfers import members_with_waits
from tracebraid.model.answers import COLLECTIVE_TOTALS
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.step import PROFILER_STEP

__all__ = ["collective_totals"]


def collective_totals(
    ranks: LinkedRanks, *, per_step: bool = False, annotation: str = PROFILER_STEP
) -> pl.DataFrame:
    """What each rank spends in the collectives of each group: `COLLECTIVE_TOTALS`.

    Args:
        ranks: the ranks of a job.
        per_step: rows per step instead of over all; what a rank causes is in the step of those that wait.
        annotation: what marks a step.
    """
    del annotation  # It was asked for when members were taken of each rank.
    members = members_with_waits(ranks)
    if not per_step:
        members = members.with_columns(pl.lit(None, dtype=pl.String).alias("step"))
    key = ["rank", "step", "group"]
    known = pl.col("waiting_ns").is_not_null()
    suffered = members.group_by(key).agg(
        pl.col("description").drop_nulls().first(),
        pl.len().alias("count"),
        *(pl.col(name).sum() for name in ("dur_ns", "transfer_ns", "rest_ns")),
        pl.when(known.any()).then(pl.col("waiting_ns").sum()).alias("waiting_ns"),
        pl.col("dur_ns").filter(known).sum().alias("_known_ns"),
        pl.col("is_bound").fill_null(value=True).sum().alias("bounds"),
    )
    caused = (
        members.drop("rank")
        .filter(pl.col("waited_for").is_not_null())
        .group_by(pl.col("waited_for").alias("rank"), "step", "group")
        .agg(
            pl.col("waiting_ns").sum().alias("caused_ns"), pl.col("collective").n_unique().alias("times_last")
        )
    )
    begun = members.group_by("step").agg(pl.col("arrival_ns").min().alias("_begun"))
    share = pl.when(pl.col("_known_ns") > 0).then(pl.col("waiting_ns") / pl.col("_known_ns"))
    sums = ("count", "dur_ns", "transfer_ns", "rest_ns", "bounds", "caused_ns", "times_last")
    rows = (
        suffered.join(caused, on=key, how="full", coalesce=True, nulls_equal=True)
        .with_columns(pl.col(name).fill_null(0) for name in sums)
        .with_columns(share.alias("waiting_share"))
        .join(begun, on="step", how="left", nulls_equal=True)
    )
    return COLLECTIVE_TOTALS.conform(rows.sort("rank", "_begun", "step", "group"))
