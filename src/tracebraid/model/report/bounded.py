"""Fewer rows of a table, of which the most telling are kept."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

__all__ = ["most_rows", "thinned"]

_SERIES = ("rank", "device", "stream", "name", "source", "process_group")
"""Columns that tell the series of a table apart."""


def most_rows(frame: pl.DataFrame, rows: int, by: Sequence[str] = ()) -> pl.DataFrame:
    """The rows with the largest sum of some columns, in the order of the frame; without columns the first.

    Args:
        frame: any table.
        rows: how many rows there may be at most.
        by: columns of numbers.
    """
    if frame.height <= rows:
        return frame
    if not by:
        return frame.head(rows)
    order = frame.select(pl.sum_horizontal(*by).rank("ordinal", descending=True)).to_series()
    return frame.filter(order <= rows)


def thinned(frame: pl.DataFrame, rows: int, value: str) -> pl.DataFrame:
    """Of each series in each of equal spans of time the rows of least and greatest value: their envelope stays.

    Args:
        frame: series over `ts_ns`, each in the order of time.
        rows: how many rows there may be at most, if there are less series than that.
        value: the column whose extremes are kept.
    """
    if frame.height <= rows:
        return frame
    keys = [name for name in _SERIES if name in frame.columns]
    series = frame.select(keys).unique().height if keys else 1
    spans = max(1, rows // (2 * series))
    start, end = frame.select(pl.col("ts_ns").min().alias("a"), pl.col("ts_ns").max().alias("b")).row(0)
    width = max(1, -(-(end - start + 1) // spans))
    span = ((pl.col("ts_ns") - start) // width).alias("_span")
    row = pl.int_range(pl.len(), dtype=pl.Int64)
    grouped = frame.select(*keys, pl.col(value), span, row.alias("_row")).group_by(*keys, "_span")
    ends = grouped.agg(
        pl.col("_row").sort_by(value, nulls_last=False).first().alias("_least"),
        pl.col("_row").sort_by(value, nulls_last=False).last().alias("_most"),
    )
    kept = pl.concat([ends.get_column("_least"), ends.get_column("_most")]).unique().sort()
    found: pl.DataFrame = frame[kept]
    return found
