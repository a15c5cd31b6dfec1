"""Of a series over time so many moments as a page can show."""

from __future__ import annotations

import polars as pl

__all__ = ["sampled"]


def sampled(series: pl.DataFrame, value: str, most: int) -> pl.DataFrame:
    """Of each of equal spans of time the moment with the largest value, and the last moment of all.

    Args:
        series: has `ts_ns`, in its order.
        value: the column.
        most: spans; where there are no more moments, all stay.
    """
    if series.height <= most:
        return series
    first, last = series.item(0, "ts_ns"), series.item(series.height - 1, "ts_ns")
    width = max(1, -(-(last - first + 1) // most))
    numbered = series.with_row_index("_row").with_columns(((pl.col("ts_ns") - first) // width).alias("_span"))
    rows = numbered.group_by("_span").agg(pl.col("_row").sort_by(value).last()).get_column("_row")
    kept = pl.concat([rows, pl.Series([series.height - 1], dtype=rows.dtype)]).unique().sort()
    found: pl.DataFrame = series[kept]
    return found
