"""Which ops compute activations again in the backward pass, for activation checkpointing."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.host.host_trees import host_ops
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace
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
    name = as_text("name").fill_null("")
    numbered = (pl.col("sequence_number") >= 0) & (pl.col("fwd_thread_id").fill_null(0) == 0)
    backward = (pl.col("fwd_thread_id") > 0) | name.str.starts_with(_EVALUATE)
    ops = linked.timeline.host_ops.select("event_id", "sequence_number", "fwd_thread_id")
    found = (
        linked.host_tree.select("event_id")
        .join(
            linked.timeline.events.select("event_id", name), on="event_id", how="left", maintain_order="left"
        )
        .join(ops, on="event_id", how="left", maintain_order="left")
        .select(
            "name", numbered.fill_null(value=False).alias("n"), backward.fill_null(value=False).alias("b")
        )
    )
    return found.get_column("name"), found.get_column("n").to_numpy(), found.get_column("b").to_numpy()


def _backward_of_checkpoints(walk: OpTree, name: pl.Series, numbered: _Bools, backward: _Bools) -> _Bools:
    is_aten = name.str.starts_with(_ATEN).to_numpy()
    found: _Bools = backward & name.str.contains(_CHECKPOINT, literal=True).to_numpy()
    found[walk.enclosing[is_aten & ~numbered & ~backward]] = True
    return found & backward
