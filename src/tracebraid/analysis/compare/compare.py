"""Compare two runs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np
import polars as pl
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.analysis.compare.captures import Capture, refuse_mixed
from tracebraid.analysis.compare.cautions import cautions
from tracebraid.analysis.compare.profiles import RankProfile, RunProfile, pooled, run_profile
from tracebraid.analysis.compare.u_test import (
    RowsOfRun,
    Tested,
    alpha_of,
    change_of_counts,
    diff_steps,
    holm,
    matrix,
    mean_span,
    means,
    shift_columns,
    significance_columns,
    tested_pairs,
)
from tracebraid.errors import ArgumentError
from tracebraid.model.answers.job import (
    DIFF_CAPTURES,
    DIFF_KERNELS,
    DIFF_LEFT_OUT,
    DIFF_OPS,
    DIFF_PARTS,
    DIFF_SETTINGS,
    DiffChange,
    DiffPart,
    DiffSetting,
)
from tracebraid.model.answers.time import IdleCause
from tracebraid.model.column import Table
from tracebraid.model.printable import encodable
from tracebraid.model.questions import Comparison

_ARGUMENTS = ["input_dims", "input_types"]


class MatchedBy(Enum):
    """Properties by which an op of both runs is matched."""

    PATH_AND_SHAPES = "path-and-shapes"
    """Module, path, shapes and types."""
    PATH = "path"
    """Module and path."""
    PATH_OUTSIDE_OF_MODULES = "path-outside-of-modules"
    """Path, shapes and types, in a module of another name."""
    MODULE_AND_SHAPES = "module-and-shapes"
    """Module, name, shapes and types, on another path."""
    SHAPES = "shapes"
    """Name, shapes and types."""


_LEVELS = {
    MatchedBy.PATH_AND_SHAPES: ["path_id", "module", *_ARGUMENTS],
    MatchedBy.PATH: ["path_id", "module"],
    MatchedBy.PATH_OUTSIDE_OF_MODULES: ["path_id", *_ARGUMENTS],
    MatchedBy.MODULE_AND_SHAPES: ["module", "name", "category", *_ARGUMENTS],
    MatchedBy.SHAPES: ["name", "category", *_ARGUMENTS],
}
"""Columns that must be equal, most specific first."""

_NEEDED = {MatchedBy.MODULE_AND_SHAPES: "module", MatchedBy.SHAPES: "input_dims"}
"""Columns that must be known: names alone match nothing."""


def match_ops(a: pl.DataFrame, b: pl.DataFrame) -> pl.DataFrame:
    """Pair positions of two runs: a, b (rows; null: only in the other), matched_by.

    Levels are tried in turn, each on the remaining rows. Equal positions are paired in
    call order. Rows are in the order of the second run, then of the first.
    """
    left, right = a.rename({"position": "a"}), b.rename({"position": "b"})
    pairs = []
    for level, key in _LEVELS.items():
        needed = _NEEDED.get(level)
        known = pl.col(needed).is_not_null() if needed else pl.lit(value=True)
        nth = pl.int_range(pl.len()).over(key).alias("nth")
        found = (
            left.filter(known)
            .with_columns(nth)
            .join(
                right.filter(known).with_columns(nth).select("b", "nth", *key),
                on=[*key, "nth"],
                how="inner",
                nulls_equal=True,
            )
            .select("a", "b", pl.lit(level.value).alias("matched_by"))
        )
        pairs.append(found)
        left = left.join(found, on="a", how="anti", maintain_order="left")
        right = right.join(found, on="b", how="anti", maintain_order="left")
    none, nothing = pl.lit(None, dtype=pl.Int64), pl.lit(None, dtype=pl.String).alias("matched_by")
    pairs.append(left.select("a", none.alias("b"), nothing))
    pairs.append(right.select(none.alias("a"), "b", nothing))
    return pl.concat(pairs).sort("b", "a", nulls_last=True)


_MEANS = (DiffSetting.HOST_EVENTS, DiffSetting.OVERHEAD)
"""Numbers: the mean of the ranks."""


def diff_settings(ranks: Sequence[Sequence[RankProfile]], runs: Sequence[RunProfile]) -> pl.DataFrame:
    """A row for each setting: `DIFF_SETTINGS`."""
    found = [_of_run(some, run) for some, run in zip(ranks, runs, strict=True)]
    rows = [
        {
            "setting": setting.value,
            "a": found[0][setting],
            "b": found[1][setting],
            "differs": None not in (found[0][setting], found[1][setting])
            and found[0][setting] != found[1][setting],
        }
        for setting in DiffSetting
    ]
    return pl.DataFrame(rows, schema=DIFF_SETTINGS.polars_schema())


def host_late_share(run: RunProfile) -> float:
    """Share of the steps in which the device is idle because the host is late; 0 if there is no device."""
    late = run.parts.filter(
        pl.col("part") == DiffPart.IDLE.value, pl.col("cause") == IdleCause.HOST_LATE.value
    )
    whole = int(run.spans.sum())
    return int(late.get_column("ns").sum()) / whole if whole and run.has_device else 0.0


def _of_run(ranks: Sequence[RankProfile], run: RunProfile) -> dict[DiffSetting, str | None]:
    found: dict[DiffSetting, str | None] = {}
    for setting in DiffSetting:
        values = [value for rank in ranks if (value := rank.settings.get(setting)) is not None]
        if setting in _MEANS:
            found[setting] = str(round(sum(map(int, values)) / len(values))) if values else None
        else:
            found[setting] = encodable(", ".join(dict.fromkeys(values))) or None
    found[DiffSetting.STEPS] = str(run.samples if run.has_steps else 0)
    found[DiffSetting.HOST_LATE] = f"{host_late_share(run):.4f}"
    return found


_Ints = NDArray[np.int64]
_KEY = ["part", "pair", "cause", "host_activity"]


def diff_parts(a: RunProfile, b: RunProfile, pair_a: _Ints, pair_b: _Ints) -> tuple[pl.DataFrame, Tested]:
    """The parts of a step in both runs: the columns of `DIFF_PARTS` but those of ops and tests, with `pair`.

    The means are rounded so that they add up to the mean step: down, and those with the largest remainders up.
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


