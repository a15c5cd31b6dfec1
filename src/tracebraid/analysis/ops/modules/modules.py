"""Which nn.Module takes the time, on the host and on the device, forward and backward?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.ops.launch_rows import host_times, launched
from tracebraid.analysis.ops.modules.module_rows import ModuleTree
from tracebraid.analysis.ops.modules.module_tree import module_tree
from tracebraid.analysis.step_rows import StepOptions
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers import MODULES
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["modules"]

_SEPARATOR = "/"
_SELF = [
    "host_forward_self_ns",
    "host_backward_self_ns",
    "device_forward_self_ns",
    "device_backward_self_ns",
    "device_recompute_self_ns",
    "kernels_self",
]


def modules(linked: LinkedTrace, per_step: bool = False, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The tree of nn.Modules with the time of each: `model.answers.MODULES`.

    Every host event's own time, and every device event's duration, counts in exactly one row's self time: that of the
    innermost module around the event or its launch. A backward op counts in the module of its forward op. Work of
    several streams or threads at once counts for each.

    Args:
        linked: one rank.
        per_step: rows for each step, instead of over all.
        annotation: what marks a step, see `steps`.
    """
    tree = module_tree(linked)
    if tree.source is None:
        return MODULES.empty()
    own = _own(linked, tree, StepOptions(annotation, per_step))
    found = _with_totals(own, tree)
    device = pl.col("device_forward_total_ns") + pl.col("device_backward_total_ns")
    root = pl.col("depth").fill_null(0) == 0
    of_step = device.filter(root).sum().over("step")
    found = found.with_columns(pl.when(of_step > 0).then(device / of_step).alias("share"))
    return found.pipe(in_order_of_steps, linked, annotation).pipe(
        lambda frame: answer(MODULES, frame, linked, annotation)
    )


def _own(linked: LinkedTrace, tree: ModuleTree, options: StepOptions) -> pl.DataFrame:
    """Self times and calls by step and path; path -1: in no module."""
    host = host_times(linked, options).with_columns(
        pl.Series("path", tree.path), pl.Series("backward", tree.backward)
    )
    host = host.with_columns(pl.Series("is_call", tree.is_call) if tree.is_call is not None else _no_calls())
    own_time, is_backward = pl.col("exclusive_ns"), pl.col("backward")
    of_host = host.group_by("step", "path").agg(
        own_time.filter(~is_backward).sum().alias("host_forward_self_ns"),
        own_time.filter(is_backward).sum().alias("host_backward_self_ns"),
        pl.col("is_call").sum().cast(pl.Int64).alias("calls"),
    )
    device = launched(linked, options)
    row = device.get_column("row").to_numpy()
    duration, again = pl.col("dur_ns"), pl.col("recompute")
    of_device = (
        device.select("step", "dur_ns")
        .with_columns(
            pl.Series("path", np.r_[tree.path, -1][row]),
            pl.Series("backward", np.r_[tree.backward, False][row]),
            pl.Series("recompute", np.r_[tree.recompute, False][row]),
        )
        .group_by("step", "path")
        .agg(
            duration.filter(~is_backward).sum().alias("device_forward_self_ns"),
            duration.filter(is_backward).sum().alias("device_backward_self_ns"),
            duration.filter(again).sum().alias("device_recompute_self_ns"),
            pl.len().cast(pl.Int64).alias("kernels_self"),
        )
    )
    both = of_host.join(of_device, on=["step", "path"], how="full", coalesce=True, nulls_equal=True)
    return both.with_columns(pl.col(*_SELF, "calls").fill_null(0))


def _no_calls() -> pl.Expr:
    return pl.lit(None, dtype=pl.Boolean).alias("is_call")


def _with_totals(own: pl.DataFrame, tree: ModuleTree) -> pl.DataFrame:
    """A row for each path with time in it or in what is inside, in the order of the tree, that of no module last."""
    total_of = {name: name.replace("_self", "_total") for name in _SELF}
    none = pl.DataFrame({"path": [-1], "ancestor": [-1]}, schema={"path": pl.Int64, "ancestor": pl.Int64})
    above = pl.concat([tree.paths.ancestors(), none])
    totals = (
        own.join(above, on="path")
        .group_by("step", "ancestor")
        .agg(pl.col(name).sum().alias(total) for name, total in total_of.items())
        .rename({"ancestor": "path"})
    )
    return (
        totals.join(own, on=["step", "path"], how="left", nulls_equal=True)
        .with_columns(pl.col(*_SELF, "calls").fill_null(0))
        .join(_described(tree), on="path", how="left")
        .sort("order", "step")
        .with_columns(pl.lit(tree.source.value if tree.source else None, dtype=pl.String).alias("source"))
        .with_columns(
            pl.when(pl.col("path") >= 0).then("calls").alias("calls")
            if tree.is_call is not None
            else pl.lit(None, dtype=pl.Int64).alias("calls")
        )
        .drop("path")
        .rename({"text": "path"})
    )


def _described(tree: ModuleTree) -> pl.DataFrame:
    """For each path its text, depth and class, and its number in a walk through the tree."""
    paths = tree.paths
    walk = paths.walk(tree.first)
    order = np.empty(len(walk), dtype=np.int64)
    order[walk] = np.arange(len(walk))
    described = pl.DataFrame(
        {
            "path": np.arange(len(walk), dtype=np.int64),
            "text": paths.texts(tree.names, _SEPARATOR),
            "depth": paths.depth,
            "class_name": [tree.classes[name] for name in paths.name.tolist()],
            "order": order,
        },
        schema_overrides={"text": pl.String, "class_name": pl.String},
    )
    none = {"path": [-1], "text": [None], "depth": [None], "class_name": [None], "order": [len(walk)]}
    return pl.concat([described, pl.DataFrame(none, schema=described.schema)])
