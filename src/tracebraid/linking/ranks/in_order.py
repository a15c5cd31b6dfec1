"""Matched collectives in the order of their starts on aligned clocks."""

from __future__ import annotations

import polars as pl

__all__ = ["in_order"]


def in_order(members: pl.DataFrame, collectives: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Members and collectives, numbered anew.

    They were matched on clocks that may be a day apart: the first start of a collective was on whichever rank's clock
    is furthest behind, if that rank recorded it.

    Args:
        members: `MEMBERS`, on aligned clocks.
        collectives: `MATCHED_COLLECTIVES`.
    """
    if collectives.is_empty():
        return members, collectives
    starts = (
        members.drop_nulls("collective").group_by("collective").agg(pl.col("start_ns").min().alias("_start"))
    )
    ordered = (
        collectives.join(starts, on="collective", how="left", maintain_order="left")
        .sort("_start", "collective", nulls_last=True)
        .with_row_index("_new")
        .with_columns(
            pl.col("_new").cast(pl.Int64), pl.int_range(pl.len()).over("group").cast(pl.Int64).alias("number")
        )
    )
    moved = members.join(
        ordered.select("collective", "_new"), on="collective", how="left", maintain_order="left"
    )
    return (
        moved.with_columns(pl.col("_new").alias("collective")).select(members.columns),
        ordered.with_columns(pl.col("_new").alias("collective")).select(collectives.columns),
    )
