"""Rows of a run as samples: a value of each for each step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.compare.profiles.run_profile import RunProfile
from tracebraid.analysis.compare.u_test import ALPHA, Tested, compare_rows

__all__ = [
    "RowsOfRun",
    "change_of_counts",
    "matrix",
    "means",
    "shift_columns",
    "significance_columns",
    "tested_pairs",
]

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowsOfRun:
    """Rows of a run by step.

    Args:
        run: the run.
        ns: rows x samples: times, summed over ranks.
        counts: rows x samples: how often, summed over ranks.
    """

    run: RunProfile
    ns: _Ints
    counts: _Ints

    @property
    def is_there(self) -> _Bools:
        """Whether each row is in any step."""
        return np.asarray((self.counts > 0).any(axis=1))

    @property
    def is_irregular(self) -> _Bools:
        """Whether each row is in some steps and not in others."""
        return np.asarray(self.is_there & (self.counts == 0).any(axis=1))

    @property
    def mean_counts(self) -> _Floats:
        """How often each row is in a step and rank."""
        found: _Floats = self.counts.sum(axis=1) / self.run.divisor
        return found


def matrix(frame: pl.DataFrame, rows: _Ints, count: int, samples: int, column: str) -> _Ints:
    """A column of a frame as rows x samples; 0 where nothing is.

    Args:
        frame: has `sample`.
        rows: the row of each of its rows; those below 0 are left out.
        count: number of rows of the matrix.
        samples: number of its columns.
        column: the column.
    """
    found = np.zeros((count, samples), dtype=np.int64)
    inside = rows >= 0
    np.add.at(
        found,
        (rows[inside], frame.get_column("sample").to_numpy()[inside]),
        frame.get_column(column).to_numpy()[inside],
    )
    return found


def means(totals: _Ints, run: RunProfile) -> _Ints:
    """Totals over all steps and ranks as means of one, to the nearest integer."""
    found: _Ints = (2 * totals + run.divisor) // (2 * run.divisor)
    return found


def change_of_counts(a: RowsOfRun, b: RowsOfRun) -> _Bools:
    """Whether no step of the one run has a count that is within those of the other."""
    if not a.run.samples or not b.run.samples:
        return np.zeros(len(a.counts), dtype=np.bool_)
    more = b.counts.min(axis=1) > a.counts.max(axis=1)
    found: _Bools = more | (b.counts.max(axis=1) < a.counts.min(axis=1))
    return found


def tested_pairs(a: RowsOfRun, b: RowsOfRun, wanted: _Bools) -> Tested:
    """Each row's shift for a step and rank, with its interval and its probability; NaN where it is not wanted."""
    rows = np.flatnonzero(wanted)
    tested = compare_rows(a.ns[rows], b.ns[rows])
    ranks = max(1, len(a.run.ranks))
    found = [np.full(len(wanted), np.nan) for _ in range(4)]
    for whole, part in zip(
        found, (tested.shift / ranks, tested.low / ranks, tested.high / ranks, tested.p), strict=True
    ):
        whole[rows] = part
    return Tested(*found)


def shift_columns(tested: Tested) -> list[pl.Series]:
    """`shift_ns`, `low_ns` and `high_ns`; null for NaN."""
    columns = {"shift_ns": tested.shift, "low_ns": tested.low, "high_ns": tested.high}
    return [
        pl.Series(name, values + 0.0, dtype=pl.Float64).fill_nan(None) for name, values in columns.items()
    ]


def significance_columns(p: _Floats) -> list[pl.Series]:
    """`p` and `significant`; null for NaN."""
    known = pl.Series("p", p, dtype=pl.Float64).fill_nan(None)
    return [known, (known <= ALPHA).alias("significant")]
