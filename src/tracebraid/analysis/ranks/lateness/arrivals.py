"""Who arrived last at each collective, how late, and how long did the others wait for it?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.collectives.transfers.waits import waits
from tracebraid.analysis.ranks.lateness.rank_segments import GROUP, PAIRED
from tracebraid.model.linked_ranks import LinkedRanks

__all__ = ["arrivals", "late_ranks"]


def arrivals(ranks: LinkedRanks) -> pl.DataFrame:
    """The rows of `waits` of matched collectives of which several ranks are there, with further columns.

    paired: whether it is a send or receive.
    waiting_ns: the waiting; of a send, the time until its receiver is there.
    waited_ns: the part of it in which no earlier collective of the rank waits: adds up over collectives.
    waited_for: whom for.
    previous, previous_late_by: the collective before it of the rank's group, and `late_by_ns` there; null: none.

    Args:
        ranks: the ranks of a job.
    """
    return ranks.derived(_of_members)


def _of_members(ranks: LinkedRanks) -> pl.DataFrame:
    groups = ranks.members.select("rank", "event_id", GROUP.alias("group"))
    found = (
        waits(ranks)
        .join(groups, on=["rank", "event_id"], how="left", maintain_order="left")
        .filter(pl.col("collective").is_not_null())
        .filter(pl.len().over("collective") > 1)
    )
    last = found.sort("late_by_ns", "rank", descending=[True, False], nulls_last=True)
    latest = last.group_by("collective", maintain_order=True).agg(pl.col("rank").first().alias("latest"))
    of_send = (
        (pl.col("waited_for").is_null()) & (pl.col("rest_ns") > 0) & (pl.col("rank") != pl.col("latest"))
    )
    return (
        found.join(latest, on="collective", how="left", maintain_order="left")
        .with_columns(
            pl.when(of_send).then("rest_ns").otherwise("waiting_ns").fill_null(0).alias("waiting_ns"),
            pl.when(of_send).then("latest").otherwise("waited_for").alias("waited_for"),
            pl.col("type").is_in(PAIRED).fill_null(value=False).alias("paired"),
        )
        .pipe(_with_waited)
        .sort("rank", "arrival_ns", "event_id")
        .with_columns(
            pl.col("collective").shift(1).over("rank", "group").alias("previous"),
            pl.col("late_by_ns").shift(1).over("rank", "group").alias("previous_late_by"),
        )
    )


def _with_waited(found: pl.DataFrame) -> pl.DataFrame:
    ordered = found.sort("rank", "arrival_ns", "event_id")
    end = pl.col("arrival_ns") + pl.col("waiting_ns")
    reach = end.cum_max().shift(1).over("rank")
    begin = pl.max_horizontal("arrival_ns", reach)
    return ordered.with_columns((end - begin).clip(lower_bound=0).alias("waited_ns"))


def late_ranks(arrived: pl.DataFrame) -> pl.DataFrame:
    """The last arrival at each collective, in the order of collectives: the rows of `arrivals`, and further columns.

    lateness_ns: how much later than the median of the others.
    margin_ns: how much later than the last of them.
    caused_ns: sum of `waited_ns` of those that waited for it.

    Args:
        arrived: `arrivals`.
    """
    others = pl.col("rank") != pl.col("latest")
    late_by = pl.col("late_by_ns")
    of_others = arrived.group_by("collective").agg(
        late_by.filter(others).median().round().cast(pl.Int64).alias("others_late_by"),
        late_by.filter(others).max().alias("next_late_by"),
        pl.col("waited_ns").filter(pl.col("waited_for") == pl.col("latest")).sum().alias("caused_ns"),
    )
    return (
        arrived.filter(~others)
        .join(of_others, on="collective", how="left")
        .with_columns(
            (late_by - pl.col("others_late_by")).alias("lateness_ns"),
            (late_by - pl.col("next_late_by")).alias("margin_ns"),
        )
        .sort("collective")
    )
