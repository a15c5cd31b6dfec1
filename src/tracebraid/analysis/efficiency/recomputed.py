"""Which ops compute activations again in the backward pass, for activation checkpointing."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.event_columns import fetched, rows_of_events
from tracebraid.analysis.host.host_trees import host_names, host_ops
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import flags_by_name
from tracebraid.model.op_tree import OpTree

__all__ = ["recomputed_rows"]

_EVALUATE = "autograd::engine::evaluate_function"
_CHECKPOINT = "Checkpoint"
"""Part of the name of the backward op of a reentrant checkpoint: `CheckpointFunctionBackward`."""
_ATEN = "aten::"

_Bools = NDArray[np.bool_]


def recomputed_rows(linked: LinkedTrace) -> _Bools:
    """For each row of `linked.host_tree` whether it is an op that computes activations again, or lies in one.

    The forward pass numbers its ops for autograd; ops of a backward op have no number, since gradients are not
    recorded there. An op with a number of its own, and of no forward thread, that lies in a backward op is of a forward
    pass that runs again: `CheckpointFunctionBackward` runs it, or the first backward op that asks for what a
    checkpoint did not keep. A backward pass of a backward pass (`create_graph`) numbers its ops, too: a backward op
    counts only where an ATen op directly in it has no number, or where its name says that it is of a checkpoint.

    Args:
        linked: one rank. A region that a compiler has put recomputation into is not seen.
    """
    return linked.derived(_recomputed_rows)


def _recomputed_rows(linked: LinkedTrace) -> _Bools:
    walk = host_ops(linked)
    name, numbered, backward = _columns(linked)
    node = np.where(backward, -1, walk.nearest(backward))
    counts = _backward_of_checkpoints(walk, name, numbered, backward)
    again = numbered & (node >= 0) & counts[np.maximum(node, 0)]
    nearest = walk.nearest(again | backward)
    found: _Bools = (nearest >= 0) & again[np.maximum(nearest, 0)]
    return found


def _columns(linked: LinkedTrace) -> tuple[pl.Series, _Bools, _Bools]:
    """Of each row its name, whether autograd numbered it on the forward pass, and whether it is of a backward pass."""
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


def _backward_of_checkpoints(walk: OpTree, name: pl.Series, numbered: _Bools, backward: _Bools) -> _Bools:
    is_aten = flags_by_name(name, lambda text: text.str.starts_with(_ATEN))
    found: _Bools = backward & flags_by_name(name, lambda text: text.str.contains(_CHECKPOINT, literal=True))
    found[walk.enclosing[is_aten & ~numbered & ~backward]] = True
    return found & backward
