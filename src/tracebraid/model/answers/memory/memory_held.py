"""Answers about memory that is held for long."""

from __future__ import annotations

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP
from tracebraid.model.answers.memory.memory_columns import CATEGORY, DEVICE, MODULE, OP
from tracebraid.model.column import Column, Kind, Table

__all__ = ["ACTIVATIONS", "MEMORY_GROWTH", "MEMORY_KEPT"]

_INT, _FLOAT, _TEXT = Kind.INT, Kind.FLOAT, Kind.TEXT

MEMORY_GROWTH = Table(
    "memory_growth",
    "One row per step and device, in the order of steps: what is allocated at its end, and how that grew.",
    (
        RANK,
        Column("step", _TEXT, "the step"),
        DEVICE,
        Column("start_bytes", _INT, "allocated at its start"),
        Column("end_bytes", _INT, "allocated at its end"),
        Column(
            "growth_bytes", _INT, "at its end more than at the end of the step before; null: there is none"
        ),
        Column("kept_bytes", _INT, "allocated in it and still alive at the trace's end"),
        Column("kept_allocations", _INT, "their number"),
        Column(
            "slope_bytes_per_step",
            _FLOAT,
            "least squares through `end_bytes` over the steps from the second on; null: fewer than 3 of them",
        ),
        DOUBTFUL,
    ),
)

MEMORY_KEPT = Table(
    "memory_kept",
    "One row per category, op, module and size of allocations that several steps made and none released, "
    "the largest in total first.",
    (
        RANK,
        DEVICE,
        CATEGORY,
        OP,
        MODULE,
        Column("size_bytes", _INT, "size of each"),
        Column("steps", _INT, "steps after the first that left some of them alive"),
        Column("count", _INT, "allocations in those steps"),
        Column("bytes", _INT, "their size together"),
        Column("bytes_per_step", _FLOAT, "`bytes` by the number of steps after the first"),
    ),
)

ACTIVATIONS = Table(
    "activations",
    "One row per op, module, shape and size of activations, those that are held longest by bytes x time first.",
    (
        RANK,
        STEP,
        DEVICE,
        OP,
        MODULE,
        Column("shape", _TEXT, "shape, as JSON; null: no Execution Trace, or not found in it"),
        Column("dtype", _TEXT, "element type, in C++ words; null likewise"),
        Column("size_bytes", _INT, "size of each"),
        Column("count", _INT, "activations"),
        Column("bytes", _INT, "their size together"),
        Column("mean_lifetime_ns", _FLOAT, "from allocation to release, or to the trace's end"),
        Column("max_lifetime_ns", _INT, "the longest"),
        Column("byte_seconds", _FLOAT, "sum of bytes x lifetime"),
        Column(
            "saved_byte_seconds",
            _FLOAT,
            "of that between the last use in forward and the first in backward, which recomputing saves; "
            "null: no Execution Trace, or not found in it",
        ),
        DOUBTFUL,
    ),
)
