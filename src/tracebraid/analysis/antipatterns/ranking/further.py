"""What an advice saves beyond those before it, on each rank and in each step."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.time.intervals import cover_of

__all__ = ["counted_once", "with_further"]


def counted_once(parts: pl.DataFrame) -> pl.DataFrame:
    """Occurrences of each item on each rank, cut where an earlier one of the same item runs: they are disjoint then.

    Occurrences that overlap save what they save together, at most the time that they cover: what the cut takes from the
    saving of one goes to those of its overlap that have room for it, in their order.

    Args:
        parts: `rank`, `key`, `start_ns`, `end_ns`, `saving_ns`; a saving is at most as long as its occurrence.
    """
    key = ["rank", "key"]
    reach = pl.col("end_ns").cum_max().shift(1).over(key)
    begins = (pl.col("start_ns") >= reach).fill_null(value=True)
    long = pl.max_horizontal(pl.col("end_ns") - pl.col("start_ns"), 0)
    cut = (
        parts.sort(*key, "start_ns", "end_ns", maintain_order=True)
        .with_columns(
            begins.cum_sum().alias("overlap"), pl.max_horizontal("start_ns", reach).alias("start_ns")
        )
        .with_columns(pl.min_horizontal("saving_ns", long).alias("kept_ns"), long.alias("long_ns"))
    )
    room = pl.col("long_ns") - pl.col("kept_ns")
    lost = (pl.col("saving_ns") - pl.col("kept_ns")).sum().over("overlap")
    taken = (room.cum_sum() - room).over("overlap")
    saving = pl.col("kept_ns") + pl.min_horizontal(room, pl.max_horizontal(lost - taken, 0))
    return (
        cut.with_columns(saving.alias("saving_ns"))
        .filter(pl.col("long_ns") > 0)
        .drop("overlap", "kept_ns", "long_ns")
    )


def with_further(parts: pl.DataFrame) -> pl.DataFrame:
    """Add `further_ns`: what of its saving each occurrence has outside of the time of all items before its own.

    An occurrence that others cover up to a length u saves at most u more, however its saving lies in it. So of a rank
    and step all that is further adds up to at most what all occurrences cover together.

    Args:
        parts: as `counted_once` gives them, with `item`: numbers in the order of items.
    """
    found = [parts.with_columns(pl.lit(0, dtype=pl.Int64).alias("further_ns")).clear()]
    for _, of_rank in parts.sort("item", maintain_order=True).group_by("rank", maintain_order=True):
        starts = np.empty(0, dtype=np.int64)
        ends = starts
        for _, of_item in of_rank.group_by("item", maintain_order=True):
            begin, end, saving = (
                of_item.get_column(name).to_numpy() for name in ("start_ns", "end_ns", "saving_ns")
            )
            covered = cover_of(starts, ends)
            uncovered = end - begin - covered.within(begin, end)
            further = pl.Series("further_ns", np.minimum(saving, uncovered))
            found.append(of_item.with_columns(further))
            starts, ends = np.r_[covered.starts, begin], np.r_[covered.ends, end]
    return pl.concat(found)
