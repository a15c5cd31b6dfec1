"""Codes in answers about memory."""

from __future__ import annotations

from enum import Enum

__all__ = ["AllocatorCall", "CategoryRule", "MemoryCategory", "MemorySource", "TrainingPhase"]


class MemorySource(Enum):
    """Where allocations are known from."""

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
    """What memory is used for."""

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
    """What decided a category, the first that fits; `docs/analyses/memory.md` explains each.

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
    """What a call does with a device's memory."""

    ALLOCATION = "allocation"
    RELEASE = "release"
