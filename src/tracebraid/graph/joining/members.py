"""The members of collectives that wait for each other, with the activity of each."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.collectives.transfers.roles import with_roles
from tracebraid.analysis.collectives.transfers.waits import waits
from tracebraid.model.collectives.codes import SAME_CLOCK_NS
from tracebraid.model.linked_ranks import LinkedRanks

__all__ = ["LEAST_CONFIDENCE", "matched_members"]

LEAST_CONFIDENCE = 0.5
"""Members that were matched with less are not joined: below it, another match is as likely."""


def matched_members(activities: pl.DataFrame, ranks: LinkedRanks) -> pl.DataFrame:
    """A row for each member that was matched with another rank's, by collective and rank.

    Of several members of a rank in one collective on one stream the last is taken: the rank has arrived with it.

    Columns:
        activity: row of the activities.
        collective, rank, type, group, step: as in `MEMBERS`.
        size_bytes: as in `ACTIVITIES`.
        sends, receives: whether it does; both where its root is unknown.
        tolerance_ns: by how much times of its members may contradict each other.
        confidence: of the match.
        is_bound: whether a rank is missing, which may have arrived later.

    Args:
        activities: `ACTIVITIES`.
        ranks: the ranks, linked with each other.
    """
    given = waits(ranks).select("clock_width_ns", "is_bound")
    roles = with_roles(
        ranks.members.with_row_index("_row")
        .hstack(given)
        .with_columns(pl.coalesce("collective", -1 - pl.col("_row").cast(pl.Int64)).alias("_key"))
    )
    matched = (
        roles.filter(pl.col("collective").is_not_null())
        .join(ranks.collectives.select("collective", "confidence"), on="collective", how="left")
        .select(
            *("rank", "event_id", "collective", "type", "step", "confidence", "start_ns", "stream"),
            pl.col("_sends").fill_null(value=True).alias("sends"),
            pl.col("_receives").fill_null(value=True).alias("receives"),
            (pl.col("clock_width_ns").fill_null(0) + SAME_CLOCK_NS).alias("tolerance_ns"),
            pl.col("is_bound").fill_null(value=True),
        )
    )
    numbered = activities.select("rank", "event_id", "size_bytes").with_row_index("activity")
    found = numbered.join(matched, on=["rank", "event_id"], how="inner")
    groups = ranks.collectives.select("collective", "group")
    return (
        found.with_columns(pl.col("activity").cast(pl.Int64))
        .sort("collective", "rank", "start_ns", "activity")
        .unique(["collective", "rank", "stream"], keep="last", maintain_order=True)
        .join(groups, on="collective", how="left", maintain_order="left")
        .drop("start_ns", "stream", "event_id")
    )
