"""The ops that count, none of them twice: each with its cost, and the time of all that lies in it; and those of them
that recompute activations.
"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.answering import NO_STEP, answer
from tracebraid.analysis.device import device_events, fetched, rows_of_events
from tracebraid.analysis.efficiency.calls import calls_with_costs, has_shapes
from tracebraid.analysis.host.host_trees import host_names, host_ops
from tracebraid.analysis.time.step_windows import in_order_of_steps, step_of_moments, step_windows
from tracebraid.model.analysis import Family, Need, analysis
from tracebraid.model.answers.efficiency import RECOMPUTATION, OpFamily, UnknownFlops
from tracebraid.model.device_peaks import COMMUNICATION, Precision
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import flags_by_name
from tracebraid.model.op_tree import OpTree

_Bools = NDArray[np.bool_]
_Ints = NDArray[np.int64]

_EVALUATE = "autograd::engine::evaluate_function"
_CHECKPOINT = "Checkpoint"
"""Part of the name of the backward op of a reentrant checkpoint: `CheckpointFunctionBackward`."""
_ATEN = "aten::"


def recomputed_rows(linked: LinkedTrace) -> _Bools:
    """For each row of `linked.host_tree` whether it is an op that computes activations again, or lies in one.

    The forward pass numbers its ops for autograd; ops of a backward op have no number, since gradients are not
    recorded there. An op with a number of its own, and of no forward thread, that lies in a backward op is of a forward
    pass that runs again: `CheckpointFunctionBackward` runs it, or the first backward op that asks for what a
    checkpoint did not keep. A backward pass of a backward pass (`create_graph`) numbers its ops, too: a backward op
    counts only where an ATen op directly in it has no number, or where its name says that it is of a checkpoint.
    """
    return linked.derived(_recomputed_rows)


def _recomputed_rows(linked: LinkedTrace) -> _Bools:
    walk = host_ops(linked)
    name, numbered, backward = _columns(linked)
    node = np.where(backward, -1, walk.nearest(backward))
    counts = _checkpoint_backward(walk, name, numbered, backward)
    again = numbered & (node >= 0) & counts[np.maximum(node, 0)]
    nearest = walk.nearest(again | backward)
    found: _Bools = (nearest >= 0) & again[np.maximum(nearest, 0)]
    return found


def _columns(linked: LinkedTrace) -> tuple[pl.Series, _Bools, _Bools]:
    """Name of each row, whether autograd numbered it in the forward pass, and whether it is in a backward pass."""
    names = host_names(linked)
    ops = linked.timeline.host_ops
    rows = rows_of_events(ops.get_column("event_id"), names.get_column("event_id"))
    found = fetched(ops.select("sequence_number", "fwd_thread_id"), rows)
    numbered = (pl.col("sequence_number") >= 0) & (pl.col("fwd_thread_id").fill_null(0) == 0)
    flags = found.select(numbered=numbered, backward=pl.col("fwd_thread_id") > 0).with_columns(
        pl.all().fill_null(value=False)
    )
    name = names.get_column("name")
    evaluates = flags_by_name(name, lambda text: text.str.starts_with(_EVALUATE))
    return name, flags.get_column("numbered").to_numpy(), flags.get_column("backward").to_numpy() | evaluates


def _checkpoint_backward(walk: OpTree, name: pl.Series, numbered: _Bools, backward: _Bools) -> _Bools:
    is_aten = flags_by_name(name, lambda text: text.str.starts_with(_ATEN))
    found: _Bools = backward & flags_by_name(name, lambda text: text.str.contains(_CHECKPOINT, literal=True))
    found[walk.enclosing[is_aten & ~numbered & ~backward]] = True
    return found & backward


_BETWEEN_MEMORIES = r"Memcpy (HtoD|DtoH|PtoP)|CopyHostToDevice|CopyDeviceToHost"
"""Names of copies that leave a device's memory, or come into it."""
_TF32_KERNEL = r"(?i)tf32|s1688|s64x\d+x8gemm|^nvjet_"
"""Names of kernels that multiply fp32 on tensor cores, which is TF32.

`s1688` and `s64x...x8` are shapes of such a product in CUTLASS and cuBLAS; all of cuBLAS's `nvjet` run on tensor cores.
"""


