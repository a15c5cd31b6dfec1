"""How long does each collective transfer, and at what bandwidth?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.collectives.bandwidth.bus_factors import algorithm_rate, bus_rate, size_of
from tracebraid.analysis.collectives.transfers.waits import waits
from tracebraid.model.collectives.transfer_method import TransferMethod
from tracebraid.model.linked_ranks import LinkedRanks

__all__ = ["UNKNOWN_GROUP", "members_with_waits", "transfers"]

UNKNOWN_GROUP = "unknown"
"""The group of members that name none."""


def members_with_waits(ranks: LinkedRanks) -> pl.DataFrame:
    """The columns of `waits` and of `MEMBERS`, in the order of `ranks.members`.

    `group` is never null, and `group_size` is that of the collective where there is one.
    """
    return ranks.derived(_joined_waits)


def _joined_waits(ranks: LinkedRanks) -> pl.DataFrame:
    given = waits(ranks)
    groups = ranks.collectives.select(
        "collective", pl.col("group").alias("_group"), pl.col("group_size").alias("_group_size")
    )
    return (
        ranks.members.with_columns(given.select("end_ns").get_columns())
        .hstack(given.select(pl.exclude(ranks.members.columns)))
        .join(groups, on="collective", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("group", "_group", "process_group", "communicator", pl.lit(UNKNOWN_GROUP)).alias(
                "group"
            ),
            pl.coalesce("_group_size", "group_size").alias("group_size"),
        )
        .drop("_group", "_group_size")
    )


def transfers(ranks: LinkedRanks) -> pl.DataFrame:
    """One row per collective and member that matches no other, in the order of first arrivals: as `COLLECTIVES`."""
    return ranks.derived(_of_collectives)


def _of_collectives(ranks: LinkedRanks) -> pl.DataFrame:
    members = members_with_waits(ranks)
    own = -1 - pl.int_range(pl.len())
    keyed = members.with_columns(pl.coalesce("collective", own).alias("_key")).sort(
        "_key", "rank", maintain_order=True
    )
    found = keyed.group_by("_key").agg(*_first(), *_over_members())
    matched = ranks.collectives.select(
        "collective", "sequence", "type", "dtype", "ranks", "missing", "method", "confidence", "agrees"
    )
    alone = pl.col("collective").is_null()
    return (
        found.join(matched, on="collective", how="left", suffix="_matched")
        .with_columns(
            pl.when(alone).then(name).otherwise(f"{name}_matched").alias(name)
            for name in ("sequence", "type", "dtype", "ranks")
        )
        .with_columns(_transfer().alias("transfer_ns"), size_of().alias("size_bytes"))
        .with_columns(algorithm_rate(pl.col("transfer_ns")).alias("algorithm_bytes_per_s"))
        .with_columns(bus_rate().alias("bus_bytes_per_s"))
        .sort("first_arrival_ns", "_key")
    )


def _first() -> list[pl.Expr]:
    """What the member of the lowest rank says that says it."""
    names = ("step", "description", "name", "library", "algorithm", "protocol", "sequence", "dtype")
    of_collective = ("collective", "group", "type", "group_size", "is_bound", "clock_width_ns")
    return [
        *(pl.col(name).drop_nulls().first() for name in names),
        *(pl.col(name).first() for name in of_collective),
        pl.col("method").first().alias("transfer_method"),
    ]


def _over_members() -> list[pl.Expr]:
    waiting, arrival = pl.col("waiting_ns"), pl.col("arrival_ns")
    last = pl.col("rank").get(arrival.arg_max())
    lasting = pl.col("dur_ns") > 0
    shortest = (
        pl.col("rank").filter(lasting).sort_by(pl.col("dur_ns").filter(lasting), maintain_order=True).first()
    )
    by_shortest = pl.col("method").first() == TransferMethod.SHORTEST_MEMBER.value
    return [
        pl.col("rank").alias("ranks"),
        pl.col("in_bytes").max(),
        pl.col("out_bytes").max(),
        arrival.min().alias("first_arrival_ns"),
        arrival.max().alias("last_arrival_ns"),
        pl.col("end_ns").max(),
        pl.when(pl.len() > 1).then(pl.when(by_shortest).then(shortest).otherwise(last)).alias("last_rank"),
        pl.when(waiting.count() > 0).then(waiting.sum()).alias("waiting_ns"),
        pl.col("rest_ns").sum(),
        pl.col("dur_ns").sum(),
        pl.col("dur_ns").filter(lasting).min().fill_null(0).alias("_shortest_ns"),
        pl.len().cast(pl.Int64).alias("members"),
    ]


def _transfer() -> pl.Expr:
    """From the last arrival to the last end; by the shortest member where clocks or members lack."""
    by_clock = pl.col("transfer_method") == TransferMethod.LAST_ARRIVAL.value
    return pl.when(by_clock).then(pl.col("end_ns") - pl.col("last_arrival_ns")).otherwise("_shortest_ns")
