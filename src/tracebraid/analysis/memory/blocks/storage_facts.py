"""What a storage is used for, from the ops that take and give it."""

from __future__ import annotations

import polars as pl

from tracebraid.model.answers import TrainingPhase

__all__ = ["FACTS", "facts", "of_first_tensor"]

FACTS = {
    "as_weight": pl.Boolean,
    "as_state": pl.Boolean,
    "updated": pl.Boolean,
    "accumulated": pl.Boolean,
    "zeroed": pl.Boolean,
    "written_in_backward": pl.Boolean,
    "communicated": pl.Boolean,
    "in_forward": pl.Boolean,
    "in_backward": pl.Boolean,
    "in_optimizer": pl.Boolean,
    "last_forward_ns": pl.Int64,
    "first_backward_ns": pl.Int64,
    "shape": pl.String,
    "dtype": pl.String,
}
"""What is known of a storage's uses, and its first tensor."""


def of_first_tensor() -> list[pl.Expr]:
    """`size_bytes`, `shape` and `dtype` of the tensor with which a life begins, over its uses in the order of time."""
    # Ops around the one that made it give it on, as a view perhaps: they end later.
    first = pl.col("is_output").arg_max().fill_null(0)
    is_made = pl.col("made_event").first().is_not_null()
    return [
        pl.when(is_made).then(pl.col(name).get(first)).otherwise(pl.col(name).first()).alias(name)
        for name in ("size_bytes", "shape", "dtype")
    ]


def facts() -> list[pl.Expr]:
    """The columns of `FACTS` but for shape and dtype, over the uses of a life."""
    phase, is_input = pl.col("phase"), ~pl.col("is_output")
    forward, backward, optimizer = (
        phase == p.value for p in (TrainingPhase.FORWARD, TrainingPhase.BACKWARD, TrainingPhase.OPTIMIZER)
    )
    return [
        (pl.col("is_weight") & forward).any().alias("as_weight"),
        pl.col("is_state").any().alias("as_state"),
        (pl.col("is_written") & optimizer).any().alias("updated"),
        pl.col("accumulates").any().alias("accumulated"),
        (pl.col("is_written") & (phase == TrainingPhase.ZERO_GRAD.value)).any().alias("zeroed"),
        (pl.col("is_written") & backward).any().alias("written_in_backward"),
        pl.col("communicates").any().alias("communicated"),
        (is_input & forward).any().alias("in_forward"),
        (is_input & backward).any().alias("in_backward"),
        (is_input & optimizer).any().alias("in_optimizer"),
        pl.col("end_ns").filter(forward).max().alias("last_forward_ns"),
        pl.col("start_ns").filter(backward & is_input).min().alias("first_backward_ns"),
    ]
