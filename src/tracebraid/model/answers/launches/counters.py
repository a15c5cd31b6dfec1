"""Answers about hardware counters."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.columns import DOUBTFUL, RANK
from tracebraid.model.answers.launches.launches import STEP_OF_EVENT
from tracebraid.model.column import Column, Kind, Table

__all__ = ["COUNTERS", "CounterMethod"]


class CounterMethod(Enum):
    """How the launch of a range of counters is known."""

    NAME = "name"
    POSITION = "position"


COUNTERS = Table(
    "counters",
    "One row per counter of each profiled kernel, in the order of the kernels.",
    (
        RANK,
        STEP_OF_EVENT,
        Column("range_event", Kind.INT, "the `cuda_profiler_range` event: its row in `events`"),
        Column(
            "kernel", Kind.TEXT, "the kernel's name; null: neither the counters nor a device event have it"
        ),
        Column("call_event", Kind.INT, "the call that launched it; null: unknown"),
        Column("op_event", Kind.INT, "innermost op that encloses the call; null: none, or unknown"),
        Column("op", Kind.TEXT, "its name"),
        Column("top_op", Kind.TEXT, "outermost op that encloses the call; null: none, or unknown"),
        Column(
            "op_stack", Kind.TEXT, "the ops that enclose the call, outermost first, as JSON; null: unknown"
        ),
        Column("counter", Kind.TEXT, "the counter's name"),
        Column("value", Kind.FLOAT, "its value; null: it is no number"),
        Column("method", Kind.TEXT, "how the launch is known: see `CounterMethod`; null: it is unknown"),
        Column("confidence", Kind.FLOAT, "1.0 where names agree, 0.8 by position alone; null: unknown"),
        DOUBTFUL,
    ),
)