_OP = ["pair", "kind"]
_SCHEMA = {"pair": pl.Int64, "kernel": pl.String, "kind": pl.String}


def diff_kernels(a: RunProfile, b: RunProfile, pair_a: _Ints, pair_b: _Ints) -> tuple[pl.DataFrame, Tested]:
    """A row for each kernel under an op: the columns of `DIFF_KERNELS` but those of ops and tests, with `pair`.

    Kernels of one op are matched by their names. Of those that are left, the first of the one run is the first of the
    other, renamed: another version, device or algorithm does the same work.
    """
    frames = [_add_kernel_pairs(run, pairs) for run, pairs in ((a, pair_a), (b, pair_b))]
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


def _add_kernel_pairs(run: RunProfile, pairs: _Ints) -> pl.DataFrame:
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
    """
    of_a, values_a = _ops_of_run(a, pair_a, pairs.height)
    of_b, values_b = _ops_of_run(b, pair_b, pairs.height)
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
    found = found.with_columns(_op_change(a.has_device and b.has_device))
    wanted = of_a.is_there & of_b.is_there & ((of_a.ns.sum(axis=1) + of_b.ns.sum(axis=1)) > 0)
    return _with_outermost(found), tested_pairs(of_a, of_b, wanted)


def _named(name: str, run: str) -> str:
    return f"{name[:-3]}_{run}_ns" if name.endswith("_ns") else f"{name}_{run}"


def _ops_of_run(run: RunProfile, pairs: _Ints, height: int) -> tuple[RowsOfRun, pl.DataFrame]:
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


def _op_change(both_have_devices: bool) -> pl.Expr:
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
    """Return whether the op around each is without its change, in the run that the change is seen in."""
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


def compare(a: Sequence[Capture], b: Sequence[Capture], with_doubtful: bool = False) -> Comparison:
    """Compare two runs by the profiles of the ranks of their captures.

    Raises:
        ArgumentError: the runs have no rank in common, or the captures of one do not belong together.
    """
    refuse_mixed(a, b)
    captures = _in_common(a, b)
    ranks = [[rank for capture in run for rank in capture] for run in captures]
    shapes = _known_in_both(DiffSetting.RECORD_SHAPES, *ranks)
    modules = all(
        any(rank.positions.get_column("module").is_not_null().any() for rank in run) for run in ranks
    )
    runs = [
        pooled([run_profile(capture, shapes, modules, with_doubtful) for capture in run]) for run in captures
    ]
    settings = diff_settings(ranks, runs)
    left_out = pl.concat(
        run.left_out.select(pl.lit(name).alias("run"), pl.col("capture") + 1, "step", "reason", "doubt")
        for name, run in zip("ab", runs, strict=True)
    )
    found = replace(
        compare_runs(*runs),
        settings=settings,
        captures=DIFF_CAPTURES.conform(
            pl.concat(_captures(*of_run) for of_run in zip("ab", runs, captures, strict=True))
        ),
        left_out=DIFF_LEFT_OUT.conform(left_out),
    )
    return replace(found, cautions=cautions(found, settings, (a[0], b[0]), captures))


def _captures(name: str, run: RunProfile, captures: Sequence[Capture]) -> pl.DataFrame:
    """The captures of a run: `model.answers.DIFF_CAPTURES`."""
    counts = run.left_out.get_column("capture")
    spans = run.by_capture(run.spans.sum(axis=0, keepdims=True))
    rows = [
        {
            "run": name,
            "capture": number + 1,
            "path": encodable(str(captures[number][0].settings[DiffSetting.PATH])),
            "steps": steps,
            "left_out": int((counts == number).sum()),
            "median_ns": float(np.median(spans[number])) / len(run.ranks) if steps else None,
            "doubtful": doubtful,
        }
        for number, (steps, doubtful) in enumerate(zip(run.steps_of_captures, run.doubtful, strict=True))
    ]
    return pl.DataFrame(rows, schema=DIFF_CAPTURES.polars_schema())


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
        frame = frame.with_columns(*shift_columns(tested), *significance_columns(p, alpha_of(a, b)))
        if table is DIFF_OPS:
            frame = frame.filter(pl.col("in_a") | pl.col("in_b"))
        else:
            pair = frame.get_column("pair").to_numpy()
            frame = frame.with_columns(described[np.where(pair < 0, ops.height, pair)].get_columns())
        tables.append(_largest_first(table, frame))
    return Comparison(diff_steps(a, b), tables[1], tables[0], tables[2], pl.DataFrame())


def _in_common(a: Sequence[Capture], b: Sequence[Capture]) -> list[list[Capture]]:
    """The captures of both runs with the ranks of all; those of a single rank each are compared whatever these are."""
    if all(len(capture) == 1 for capture in (*a, *b)):
        return [list(a), list(b)]
    common = set.intersection(*({rank.rank for rank in capture} for capture in (*a, *b)))
    if not common:
        ranks = [", ".join(str(rank.rank) for rank in run[0]) or "none" for run in (a, b)]
        raise ArgumentError(f"the runs have no rank in common: ranks {ranks[0]} of a, and {ranks[1]} of b")
    return [[[rank for rank in capture if rank.rank in common] for capture in run] for run in (a, b)]


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
    """Correct the probabilities of all tables together, since readers see all of them."""
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
