"""The offset and drift of each rank's clock against the others, from the ends of matched collectives."""

from __future__ import annotations

import polars as pl

from tracebraid.model.collective_codes import ClockMethod
from tracebraid.model.schema.ranks import CLOCKS

__all__ = ["clocks_of"]


def clocks_of(members: pl.DataFrame, collectives: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """The clocks of all ranks: `CLOCKS`.

    Args:
        members: `MEMBERS` of all ranks, matched, on their own clocks.
        collectives: `MATCHED_COLLECTIVES`.
        ranks: `RANKS`.
    """
    rows = ranks.with_columns(
        pl.col("rank").min().alias("reference"),
        pl.lit(ClockMethod.UNKNOWN.value).alias("method"),
        pl.lit(0).alias("collectives"),
    )
    return CLOCKS.conform(rows, fill_missing=True)
