"""Load balance of all-to-alls across ranks: `COLLECTIVE_IMBALANCE`."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from tracebraid.analysis.collectives.transfers import members_with_waits, transfers
from tracebraid.model.analysis import Family, Need, OnPage, Rows, job_analysis
from tracebraid.model.answers.job import COLLECTIVE_IMBALANCE
from tracebraid.model.collectives import CollectiveType, ranks_listed
from tracebraid.model.linked_ranks import LinkedRanks

_SPLIT = r"^\s*\[\s*\d+(\s*,\s*\d+)*\s*\]\s*$"
"""A JSON list of integers that are not below 0."""
_EVEN = r"^\s*\[\s*\]\s*$"
"""No splits were asked for: the parts of all ranks are equal."""


@job_analysis(
    COLLECTIVE_IMBALANCE,
    Family.COLLECTIVES,
    needs=(Need.COMMUNICATION,),
    uses=(Need.SEVERAL_RANKS, Need.STEPS, Need.COLLECTIVES),
    shown=(
        "received_imbalance received_most received_max_bytes sent_imbalance sent_most sent_max_bytes "
        "transfer_ns group is_uneven dtype"
    ),
    when_empty="no all-to-all of known size is in the traces",
    formula="Most bytes that a rank gets, or gives, over the mean of all ranks.",
    on_page=OnPage(Rows.LONG_TABLE_ROWS, by=("transfer_ns",)),
)
def collective_imbalance(ranks: LinkedRanks) -> pl.DataFrame:
    """Which ranks move the most in uneven all-to-alls?

    How evenly all-to-alls load the ranks: `COLLECTIVE_IMBALANCE`.

    Args:
        ranks: the ranks of a job.
    """
    is_all_to_all = pl.col("type") == CollectiveType.ALL_TO_ALL.value
    ranks = replace(ranks, members=ranks.members.filter(is_all_to_all))
    members = members_with_waits(ranks)
    own = -1 - pl.int_range(pl.len())
    members = members.with_columns(pl.coalesce("collective", own).alias("_key"))
    received = _extremes(_of_ranks(members, "in_split", "in_bytes", "out_bytes"), "received")
    sent = _extremes(_of_ranks(members, "out_split", "out_bytes", "in_bytes"), "sent")
    splits = [pl.col(name).cast(pl.String) for name in ("in_split", "out_split")]
    says = pl.any_horizontal(text.str.contains(_SPLIT).fill_null(value=False) for text in splits).any()
    differ = pl.any_horizontal(pl.col(name).drop_nulls().n_unique() > 1 for name in ("in_bytes", "out_bytes"))
    is_even = pl.all_horizontal(text.str.contains(_EVEN).fill_null(value=False) for text in splits).all()
    uneven = members.group_by("_key").agg(
        pl.when(says | differ)
        .then(pl.lit(value=True))
        .when(is_even)
        .then(pl.lit(value=False))
        .alias("is_uneven")
    )
    mean = pl.sum_horizontal("received_mean_bytes", "sent_mean_bytes")
    beyond = pl.sum_horizontal("received_max_bytes", "sent_max_bytes") - mean
    rows = (
        transfers(ranks)
        .join(uneven, on="_key", how="left", maintain_order="left")
        .join(received, on="_key", how="left", maintain_order="left")
        .join(sent, on="_key", how="left", maintain_order="left")
        .filter(pl.any_horizontal(pl.col("received_max_bytes", "sent_max_bytes").is_not_null()))
        .sort(beyond, descending=True, maintain_order=True)
    )
    return COLLECTIVE_IMBALANCE.conform(rows)


def _of_ranks(members: pl.DataFrame, split: str, given: str, got: str) -> pl.DataFrame:
    """The bytes of each rank of the group: `_key`, `rank`, `bytes`; nothing for collectives that do not say it.

    They are the sums of what the members say about each rank, where all of them do, else what each member says of
    itself, where all ranks of the group are members.
    """
    parts = _of_peers(members, split, given)
    whole = pl.len().over("_key") == pl.col("group_size").over("_key")
    itself = members.join(parts.select("_key").unique(), on="_key", how="anti", maintain_order="left")
    itself = itself.filter(whole & (pl.col(got).null_count() == 0).over("_key"))
    return pl.concat(
        [parts.select("_key", "rank", "bytes"), itself.select("_key", "rank", pl.col(got).alias("bytes"))]
    )


def _of_peers(members: pl.DataFrame, split: str, size: str) -> pl.DataFrame:
    """The bytes between the members that exist and each rank of the group: `_key`, `index`, `rank`, `bytes`.

    Only of collectives of which each member says its parts.
    """
    text = pl.col(split).cast(pl.String)
    parts = (
        pl.when(text.str.contains(_SPLIT))
        .then(text.str.strip_chars(" []").str.split(","))
        .list.eval(pl.element().str.strip_chars().cast(pl.Int64, strict=False))
    )
    is_even = text.str.contains(_EVEN) & pl.col("group_size").is_between(1, _MOST_RANKS)
    even = pl.when(is_even).then(pl.lit(1).repeat_by("group_size"))
    found = (
        members.with_columns(pl.coalesce(parts, even).alias("_parts"))
        .filter(pl.all_horizontal(pl.col(size, "_parts").is_not_null()).all().over("_key"))
        .select("_key", "group_ranks", pl.col(size).alias("_bytes"), "_parts")
        .with_columns(
            pl.int_ranges(pl.col("_parts").list.len()).alias("index"),
            pl.col("_parts").list.sum().alias("_sum"),
        )
    )
    share = pl.when(pl.col("_sum") > 0).then(pl.col("_parts") / pl.col("_sum")).otherwise(0.0)
    return (
        found.explode("_parts", "index")
        .with_columns((share * pl.col("_bytes")).alias("bytes"), pl.col("index").cast(pl.Int64))
        .join(_ranks_of_groups(members), on=["group_ranks", "index"], how="left", maintain_order="left")
        .group_by("_key", "index")
        .agg(pl.col("bytes").sum().round().cast(pl.Int64), pl.col("rank").drop_nulls().first())
        .sort("_key", "index")
    )


def _ranks_of_groups(members: pl.DataFrame) -> pl.DataFrame:
    """Each rank of each group, by its place in it: `group_ranks`, `index`, `rank`."""
    groups = members.select("group_ranks").unique().drop_nulls()
    ranks = ranks_listed(groups.with_columns(pl.col("group_ranks").alias("_of"))).rename(
        {"group_ranks": "rank"}
    )
    indexed = ranks.with_columns(pl.int_ranges(pl.col("rank").list.len()).alias("index"))
    return indexed.rename({"_of": "group_ranks"}).explode("rank", "index")


def _extremes(peers: pl.DataFrame, prefix: str) -> pl.DataFrame:
    """The most, the mean, their ratio, and the rank that has the most; of several the first."""
    size = pl.col("bytes")
    return peers.group_by("_key").agg(
        size.max().alias(f"{prefix}_max_bytes"),
        size.mean().alias(f"{prefix}_mean_bytes"),
        pl.when(size.sum() > 0).then(size.max() / size.mean()).alias(f"{prefix}_imbalance"),
        pl.col("rank").get(size.arg_max()).alias(f"{prefix}_most"),
    )


_MOST_RANKS = 2**20
"""More ranks than any group has: a size above is damaged."""
