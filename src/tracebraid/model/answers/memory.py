"""Tables of answers about memory."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.efficiency import DOUBTFUL, RANK, STEP
from tracebraid.model.column import Column, Kind, Table


class MemorySource(Enum):
    """Source of allocations."""

    INSTANTS = "instants"
    STORAGES = "storages"


class TrainingPhase(Enum):
    """The phase of a training step in which something happens on the host."""

    LOADING = "loading"
    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    ZERO_GRAD = "zero-grad"
    OTHER = "other"


class MemoryCategory(Enum):
    """Use of memory."""

    PARAMETERS = "parameters"
    GRADIENTS = "gradients"
    OPTIMIZER_STATE = "optimizer-state"
    ACTIVATIONS = "activations"
    INPUTS = "inputs"
    TEMPORARIES = "temporaries"
    COLLECTIVE_BUFFERS = "collective-buffers"
    BEFORE_TRACE = "before-trace"
    UNKNOWN = "unknown"


class CategoryRule(Enum):
    """Rule that decided a category, the first that applies; `docs/analyses/memory.md` explains each.

    Those up to `READ_BY_BACKWARD` need the Execution Trace.
    """

    ACCUMULATED = "accumulated"
    ZEROED = "zeroed"
    WRITTEN_BY_BACKWARD = "written-by-backward"
    UPDATED_BY_OPTIMIZER = "updated-by-optimizer"
    WEIGHT_ARGUMENT = "weight-argument"
    STATE_ARGUMENT = "state-argument"
    OPTIMIZER_ONLY = "optimizer-only"
    COMMUNICATED = "communicated"
    READ_BY_FORWARD = "read-by-forward"
    READ_BY_BACKWARD = "read-by-backward"
    SEEN_BEFORE_TRACE = "seen-before-trace"
    LOADED = "loaded"
    IN_COLLECTIVE = "in-collective"
    RELEASED_IN_PHASE = "released-in-phase"
    KEPT_AFTER_OPTIMIZER = "kept-after-optimizer"
    KEPT_AFTER_BACKWARD = "kept-after-backward"
    KEPT_FROM_BEFORE_FORWARD = "kept-from-before-forward"
    MADE_BEFORE_FORWARD = "made-before-forward"
    OUTSIDE_OF_PHASES = "outside-of-phases"
    KEPT_AFTER_STEP = "kept-after-step"
    HELD_FOR_BACKWARD = "held-for-backward"
    RELEASED_BEFORE_BACKWARD = "released-before-backward"
    PASSED_BETWEEN_OPS = "passed-between-ops"
    RELEASED_IN_OP = "released-in-op"
    NEVER_RELEASED = "never-released"


class AllocatorCall(Enum):
    """Effect of a call on device memory."""

    ALLOCATION = "allocation"
    RELEASE = "release"


DEVICE = Column("device", Kind.TEXT, "device number; `cpu` for the host's memory")
OP = Column("op", Kind.TEXT, "innermost op around it that does more than allocate; null: none")
MODULE = Column(
    "module",
    Kind.TEXT,
    "innermost nn.Module around it (`Linear_0`), in backward that of the forward op; null: unknown",
)
CATEGORY = Column("category", Kind.TEXT, "a code of `MemoryCategory`")
SOURCE = Column(
    "source",
    Kind.TEXT,
    "`instants` of the allocator, or `storages` of the Execution Trace (a lower bound): see `MemorySource`",
)


_INT = Kind.INT
_FLOAT = Kind.FLOAT
_TEXT = Kind.TEXT

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
        Column("lifetime_ns", _INT, "from the one to the other; null if either is null"),
        Column("size_bytes", _INT, "its size"),
        Column("address", _INT, "its address"),
        CATEGORY,
        Column("rule", _TEXT, "rule of the category, a code of `CategoryRule`"),
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
    "One row per category, op and module of memory alive at a device's peak, largest first. They add up to the peak.",
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
