"""Summary statistics of a sample: mean, median, percentiles and spread, defined once for all answers."""

from __future__ import annotations

import polars as pl


def mean_of(values: pl.Expr, name: str = "mean_ns") -> pl.Expr:
    """The mean, as a column of that name; null for no values."""
    return values.mean().alias(name)


def sum_of(values: pl.Expr, name: str) -> pl.Expr:
    """The sum, as a column of that name; null for no values."""
    return pl.when(values.count() > 0).then(values.sum()).alias(name)


def median_of(values: pl.Expr, name: str = "median_ns") -> pl.Expr:
    """The median: between two values in the middle their mean; null for no values."""
    return values.median().alias(name)


def p95_of(values: pl.Expr, name: str = "p95_ns") -> pl.Expr:
    """The 95th percentile; null for no values."""
    return _percentile(values, 95).alias(name)


def quartiles_of(values: pl.Expr, suffix: str = "_ns") -> list[pl.Expr]:
    """The 25th, 50th and 75th percentile, as columns `p25<suffix>` and so on; null for no values."""
    return [_percentile(values, percent).alias(f"p{percent}{suffix}") for percent in (25, 50, 75)]


def min_of(values: pl.Expr, name: str = "min_ns") -> pl.Expr:
    """The least; null for no values."""
    return values.min().alias(name)


def max_of(values: pl.Expr, name: str = "max_ns") -> pl.Expr:
    """The greatest; null for no values."""
    return values.max().alias(name)


def std_of(values: pl.Expr, name: str = "std_ns") -> pl.Expr:
    """The standard deviation of a sample, divided by count - 1; null for fewer than two values."""
    return values.std(ddof=1).alias(name)


def spread(column: str, prefix: str) -> list[pl.Expr]:
    """Mean, median and 95th percentile of the rows with `in_means`, as columns `<prefix>_mean_ns` and so on."""
    counted = pl.col(column).filter("in_means")
    return [
        mean_of(counted, f"{prefix}_mean_ns"),
        median_of(counted, f"{prefix}_median_ns"),
        p95_of(counted, f"{prefix}_p95_ns"),
    ]


def extremes(column: str, prefix: str) -> list[pl.Expr]:
    """The least and the greatest of all rows, as columns `<prefix>_min_ns` and `<prefix>_max_ns`."""
    values = pl.col(column)
    return [min_of(values, f"{prefix}_min_ns"), max_of(values, f"{prefix}_max_ns")]


def share_of(column: str) -> pl.Expr:
    """Share of each row in the column's sum over its step; 0 if that is 0."""
    return (pl.col(column) / pl.col(column).sum().over("step")).fill_nan(0.0)


def _percentile(values: pl.Expr, percent: int) -> pl.Expr:
    """Linear between the two nearest values, as numpy's `percentile`."""
    return values.quantile(percent / 100, interpolation="linear")
