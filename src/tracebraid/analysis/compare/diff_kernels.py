"""Which kernels are added, removed or renamed under the same op?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.compare.profiles.run_profile import RunProfile
from tracebraid.analysis.compare.samples import RowsOfRun, change_of_counts, matrix, means, tested_pairs
from tracebraid.analysis.compare.u_test import Tested
from tracebraid.model.answers import DiffChange

__all__ = ["diff_kernels"]

_Ints = NDArray[np.int64]
_OP = ["pair", "kind"]
_SCHEMA = {"pair": pl.Int64, "kernel": pl.String, "kind": pl.String}


def diff_kernels(a: RunProfile, b: RunProfile, pair_a: _Ints, pair_b: _Ints) -> tuple[pl.DataFrame, Tested]:
    """A row for each kernel under an op: the columns of `DIFF_KERNELS` but those of ops and tests, with `pair`.

    Kernels of one op are matched by their names. Of those that are left, the first of the one run is the first of the
    other, renamed: another version, device or algorithm does the same work.

    Args:
        a: the first run.
        b: the second.
        pair_a: the pair of each position of the first run.
        pair_b: the same of the second.
    """
    frames = [_with_pairs(run, pairs) for run, pairs in ((a, pair_a), (b, pair_b))]
    rows = _matched(*(frame.select(list(_SCHEMA)).unique(maintain_order=True) for frame in frames))
    found = []
    for run, frame, name in zip((a, b), frames, ("kernel_a", "kernel_b"), strict=True):
        numbers = rows.select("pair", "kind", kernel=name).with_row_index("row").cast({"row": pl.Int64})
        numbers = numbers.filter(pl.col("kernel").is_not_null())
        of_row = frame.join(numbers, on=list(_SCHEMA), how="left", nulls_equal=True, maintain_order="left")
        number = of_row.get_column("row").to_numpy()
        ns, counts = (matrix(of_row, number, rows.height, run.samples, column) for column in ("ns", "count"))
        found.append(RowsOfRun(run, ns, counts))
    of_a, of_b = found
    mean_a, mean_b = (means(run.ns.sum(axis=1), run.run) for run in found)
    both = of_a.is_there & of_b.is_there
    return rows.with_columns(
        pl.Series("more_or_less", change_of_counts(of_a, of_b)),
        pl.Series("irregular", of_a.is_irregular | of_b.is_irregular),
        pl.Series("count_a", of_a.mean_counts),
        pl.Series("count_b", of_b.mean_counts),
        pl.Series("a_ns", mean_a),
        pl.Series("b_ns", mean_b),
        pl.Series("difference_ns", mean_b - mean_a),
    ).with_columns(_change()), tested_pairs(of_a, of_b, both)


def _with_pairs(run: RunProfile, pairs: _Ints) -> pl.DataFrame:
    position = run.kernels.get_column("position").to_numpy()
    return run.kernels.with_columns(pl.Series("pair", np.r_[pairs, -1][position], dtype=pl.Int64))


def _matched(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """pair, kind, kernel_a, kernel_b."""
    same = a.join(b, on=list(_SCHEMA), how="semi", nulls_equal=True)
    nth = pl.int_range(pl.len()).over(_OP).alias("nth")
    left, right = (
        frame.join(same, on=list(_SCHEMA), how="anti", nulls_equal=True, maintain_order="left")
        .with_columns(nth)
        .rename({"kernel": name})
        for frame, name in ((a, "kernel_a"), (b, "kernel_b"))
    )
    in_op = pl.col("pair") >= 0
    rest = left.filter(in_op).join(
        right.filter(in_op), on=[*_OP, "nth"], how="full", coalesce=True, nulls_equal=True
    )
    # What no op launched has nothing in common: it is removed, or added.
    alone = pl.concat([left.filter(~in_op), right.filter(~in_op)], how="diagonal")
    columns = ["pair", "kind", "kernel_a", "kernel_b"]
    equal = same.select(
        "pair", "kind", pl.col("kernel").alias("kernel_a"), pl.col("kernel").alias("kernel_b")
    )
    return pl.concat([equal, rest.select(columns), alone.select(columns)]).sort(columns, nulls_last=True)


def _change() -> pl.Expr:
    rules = {
        DiffChange.ADDED: pl.col("kernel_a").is_null(),
        DiffChange.REMOVED: pl.col("kernel_b").is_null(),
        DiffChange.RENAMED: pl.col("kernel_a") != pl.col("kernel_b"),
        DiffChange.COUNT: pl.col("more_or_less"),
    }
    change = pl.lit(DiffChange.SAME.value)
    for code, rule in reversed(rules.items()):
        change = pl.when(rule).then(pl.lit(code.value)).otherwise(change)
    return change.alias("change")
