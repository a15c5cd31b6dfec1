"""What the activities of communication communicate: group, collective, bytes."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.collectives.bandwidth.bus_factors import size_of
from tracebraid.analysis.collectives.transfers.transfers import members_with_waits
from tracebraid.model.graph.codes import ActivityKind
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.schema.graph import ACTIVITIES

__all__ = ["with_communication"]

_KEY = ["rank", "event_id"]


def with_communication(activities: pl.DataFrame, ranks: LinkedRanks) -> pl.DataFrame:
    """Activities, of which those of `MEMBERS` are communication, with its group, collective and bytes.

    Args:
        activities: `ACTIVITIES` of all ranks; their rows stay in their order.
        ranks: the ranks, linked with each other.
    """
    if ranks.members.is_empty():
        return activities
    most = [pl.col(name).max().over("collective") for name in ("in_bytes", "out_bytes")]
    size = members_with_waits(ranks).with_columns(
        pl.when(pl.col("collective").is_not_null()).then(whole).otherwise(pl.col(name)).alias(name)
        for name, whole in zip(("in_bytes", "out_bytes"), most, strict=True)
    )
    members = size.select(
        *_KEY,
        "group",
        "collective",
        size_of().alias("size_bytes"),
        pl.lit(ActivityKind.COMMUNICATION.value).cast(pl.Categorical()).alias("kind"),
    ).unique(_KEY, keep="first", maintain_order=True)
    rows = activities.select(_KEY).with_row_index("_row").join(members, on=_KEY, how="inner")
    # Column by column: joined to all activities, these would be copied as a whole.
    member = np.full(activities.height, -1, dtype=np.int64)
    member[rows.get_column("_row").to_numpy()] = np.arange(rows.height)
    is_member = pl.Series(member >= 0)
    if rows.is_empty():
        return activities
    values = rows.select("kind", "group", "collective", "size_bytes")[np.maximum(member, 0)]
    known = [pl.when(is_member).then(values.get_column(name)).alias(name) for name in values.columns]
    found = [
        pl.coalesce(value, name).alias(name) if name in ("kind", "size_bytes") else value
        for name, value in zip(values.columns, known, strict=True)
    ]
    return ACTIVITIES.conform(activities.with_columns(found))
