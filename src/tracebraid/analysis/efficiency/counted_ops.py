"""The ops that count, none of them twice: each with its cost, and the time of all that lies in it."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.efficiency.recomputed import recomputed_rows
from tracebraid.analysis.efficiency.signatures import calls_with_costs
from tracebraid.analysis.host.host_trees import host_ops
from tracebraid.analysis.step_rows import NO_STEP
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.model.answers.efficiency import OpFamily
from tracebraid.model.device_kind import COMMUNICATION
from tracebraid.model.device_peaks import Precision
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.op_tree import OpTree

__all__ = ["counted_ops", "counted_ops_by_step"]

_BETWEEN_MEMORIES = r"Memcpy (HtoD|DtoH|PtoP)|CopyHostToDevice|CopyDeviceToHost"
"""Names of copies that leave a device's memory, or come into it."""
_TF32_KERNEL = r"(?i)tf32|s1688|s64x\d+x8gemm|^nvjet_"
"""Names of kernels that multiply fp32 on tensor cores, which is TF32.

`s1688` and `s64x...x8` are shapes of such a product in CUTLASS and cuBLAS; all of cuBLAS's `nvjet` run on tensor cores.
"""

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]


def counted_ops(linked: LinkedTrace) -> pl.DataFrame:
    """One row per op that counts, in the order of the file; see `calls_of` and `calls_with_costs` for most columns.

    An op with a rule counts, and what lies in it is its own: `convolution_backward` with the `sum` for its bias. Among
    nested ops with rules the outermost counts. A composite (`linear`, `matmul`) counts only where no op in it has known
    FLOPs. All other ops, such as a `linear` around its `addmm`, have rows of their own with unknown costs. So each
    launch, and each ns of host self time, belongs to exactly one row. In a trace with device work, ops whose rows
    launched nothing are left out: they ran on the host, or were only traced.

    Adds: kernels and device_ns, of all that belongs to it; host_ns, its host self time with that of what belongs to it;
    is_recompute; moves_between_memories: a collective, or a copy from or to the host. Without device work, device_ns
    is host_ns. `precision` is `tf32` where a kernel's name shows it.
    """
    return linked.derived(_counted_ops)


def counted_ops_by_step(linked: LinkedTrace, per_step: bool, annotation: str) -> pl.DataFrame:
    """The same with `step`: that in which the op started; null for all of them where no step is asked for."""
    ops = counted_ops(linked)
    if per_step:
        return linked.derived(_by_step, annotation)
    return ops.with_columns(NO_STEP)


def _by_step(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    return step_of_moments(counted_ops(linked), step_windows(linked, annotation))


def _counted_ops(linked: LinkedTrace) -> pl.DataFrame:
    tree = linked.host_tree
    walk = host_ops(linked)
    calls = calls_with_costs(linked)
    on_tree = (
        tree.select("event_id", "op_exclusive_ns")
        .with_row_index("row")
        .join(calls, on="event_id", how="inner", maintain_order="left")
    )
    rows = on_tree.get_column("row").to_numpy().astype(np.int64)
    counted = _counted(walk, on_tree, rows)
    owner = walk.nearest(counted)
    owner = np.where(owner < 0, np.arange(len(owner)), owner)
    own_time = tree.get_column("op_exclusive_ns").fill_null(0).to_numpy()
    host = np.zeros(len(owner), dtype=np.int64)
    np.add.at(host, owner, own_time)
    costs = ("flops", "causal_flops", "repeated_flops", "bytes", "precision")
    is_counted = pl.Series("is_counted", counted[rows])
    unknown = pl.lit(OpFamily.UNKNOWN.value)
    found = on_tree.with_columns(
        *(pl.when(is_counted).then(pl.col(name)).alias(name) for name in costs),
        pl.when(is_counted).then("family").otherwise(unknown).alias("family"),
        pl.Series("host_ns", host[rows]),
        pl.Series("is_recompute", recomputed_rows(linked)[rows]),
    ).filter(pl.Series(owner[rows] == rows))
    return _with_device(found, linked, walk, owner)


def _counted(walk: OpTree, ops: pl.DataFrame, rows: _Ints) -> _Bools:
    """For each row of the tree whether it is an op that a rule counts."""
    has_rule, composite = (ops.get_column(name).to_numpy() for name in ("has_rule", "is_composite"))
    computes = (ops.get_column("flops").fill_null(0) > 0).to_numpy()
    simple = rows[has_rule & ~composite]
    counted = np.zeros(len(walk.event_id), dtype=np.bool_)
    counted[simple[walk.outermost(simple, np.zeros(len(simple), dtype=np.int64))]] = True
    computing = np.zeros(len(counted), dtype=np.int64)
    computing[rows[computes & counted[rows]]] = 1
    free = has_rule & composite & (walk.nearest(counted)[rows] < 0) & (walk.sums(computing)[rows] == 0)
    candidates = rows[free]
    inside = np.zeros(len(counted), dtype=np.int64)
    inside[candidates] = 1
    counted[candidates[walk.sums(inside)[candidates] == 1]] = True
    return counted


def _with_device(found: pl.DataFrame, linked: LinkedTrace, walk: OpTree, owner: _Ints) -> pl.DataFrame:
    if not linked.timeline.has_device:
        return found.filter("is_op").with_columns(
            pl.lit(0, dtype=pl.Int64).alias("kernels"),
            pl.col("host_ns").alias("device_ns"),
            (pl.col("family") == OpFamily.COLLECTIVE.value).alias("moves_between_memories"),
        )
    launched = device_events(linked).filter(pl.col("op_event").is_not_null())
    events = launched.get_column("op_event").to_numpy()
    known = np.isin(events, walk.event_id)
    launched = launched.filter(pl.Series(known))
    name = pl.col("name")
    leaves = (pl.col("kind") == COMMUNICATION) | name.str.contains(_BETWEEN_MEMORIES)
    work = (
        launched.with_columns(pl.Series("owner", walk.event_id[owner[walk.rows(events[known])]]))
        .group_by("owner")
        .agg(
            pl.len().cast(pl.Int64).alias("kernels"),
            pl.col("dur_ns").sum().alias("device_ns"),
            leaves.any().alias("moves_between_memories"),
            name.str.contains(_TF32_KERNEL).any().alias("in_tf32"),
        )
    )
    joined = found.join(work, left_on="event_id", right_on="owner", how="inner", maintain_order="left")
    fp32, tf32 = Precision.FP32.value, Precision.TF32.value
    precision = pl.when((pl.col("precision") == fp32) & pl.col("in_tf32")).then(pl.lit(tf32))
    return joined.with_columns(precision.otherwise("precision").alias("precision")).drop("in_tf32")
