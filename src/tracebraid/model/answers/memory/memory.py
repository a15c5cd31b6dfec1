"""Answers about memory."""

from __future__ import annotations

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP
from tracebraid.model.answers.memory.memory_codes import (
    AllocatorCall,
    CategoryRule,
    MemoryCategory,
    MemorySource,
    TrainingPhase,
)
from tracebraid.model.answers.memory.memory_columns import CATEGORY, DEVICE, MODULE, OP, SOURCE
from tracebraid.model.answers.memory.memory_held import ACTIVATIONS, MEMORY_GROWTH, MEMORY_KEPT
from tracebraid.model.column import Column, Kind, Table

__all__ = [
    "ACTIVATIONS",
    "ALLOCATIONS",
    "ALLOCATOR",
    "ALLOCATOR_CALLS",
    "MEMORY_AT_PEAK",
    "MEMORY_GROWTH",
    "MEMORY_KEPT",
    "MEMORY_PEAK",
    "MEMORY_TIMELINE",
    "AllocatorCall",
    "CategoryRule",
    "MemoryCategory",
    "MemorySource",
    "TrainingPhase",
]

_INT, _FLOAT, _TEXT = Kind.INT, Kind.FLOAT, Kind.TEXT

_STEP_OF_MOMENT = Column("step", _TEXT, "the step that holds the moment; null: none")

MEMORY_TIMELINE = Table(
    "memory_timeline",
    "One row per change of a device's allocated memory, in the order of time.",
    (
        RANK,
        _STEP_OF_MOMENT,
        Column("ts_ns", _INT, "the moment"),
        DEVICE,
        SOURCE,
        Column("size_bytes", _INT, "allocated (+) or released (-)"),
        Column("allocated_bytes", _INT, "allocated after it"),
        Column("reserved_bytes", _INT, "reserved by the allocator after it; null: the source does not say"),
        OP,
        DOUBTFUL,
    ),
)

ALLOCATIONS = Table(
    "allocations",
    "One row per allocation, with its release; in the order of allocation, those from before the trace first.",
    (
        RANK,
        Column("step", _TEXT, "the step in which it was allocated; null: in none"),
        DEVICE,
        Column(
            "allocated_ns",
            _INT,
            "when; null: before the trace; of a storage that no op made the first use, if it is no parameter or state",
        ),
        Column("released_ns", _INT, "when; null: still alive at the trace's end; of storages the last use"),
        Column("lifetime_ns", _INT, "from the one to the other; null where one of them is"),
        Column("size_bytes", _INT, "its size"),
        Column("address", _INT, "its address"),
        CATEGORY,
        Column("rule", _TEXT, "what decided the category, a code of `CategoryRule`"),
        Column(
            "phase",
            _TEXT,
            "phase of the step in which it was allocated, a code of `TrainingPhase`; null: before",
        ),
        Column("released_in", _TEXT, "phase in which it was released; null: not released"),
        OP,
        Column("top_op", _TEXT, "outermost op around the allocation; null: none"),
        MODULE,
        Column("annotation", _TEXT, "innermost annotation around it that is no step; null: none"),
        Column("shape", _TEXT, "shape of the tensor, as JSON; null: no Execution Trace, or not found in it"),
        Column("dtype", _TEXT, "its element type, in C++ words; null likewise"),
        DOUBTFUL,
    ),
)

MEMORY_PEAK = Table(
    "memory_peak",
    "One row per device, and by step per device and step: the moment at which the most is allocated.",
    (
        RANK,
        STEP,
        DEVICE,
        SOURCE,
        Column("peak_ns", _INT, "when, the first time"),
        Column("peak_bytes", _INT, "allocated then"),
        Column("reserved_bytes", _INT, "reserved by the allocator then; null: the source does not say"),
        Column("before_trace_bytes", _INT, "of the peak: allocated before the trace"),
        Column("in_trace_bytes", _INT, "of the peak: allocated in the trace"),
        Column("allocations", _INT, "allocations of the trace that are alive then"),
        OP,
        MODULE,
        DOUBTFUL,
    ),
)

MEMORY_AT_PEAK = Table(
    "memory_at_peak",
    "One row per category, op and module of what is alive at a device's peak, the largest first. They add up to it.",
    (
        RANK,
        STEP,
        DEVICE,
        CATEGORY,
        OP,
        MODULE,
        Column("bytes", _INT, "their size"),
        Column("count", _INT, "allocations; null: from before the trace, in unknown number"),
        Column("share", _FLOAT, "of the peak, 0 to 1"),
        DOUBTFUL,
    ),
)

ALLOCATOR = Table(
    "allocator",
    "One row per device, and by step per device and step: how the allocator coped.",
    (
        RANK,
        STEP,
        DEVICE,
        Column("allocations", _INT, "allocations"),
        Column("allocated_bytes", _INT, "sum of their sizes"),
        Column("releases", _INT, "releases"),
        Column("peak_allocated_bytes", _INT, "most allocated at a moment"),
        Column(
            "peak_reserved_bytes", _INT, "most reserved at a moment; null: this allocator reserves nothing"
        ),
        Column("reserved_at_peak_bytes", _INT, "reserved when the most was allocated; null likewise"),
        Column(
            "unused_at_peak_bytes",
            _INT,
            "of that not allocated; null likewise, or where it is below 0",
        ),
        Column(
            "fragmentation",
            _FLOAT,
            "of the reserved at the peak, the share not allocated; null as that",
        ),
        Column("device_allocations", _INT, "calls such as `cudaMalloc` for it"),
        Column("device_releases", _INT, "calls such as `cudaFree` for it"),
        Column("device_call_ns", _INT, "host time in both"),
        Column("steady_device_allocations", _INT, "of the allocating calls those in a step after the first"),
        Column("retries", _INT, "allocating calls that releasing calls of the same op came before"),
        DOUBTFUL,
    ),
)

ALLOCATOR_CALLS = Table(
    "allocator_calls",
    "One row per op and call that took memory from a device or gave it back, the longest in total first.",
    (
        RANK,
        Column("step", _TEXT, "the step in which they started; null: the whole trace, or by step: in none"),
        Column("call", _TEXT, "name of the runtime or driver call"),
        Column("kind", _TEXT, "`allocation` or `release`: see `AllocatorCall`"),
        OP,
        MODULE,
        Column("count", _INT, "calls"),
        Column("steady_count", _INT, "of them those in a step after the first"),
        Column("total_ns", _INT, "host time in them"),
        Column("max_ns", _INT, "longest"),
        DOUBTFUL,
    ),
)
