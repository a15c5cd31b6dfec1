"""Who was late in the first place, where a rank inherited its lateness?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.answers import LateCause

__all__ = ["with_origins"]

_Ints = NDArray[np.int64]

_INHERITED = pl.col("cause") == LateCause.INHERITED.value


def with_origins(late: pl.DataFrame, brought: pl.DataFrame) -> pl.DataFrame:
    """With `origin_rank` and `origin_collective`: where a chain of inherited lateness begins; null: it did not inherit.

    A chain goes on while the rank whose lateness was inherited was itself last at that collective, and inherited.

    Args:
        late: has `collective`, `rank` and `cause`, a row for each collective.
        brought: `carried` of the same collectives.
    """
    found = late.join(
        brought.select("collective", "source", "source_rank"),
        on="collective",
        how="left",
        maintain_order="left",
    ).with_columns(pl.when(_INHERITED).then(pl.col("source", "source_rank")))
    rows = late.select("collective", "rank").with_row_index("next")
    linked = (
        found.join(
            rows,
            left_on=["source", "source_rank"],
            right_on=["collective", "rank"],
            how="left",
            maintain_order="left",
        )
        .get_column("next")
        .cast(pl.Int64)
        .to_numpy()
        if found.height
        else np.empty(0)
    )
    itself = np.arange(found.height)
    inherits = found.select(_INHERITED.fill_null(value=False)).to_series().to_numpy()
    following = np.where(np.isnan(linked.astype(np.float64)), itself, linked).astype(np.int64)
    end = _ends(np.where(inherits, following, itself))
    last = pl.Series(end)
    ending = found.select(
        pl.coalesce("source", "collective").gather(last).alias("origin_collective"),
        pl.coalesce("source_rank", "rank").gather(last).alias("origin_rank"),
        pl.col("source").is_null().gather(last).alias("ends"),
        (_INHERITED & pl.col("source").is_null()).fill_null(value=False).gather(last).alias("lost"),
    )
    known = _INHERITED & ~pl.col("lost")
    return (
        found.hstack(ending)
        .with_columns(
            pl.when(known).then("origin_collective").alias("origin_collective"),
            pl.when(known).then("origin_rank").alias("origin_rank"),
        )
        .drop("source", "source_rank", "ends", "lost")
    )


def _ends(following: _Ints) -> _Ints:
    """Where each chain ends, by doubling; a chain that comes back to itself ends somewhere in its circle."""
    for _ in range(max(len(following), 1).bit_length()):
        further = following[following]
        if (further == following).all():
            break
        following = further
    return following
