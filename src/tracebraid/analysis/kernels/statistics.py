"""What is said of many durations: mean, median, percentile, spread; in one place, so that all answers mean the same."""

from __future__ import annotations

import polars as pl

__all__ = ["max_of", "mean_of", "median_of", "min_of", "p95_of", "std_of"]

_PERCENTILE = 0.95


def mean_of(values: pl.Expr) -> pl.Expr:
    """`mean_ns`; null for no values."""
    return values.mean().alias("mean_ns")


def median_of(values: pl.Expr) -> pl.Expr:
    """`median_ns`: between two values in the middle their mean; null for no values."""
    return values.median().alias("median_ns")


def p95_of(values: pl.Expr) -> pl.Expr:
    """`p95_ns`: linear between the two nearest values, as numpy's `percentile`; null for no values."""
    return values.quantile(_PERCENTILE, interpolation="linear").alias("p95_ns")


def min_of(values: pl.Expr) -> pl.Expr:
    """`min_ns`."""
    return values.min().alias("min_ns")


def max_of(values: pl.Expr) -> pl.Expr:
    """`max_ns`."""
    return values.max().alias("max_ns")


def std_of(values: pl.Expr) -> pl.Expr:
    """`std_ns`: of a sample, divided by count - 1; null for fewer than two values."""
    return values.std(ddof=1).alias("std_ns")
