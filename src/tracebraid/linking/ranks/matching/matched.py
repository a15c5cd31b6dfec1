"""The members of all ranks, each with the collective that it is of."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracebraid.model.collective_codes import MatchMethod
from tracebraid.model.finding import Finding
from tracebraid.model.schema.ranks import MATCHED_COLLECTIVES, MEMBERS

__all__ = ["MatchedMembers", "match_members"]


@dataclass(frozen=True, eq=False)
class MatchedMembers:
    """What matching found.

    Args:
        members: `MEMBERS` of all ranks, with `collective`.
        collectives: `MATCHED_COLLECTIVES`.
        findings: what was noticed.
    """

    members: pl.DataFrame
    collectives: pl.DataFrame
    findings: tuple[Finding, ...] = ()


def match_members(members: pl.DataFrame, ranks: pl.DataFrame) -> MatchedMembers:
    """Match the members of all ranks.

    Args:
        members: `MEMBERS` of all ranks, on their own clocks.
        ranks: `RANKS`.
    """
    group = pl.coalesce("communicator", "process_group", pl.lit("")).alias("group")
    keyed = members.with_columns(group).with_columns(
        pl.int_range(pl.len()).over("rank", "group").alias("number")
    )
    key = ["group", "number"]
    collectives = (
        keyed.sort("start_ns", "rank")
        .group_by(key, maintain_order=True)
        .agg(
            pl.col("type").first(),
            pl.col("sequence").first(),
            pl.col("dtype").first(),
            pl.col("group_size").first(),
            pl.col("rank").sort().alias("ranks"),
            (pl.col("in_bytes").n_unique() == 1).alias("agrees"),
        )
        .with_row_index("collective")
        .with_columns(
            pl.col("collective").cast(pl.Int64),
            pl.lit(MatchMethod.GROUP_ORDER.value).alias("method"),
            pl.lit(0.5).alias("confidence"),
        )
    )
    found = keyed.drop("collective").join(
        collectives.select("collective", *key), on=key, how="left", maintain_order="left"
    )
    return MatchedMembers(MEMBERS.conform(found), MATCHED_COLLECTIVES.conform(collectives, fill_missing=True))
