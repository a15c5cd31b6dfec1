"""Answers about ops."""

from __future__ import annotations

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP_OF_OP
from tracebraid.model.column import Column, Kind, Table

__all__ = ["OPS"]

OPS = Table(
    "ops",
    "One row per op name and input shapes, the most device time first, then the most host time.",
    (
        RANK,
        STEP_OF_OP,
        Column("name", Kind.TEXT, "the op's name"),
        Column("category", Kind.TEXT, "`cpu_op` or `user_annotation`"),
        Column("input_dims", Kind.TEXT, "shapes of the inputs, as JSON; null where none were recorded"),
        Column("count", Kind.INT, "how often it ran"),
        Column("host_self_ns", Kind.INT, "host time in it and in no op inside it"),
        Column("host_total_ns", Kind.INT, "host time in it, ops inside included"),
        Column("kernels", Kind.INT, "device events that it launched itself"),
        Column("device_self_ns", Kind.INT, "duration of those"),
        Column("device_total_ns", Kind.INT, "duration of all that it and the ops inside it launched"),
        DOUBTFUL,
    ),
)
