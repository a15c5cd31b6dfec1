"""What a job's timeline shows of collectives: which parts of ranks are joined, and the bandwidth over time."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.collectives.collective_ranks import collective_ranks
from tracebraid.analysis.collectives.collectives import collectives
from tracebraid.model.linked_ranks import LinkedRanks

__all__ = ["collective_rates", "joined_members"]


def joined_members(ranks: LinkedRanks, steps: list[str]) -> pl.DataFrame:
    """Each part of a rank in a collective of which at least two are there: `rank`, `event_id`, `collective`, and
    whether it `is_first` and `is_last` to start.

    Args:
        ranks: the ranks of a job.
        steps: names of the steps that are shown; empty: all.
    """
    members = ranks.members.filter(pl.col("collective").is_not_null())
    if steps:
        members = members.filter(pl.col("step").is_in(steps))
    order = pl.int_range(pl.len()).over("collective")
    count = pl.len().over("collective")
    return (
        members.sort("collective", "start_ns", "rank", "event_id")
        .filter(count > 1)
        .select(
            *("rank", "event_id", "collective"),
            (order == 0).alias("is_first"),
            (order == count - 1).alias("is_last"),
        )
    )


def collective_rates(ranks: LinkedRanks) -> pl.DataFrame:
    """Bus bandwidth of the collectives that transfer, by rank and time: `rank`, `ts_ns`, `bytes_per_s`.

    Each counts on each of its ranks while it transfers there: for `transfer_ns` before the end of its part, without
    waiting. Those that transfer at the same time are added up.

    Args:
        ranks: the ranks of a job, on whose aligned clocks the moments are.
    """
    rate = collectives(ranks).select("collective", "bus_bytes_per_s").drop_nulls()
    parts = (
        collective_ranks(ranks)
        .select("rank", "collective", "transfer_ns", "end_ns")
        .filter(pl.col("transfer_ns") > 0)
        .join(rate, on="collective", how="inner", maintain_order="left")
    )
    start, end, rate_of = (
        pl.col("end_ns") - pl.col("transfer_ns"),
        pl.col("end_ns"),
        pl.col("bus_bytes_per_s"),
    )
    begins = parts.select("rank", start.alias("ts_ns"), rate_of.alias("change"), pl.lit(1).alias("running"))
    ends = parts.select("rank", end.alias("ts_ns"), (-rate_of).alias("change"), pl.lit(-1).alias("running"))
    changes = (
        pl.concat([begins, ends])
        .group_by("rank", "ts_ns", maintain_order=True)
        .agg(pl.col("change").sum(), pl.col("running").sum())
        .sort("rank", "ts_ns")
    )
    running = pl.col("running").cum_sum().over("rank")
    # Sums of floats end beside 0 where nothing runs.
    value = pl.when(running > 0).then(pl.col("change").cum_sum().over("rank")).otherwise(0.0)
    return changes.select("rank", "ts_ns", value.alias("bytes_per_s"))
