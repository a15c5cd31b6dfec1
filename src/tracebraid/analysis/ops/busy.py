"""How long is at least one device event of a group running?"""

from __future__ import annotations

import polars as pl

__all__ = ["busy_times"]


def busy_times(work: pl.DataFrame, key: str) -> pl.DataFrame:
    """`device_busy_ns` by a key: the length of the union of the group's intervals on each device, added up.

    Args:
        work: device events with `device`, `ts_ns`, `dur_ns` and the key.
        key: a column of integers.
    """
    number = pl.col("device").rank("dense").alias("number")
    reach = pl.col("end_ns").cum_max().shift(1).over(key, "number")
    busy = pl.col("end_ns") - pl.max_horizontal("ts_ns", reach)
    return (
        work.select(key, number, "ts_ns", (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"))
        .sort("ts_ns")
        .with_columns(pl.max_horizontal(busy, 0).alias("device_busy_ns"))
        .group_by(key)
        .agg(pl.col("device_busy_ns").sum())
    )
