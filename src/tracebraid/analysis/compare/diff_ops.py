"""Which ops are added, removed or changed, and which take more or less time?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.compare.profiles.run_profile import RunProfile
from tracebraid.analysis.compare.samples import RowsOfRun, change_of_counts, matrix, means, tested_pairs
from tracebraid.analysis.compare.u_test import Tested
from tracebraid.model.answers import DiffChange, MatchedBy

__all__ = ["diff_ops"]

_Ints = NDArray[np.int64]
_BOTH = ("path", "module", "input_dims", "input_types")
_VALUES = ("count", "kernels", "host_ns", "device_ns")
_MOVED = [
    level.value
    for level in (MatchedBy.PATH_OUTSIDE_OF_MODULES, MatchedBy.MODULE_AND_SHAPES, MatchedBy.SHAPES)
]


def diff_ops(
    a: RunProfile, b: RunProfile, pairs: pl.DataFrame, pair_a: _Ints, pair_b: _Ints
) -> tuple[pl.DataFrame, Tested]:
    """A row for each pair: the columns of `DIFF_OPS` but those of tests.

    `difference_ns` is of the device's time, of a run without a device of the host's.

    Args:
        a: the first run.
        b: the second.
        pairs: see `match_ops`.
        pair_a: the pair of each position of the first run.
        pair_b: the same of the second.
    """
    of_a, values_a = _of_run(a, pair_a, pairs.height)
    of_b, values_b = _of_run(b, pair_b, pairs.height)
    totals = [means(rows.ns.sum(axis=1), rows.run) for rows in (of_a, of_b)]
    columns = [
        pl.Series("irregular", of_a.is_irregular | of_b.is_irregular),
        pl.Series("difference_ns", totals[1] - totals[0]),
        pl.Series("more_or_less", change_of_counts(of_a, of_b)),
        pl.Series("in_a", of_a.is_there),
        pl.Series("in_b", of_b.is_there),
        *values_a.rename({name: _named(name, "a") for name in _VALUES}).get_columns(),
        *values_b.rename({name: _named(name, "b") for name in _VALUES}).get_columns(),
    ]
    found = _described(pairs, a, b).with_columns(columns)
    found = found.with_columns(_change(a.has_device and b.has_device))
    wanted = of_a.is_there & of_b.is_there & ((of_a.ns.sum(axis=1) + of_b.ns.sum(axis=1)) > 0)
    return _with_outermost(found), tested_pairs(of_a, of_b, wanted)


def _named(name: str, run: str) -> str:
    return f"{name[:-3]}_{run}_ns" if name.endswith("_ns") else f"{name}_{run}"


def _of_run(run: RunProfile, pairs: _Ints, height: int) -> tuple[RowsOfRun, pl.DataFrame]:
    rows = np.r_[pairs, -1][run.ops.get_column("position").to_numpy()]
    found = {name: matrix(run.ops, rows, height, run.samples, name) for name in _VALUES}
    values = {
        name: means(found[name].sum(axis=1), run)
        if name.endswith("_ns")
        else found[name].sum(axis=1) / run.divisor
        for name in _VALUES
    }
    ns = found["device_ns" if run.has_device else "host_ns"]
    return RowsOfRun(run, ns, found["count"]), pl.DataFrame(values)


def _described(pairs: pl.DataFrame, a: RunProfile, b: RunProfile) -> pl.DataFrame:
    """Name, category, and for each run path, module, shapes, types and the ids of the path and its parent."""
    columns = [*_BOTH, "name", "category", "path_id", "parent_id"]
    frames = []
    for run, profile in (("a", a), ("b", b)):
        known = profile.positions.select(columns)
        rows = pairs.get_column(run).fill_null(known.height).to_numpy()
        with_none = pl.concat([known, known.clear(1)])
        frames.append(with_none[rows].rename({name: f"{name}_{run}" for name in columns}))
    return pl.concat([pairs.select("matched_by"), *frames], how="horizontal").with_columns(
        pl.coalesce("name_b", "name_a").cast(pl.String).alias("name"),
        pl.coalesce("category_b", "category_a").cast(pl.String).alias("category"),
    )


def _change(both_have_devices: bool) -> pl.Expr:
    launches_a, launches_b = pl.col("kernels_a") > 0, pl.col("kernels_b") > 0
    rules = {
        DiffChange.ADDED: pl.col("in_b") & ~pl.col("in_a"),
        DiffChange.REMOVED: pl.col("in_a") & ~pl.col("in_b"),
        DiffChange.SHAPES: pl.col("input_dims_a").ne_missing(pl.col("input_dims_b")),
        DiffChange.TYPES: pl.col("input_types_a").ne_missing(pl.col("input_types_b")),
        DiffChange.DEVICE: (launches_a != launches_b) & both_have_devices,
        DiffChange.MOVED: pl.col("matched_by").is_in(_MOVED),
        DiffChange.COUNT: pl.col("more_or_less"),
    }
    change = pl.lit(DiffChange.SAME.value)
    for code, rule in reversed(rules.items()):
        change = pl.when(rule).then(pl.lit(code.value)).otherwise(change)
    return change.alias("change")


def _with_outermost(found: pl.DataFrame) -> pl.DataFrame:
    """Whether the op around each is without its change, in the run that the change is seen in."""
    outermost = pl.lit(value=True)
    for run in ("a", "b"):
        changed = found.select(
            pl.col(f"path_id_{run}").alias(f"parent_id_{run}"),
            "change",
            pl.lit(value=True).alias(f"inside_{run}"),
        ).unique()
        found = found.join(changed, on=[f"parent_id_{run}", "change"], how="left", maintain_order="left")
        outermost &= pl.col(f"inside_{run}").is_null()
    return found.with_columns(outermost.alias("outermost"))
