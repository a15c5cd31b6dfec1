"""Where does the step's difference come from?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.compare.diff_steps import mean_span
from tracebraid.analysis.compare.profiles.run_profile import RunProfile
from tracebraid.analysis.compare.samples import RowsOfRun, matrix, tested_pairs
from tracebraid.analysis.compare.u_test import Tested

__all__ = ["diff_parts"]

_Ints = NDArray[np.int64]
_KEY = ["part", "pair", "cause", "host_activity"]


def diff_parts(a: RunProfile, b: RunProfile, pair_a: _Ints, pair_b: _Ints) -> tuple[pl.DataFrame, Tested]:
    """The parts of a step in both runs: the columns of `DIFF_PARTS` but those of ops and tests, with `pair`.

    The means are rounded so that they add up to the mean step: down, and those with the largest remainders up.

    Args:
        a: the first run.
        b: the second.
        pair_a: the pair of each position of the first run.
        pair_b: the same of the second.
    """
    found = [_with_pairs(run, pairs) for run, pairs in ((a, pair_a), (b, pair_b))]
    keys = (
        pl.concat([frame.select(_KEY) for frame in found])
        .unique()
        .sort(_KEY, nulls_last=True)
        .with_row_index("row")
        .cast({"row": pl.Int64})
    )
    rows, values = [], []
    for run, frame in zip((a, b), found, strict=True):
        of_key = frame.join(keys, on=_KEY, how="left", nulls_equal=True, maintain_order="left")
        number = of_key.get_column("row").to_numpy()
        ns = matrix(of_key, number, keys.height, run.samples, "ns")
        rows.append(RowsOfRun(run, ns, (ns != 0).astype(np.int64)))
        values.append(_rounded(of_key, keys.height, run))
    tested = tested_pairs(rows[0], rows[1], np.ones(keys.height, dtype=np.bool_))
    return keys.drop("row").with_columns(
        pl.Series("a_ns", values[0]),
        pl.Series("b_ns", values[1]),
        pl.Series("difference_ns", values[1] - values[0]),
    ), tested


def _with_pairs(run: RunProfile, pairs: _Ints) -> pl.DataFrame:
    position = run.parts.get_column("position").to_numpy()
    return run.parts.with_columns(pl.Series("pair", np.r_[pairs, -1][position], dtype=pl.Int64))


def _rounded(frame: pl.DataFrame, rows: int, run: RunProfile) -> _Ints:
    """The mean of each row; of equal remainders that of the run's first position is rounded up."""
    own = ["part", "position", "cause", "host_activity"]
    totals = frame.group_by("row", *own).agg(pl.col("ns").sum()).sort(own, nulls_last=True)
    total = totals.get_column("ns").to_numpy()
    mean, remainder = total // run.divisor, total % run.divisor
    missing = mean_span(run.spans, run.divisor) - int(mean.sum())
    raised = np.argsort(-remainder, kind="stable")[: max(0, missing)]
    mean = mean + np.isin(np.arange(len(mean)), raised)
    found = np.zeros(rows, dtype=np.int64)
    found[totals.get_column("row").to_numpy()] = mean
    return found
