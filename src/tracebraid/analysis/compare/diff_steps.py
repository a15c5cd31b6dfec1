"""Is a step longer or shorter than it was?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.compare.profiles.run_profile import RunProfile
from tracebraid.analysis.compare.samples import shift_columns, significance_columns
from tracebraid.analysis.compare.u_test import Tested, compare_rows
from tracebraid.model.answers import DIFF_STEPS

__all__ = ["diff_steps", "mean_span"]

_Ints = NDArray[np.int64]


def diff_steps(a: RunProfile, b: RunProfile) -> pl.DataFrame:
    """The step's time over all ranks, and of each: `model.answers.DIFF_STEPS`.

    The time of a job's step is the mean of its ranks: it is what parts of ranks add up to, and needs no common clock.

    Args:
        a: the first run.
        b: the second; its ranks are paired with those of the first in their order.
    """
    first, second = (np.concatenate([run.spans.sum(axis=0, keepdims=True), run.spans]) for run in (a, b))
    tested = compare_rows(first, second)
    counts = [len(a.ranks), *[1] * len(a.ranks)]
    found = pl.concat(
        _row(first[row], second[row], tested.row(row), ranks) for row, ranks in enumerate(counts)
    )
    ranks = pl.Series("rank", [None, *a.ranks], dtype=pl.Int64)
    return DIFF_STEPS.conform(
        found.with_columns(
            ranks,
            pl.lit(a.samples).alias("steps_a"),
            pl.lit(b.samples).alias("steps_b"),
            pl.lit(a.left_out).alias("left_out_a"),
            pl.lit(b.left_out).alias("left_out_b"),
        )
    )


def mean_span(spans: _Ints, divisor: int) -> int:
    """The mean of some lengths, in whole ns, rounded down: parts are rounded so that they add up to it."""
    return int(spans.sum()) // max(1, divisor)


def _row(first: _Ints, second: _Ints, tested: Tested, ranks: int) -> pl.DataFrame:
    mean_a, mean_b = (mean_span(spans, len(spans) * ranks) for spans in (first, second))
    medians = [float(np.median(spans)) / ranks if len(spans) else None for spans in (first, second)]
    shift, low, high = (
        (column / ranks) if column.is_not_null().all() else column for column in shift_columns(tested)
    )
    median = medians[0]
    shift_share = (
        float(tested.shift[0]) / ranks / median if median and not np.isnan(tested.shift[0]) else None
    )
    return pl.DataFrame(
        {
            "a_ns": [mean_a],
            "b_ns": [mean_b],
            "difference_ns": [mean_b - mean_a],
            "difference_share": pl.Series([(mean_b - mean_a) / mean_a if mean_a else None], dtype=pl.Float64),
            "median_a_ns": pl.Series([medians[0]], dtype=pl.Float64),
            "median_b_ns": pl.Series([medians[1]], dtype=pl.Float64),
            "shift_ns": shift,
            "low_ns": low,
            "high_ns": high,
            "shift_share": pl.Series([shift_share], dtype=pl.Float64),
        }
    ).with_columns(significance_columns(tested.p))
