"""How a time is spread over the occurrences of a row."""

from __future__ import annotations

import polars as pl

__all__ = ["spread"]


def spread(column: str, prefix: str) -> list[pl.Expr]:
    """Mean, median, 95th percentile, least and greatest, as columns `<prefix>_mean_ns` and so on; nulls do not count.

    Mean, median and percentile are of the rows with `in_means`; least and greatest are of all.
    Percentiles are interpolated linearly between the two nearest values.
    """
    value = pl.col(column)
    counted = value.filter("in_means")
    return [
        counted.mean().alias(f"{prefix}_mean_ns"),
        counted.median().alias(f"{prefix}_median_ns"),
        counted.quantile(0.95, "linear").alias(f"{prefix}_p95_ns"),
        value.min().alias(f"{prefix}_min_ns"),
        value.max().alias(f"{prefix}_max_ns"),
    ]
