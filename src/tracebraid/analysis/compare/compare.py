"""How does a second run differ from a first?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.compare.cautions import cautions
from tracebraid.analysis.compare.diff_kernels import diff_kernels
from tracebraid.analysis.compare.diff_ops import diff_ops
from tracebraid.analysis.compare.diff_parts import diff_parts
from tracebraid.analysis.compare.diff_settings import diff_settings
from tracebraid.analysis.compare.diff_steps import diff_steps
from tracebraid.analysis.compare.match_ops import match_ops
from tracebraid.analysis.compare.profiles.rank_profile import RankProfile
from tracebraid.analysis.compare.profiles.run_profile import RunProfile, run_profile
from tracebraid.analysis.compare.samples import shift_columns, significance_columns
from tracebraid.analysis.compare.u_test import Tested, holm
from tracebraid.model.answers import DIFF_KERNELS, DIFF_OPS, DIFF_PARTS, DiffSetting
from tracebraid.model.column import Table
from tracebraid.model.questions.comparison import Comparison
from tracebraid.model.step import PROFILER_STEP

__all__ = ["compare", "compare_runs", "paired"]

_Ints = NDArray[np.int64]
_TIES = [
    "path_b",
    "path_a",
    "input_dims_b",
    "input_dims_a",
    "module_b",
    "module_a",
    "input_types_b",
    "input_types_a",
]


def compare(
    a: Sequence[RankProfile],
    b: Sequence[RankProfile],
    annotation: str = PROFILER_STEP,
    with_doubtful: bool = False,
) -> Comparison:
    """Compare two runs by what is kept of their ranks.

    Args:
        a: ranks of the first run.
        b: ranks of the second.
        annotation: what marks a step.
        with_doubtful: doubtful steps count, too.
    """
    pairs = paired(a, b)
    ranks = [first for first, _ in pairs], [second for _, second in pairs]
    shapes = _known_in_both(DiffSetting.RECORD_SHAPES, *ranks)
    modules = all(
        any(rank.positions.get_column("module").is_not_null().any() for rank in run) for run in ranks
    )
    runs = [run_profile(run, shapes, modules, with_doubtful) for run in ranks]
    found = compare_runs(*runs)
    settings = diff_settings(ranks, runs)
    noticed = cautions(found, settings, (a, b), ranks, annotation)
    return Comparison(found.steps, found.parts, found.ops, found.kernels, settings, noticed)


def compare_runs(a: RunProfile, b: RunProfile) -> Comparison:
    """The tables of a comparison, without settings and cautions."""
    pairs = match_ops(_present(a), _present(b))
    pair_a, pair_b = (_pair_of_positions(pairs, name, run) for name, run in (("a", a), ("b", b)))
    ops, of_ops = diff_ops(a, b, pairs, pair_a, pair_b)
    parts, of_parts = diff_parts(a, b, pair_a, pair_b)
    kernels, of_kernels = diff_kernels(a, b, pair_a, pair_b)
    corrected = _corrected(of_ops, of_parts, of_kernels)
    op, path, module = (
        pl.coalesce(*names) for names in (("name",), ("path_b", "path_a"), ("module_b", "module_a"))
    )
    described = ops.select(op.alias("op"), path.alias("path"), module.alias("module"))
    described = pl.concat([described, described.clear(1)])
    tables = []
    for table, frame, tested, p in zip(
        (DIFF_OPS, DIFF_PARTS, DIFF_KERNELS),
        (ops, parts, kernels),
        (of_ops, of_parts, of_kernels),
        corrected,
        strict=True,
    ):
        frame = frame.with_columns(*shift_columns(tested), *significance_columns(p))
        if table is DIFF_OPS:
            frame = frame.filter(pl.col("in_a") | pl.col("in_b"))
        else:
            pair = frame.get_column("pair").to_numpy()
            frame = frame.with_columns(described[np.where(pair < 0, ops.height, pair)].get_columns())
        tables.append(_largest_first(table, frame))
    return Comparison(diff_steps(a, b), tables[1], tables[0], tables[2], pl.DataFrame())


def paired(a: Sequence[RankProfile], b: Sequence[RankProfile]) -> list[tuple[RankProfile, RankProfile]]:
    """Ranks of equal number; two runs of a single rank each are compared whatever these are."""
    of_b = {rank.rank: rank for rank in b}
    found = [(rank, of_b[rank.rank]) for rank in a if rank.rank in of_b]
    return [(a[0], b[0])] if not found and len(a) == len(b) == 1 else found


def _known_in_both(setting: DiffSetting, a: Sequence[RankProfile], b: Sequence[RankProfile]) -> bool:
    return all(any(rank.settings[setting] == "yes" for rank in run) for run in (a, b))


def _present(run: RunProfile) -> pl.DataFrame:
    """The positions that are in a step that counts, with their rows."""
    used = pl.concat(frame.get_column("position") for frame in (run.ops, run.kernels, run.parts)).unique()
    rows = run.positions.with_row_index("position").cast({"position": pl.Int64})
    return rows.filter(pl.col("position").is_in(used.implode()))


def _pair_of_positions(pairs: pl.DataFrame, name: str, run: RunProfile) -> _Ints:
    pair = np.full(run.positions.height, -1, dtype=np.int64)
    position = pairs.get_column(name)
    rows = np.flatnonzero(position.is_not_null().to_numpy())
    pair[position.drop_nulls().to_numpy()] = rows
    return pair


def _corrected(*tested: Tested) -> list[NDArray[np.float64]]:
    """The probabilities of all tables corrected together: whoever reads them reads all."""
    p = np.concatenate([of_table.p for of_table in tested])
    known = ~np.isnan(p)
    p[known] = holm(p[known])
    return np.split(p, np.cumsum([len(of_table.p) for of_table in tested])[:-1])


def _largest_first(table: Table, frame: pl.DataFrame) -> pl.DataFrame:
    ties = [
        name
        for name in (
            *_TIES,
            "part",
            "cause",
            "host_activity",
            "path",
            "module",
            "kind",
            "kernel_b",
            "kernel_a",
        )
        if name in frame.columns
    ]
    order = [-pl.col("difference_ns").abs(), *ties]
    return table.conform(frame.sort(order, nulls_last=True, maintain_order=True))