def counted_ops(linked: LinkedTrace) -> pl.DataFrame:
    """One row per op that counts, in the order of `events`; see `calls_of` and `calls_with_costs` for most columns.

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


def counted_ops_by_step(linked: LinkedTrace, per_step: bool) -> pl.DataFrame:
    """Add `step`, in which the op started; all null if steps are not requested."""
    ops = counted_ops(linked)
    if per_step:
        return linked.derived(_by_step)
    return ops.with_columns(NO_STEP)


def _by_step(linked: LinkedTrace) -> pl.DataFrame:
    return step_of_moments(counted_ops(linked), step_windows(linked))


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
        pl.when(is_counted | ~pl.col("has_rule"))
        .then("unknown_flops")
        .otherwise(pl.lit(UnknownFlops.INSIDE.value))
        .alias("unknown_flops"),
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


_COSTS_OF_OPS = {"op_event": pl.Int64, "counted_event": pl.Int64, "flops": pl.Int64, "bytes": pl.Int64}


def costs_of_ops(linked: LinkedTrace) -> pl.DataFrame:
    """A row per op that counts, or lies in one that does: `op_event`, `counted_event`, `flops`, `bytes`.

    The costs are those of the counted op as a whole (see `counted_ops`): who adds them up takes each counted op once.
    """
    if not has_shapes(linked):
        return pl.DataFrame(schema=_COSTS_OF_OPS)
    known = pl.col("flops").is_not_null() | pl.col("bytes").is_not_null()
    counted = counted_ops(linked).filter(known).select("event_id", "flops", "bytes")
    walk = host_ops(linked)
    is_counted = np.isin(walk.event_id, counted.get_column("event_id").to_numpy())
    owner = walk.nearest(is_counted)
    rows = np.flatnonzero(owner >= 0)
    pairs = pl.DataFrame({"op_event": walk.event_id[rows], "counted_event": walk.event_id[owner[rows]]})
    found = pairs.join(
        counted, left_on="counted_event", right_on="event_id", how="inner", maintain_order="left"
    )
    return found.select(pl.col(name).cast(kind) for name, kind in _COSTS_OF_OPS.items())


@analysis(
    RECOMPUTATION,
    Family.EFFICIENCY,
    needs=(Need.HOST_OPS,),
    uses=(Need.SHAPES_OF_EITHER, Need.DEVICE_WORK),
    shown="name device_ns host_ns count flops family",
    when_empty="no op in a backward pass has a sequence number of its own, as those that run again have",
)
def recomputation(linked: LinkedTrace, per_step: bool = False) -> pl.DataFrame:
    """What does activation checkpointing recompute?

    Ops of a forward pass that ran again in the backward pass, the most time first.

    Both kinds of `torch.utils.checkpoint` are seen, by sequence numbers: see `recomputed_rows`. An op that lies in
    another which counts is part of it; a row without known FLOPs, such as `linear` around its `addmm`, has its own
    host time alone. In a trace with device work only ops that launched something are there.

    Args:
        linked: one rank.
        per_step: rows for each step in which the ops started, instead of over all.
    """
    ops = counted_ops_by_step(linked, per_step).filter("is_recompute")
    flops = pl.col("flops")
    return (
        ops.group_by("step", "name", "family")
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("host_ns", "device_ns").sum(),
            pl.when(flops.is_not_null().any()).then(flops.sum()).alias("flops"),
        )
        .sort("device_ns", "host_ns", "name", descending=[True, True, False])
        .pipe(in_order_of_steps, linked)
        .pipe(lambda frame: answer(RECOMPUTATION, frame, linked))
    )
