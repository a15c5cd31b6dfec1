"""Tables of answers about memory."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers import DOUBTFUL, RANK, STEP
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


_INT = Kind.INT
_FLOAT = Kind.FLOAT
_TEXT = Kind.TEXT


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
