"""Fewer slices: short ones that follow each other on a line become one that says how many they are."""

from __future__ import annotations

import numpy as np
import polars as pl

__all__ = ["merged", "merging_width"]


def merging_width(slices: pl.DataFrame, most: int) -> int:
    """The width in ns below which slices are merged, a power of 2; 0: there are few enough.

    Args:
        slices: lane, level, ts_ns, dur_ns.
        most: slices that may remain. Where even the longest width leaves more, that is returned.
    """
    if slices.height <= most:
        return 0
    longest = slices.select(pl.col("dur_ns").max()).item()
    span = slices.select((pl.col("ts_ns") + pl.col("dur_ns")).max() - pl.col("ts_ns").min()).item()
    width = 1
    while width <= 2 * max(longest, span, 1):
        short = pl.col("dur_ns") < width
        kept = slices.filter(~short).height
        cells = slices.filter(short).select("lane", "level", pl.col("ts_ns") // width).n_unique()
        if kept + cells <= most:
            return width
        width *= 2
    return width


def merged(slices: pl.DataFrame, width: int) -> tuple[pl.DataFrame, pl.Series]:
    """The slices after merging, and for each slice before the row of the one that stands for it.

    Slices shorter than the width that start in the same interval of that width become one. None of them is longer
    than such an interval, so nothing of their line lies between them.

    Args:
        slices: event_id, lane, level, ts_ns, dur_ns, on each line without overlaps.
        width: in ns; 0: nothing is merged.
    """
    row = pl.int_range(pl.len(), dtype=pl.Int64)
    if not width:
        return _each(slices)
    cell = pl.col("ts_ns") // width
    is_short = pl.col("dur_ns") < width
    keyed = slices.with_columns(
        is_short.alias("is_short"), pl.when(is_short).then(cell).otherwise(row).alias("cell")
    )
    keys = ["lane", "level", "is_short", "cell"]
    groups = keyed.group_by(keys, maintain_order=True).agg(
        pl.col("ts_ns").min().alias("start_ns"),
        (pl.col("ts_ns") + pl.col("dur_ns")).max().alias("end_ns"),
        pl.len().cast(pl.Int64).alias("count"),
        pl.col("dur_ns").sum().alias("busy_ns"),
        pl.when(pl.len() == 1).then(pl.col("event_id").first()).alias("event_id"),
    )
    groups = groups.sort("lane", "level", "start_ns", maintain_order=True).with_row_index("row")
    rows = keyed.select(keys).join(groups.select(*keys, "row"), on=keys, how="left", maintain_order="left")
    return groups.drop("is_short", "cell", "row"), rows.get_column("row").cast(pl.Int64)


def _each(slices: pl.DataFrame) -> tuple[pl.DataFrame, pl.Series]:
    """The slices as they are, by line and start, and the row of each."""
    ordered = slices.with_row_index("before").sort("lane", "level", "ts_ns", maintain_order=True)
    rows = np.empty(slices.height, dtype=np.int64)
    rows[ordered.get_column("before").to_numpy()] = np.arange(slices.height)
    start = pl.col("ts_ns").alias("start_ns")
    columns = [start, (start + pl.col("dur_ns")).alias("end_ns"), pl.lit(1, dtype=pl.Int64).alias("count")]
    single = ordered.select("lane", "level", *columns, pl.col("dur_ns").alias("busy_ns"), "event_id")
    return single, pl.Series("row", rows)
