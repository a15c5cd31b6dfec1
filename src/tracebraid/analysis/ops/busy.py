"""How long is at least one device event of a group running?"""

from __future__ import annotations

import polars as pl

__all__ = ["busy_times"]


def busy_times(work: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """`device_busy_ns` by some keys: the length of the union of the group's intervals on each device, added up.

    Args:
        work: device events with `device`, `ts_ns`, `dur_ns` and the keys.
        keys: columns.
    """
    group = [*keys, "device"]
    end = pl.col("ts_ns") + pl.col("dur_ns")
    reach = pl.col("end_ns").cum_max().shift(1).over(group)
    busy = pl.col("end_ns") - pl.max_horizontal("ts_ns", reach)
    return (
        work.sort("ts_ns")
        .with_columns(end.alias("end_ns"))
        .with_columns(pl.max_horizontal(busy, 0).alias("device_busy_ns"))
        .group_by(keys)
        .agg(pl.col("device_busy_ns").sum())
    )
