"""The analyses of memory."""

from __future__ import annotations

from tracebraid.analysis.memory.activations import activations
from tracebraid.analysis.memory.allocations import allocations
from tracebraid.analysis.memory.allocator import allocator
from tracebraid.analysis.memory.allocator_calls import allocator_calls
from tracebraid.analysis.memory.memory_at_peak import memory_at_peak
from tracebraid.analysis.memory.memory_growth import memory_growth
from tracebraid.analysis.memory.memory_kept import memory_kept
from tracebraid.analysis.memory.memory_peak import memory_peak
from tracebraid.analysis.memory.memory_timeline import memory_timeline
from tracebraid.model.answers import (
    ACTIVATIONS,
    ALLOCATIONS,
    ALLOCATOR,
    ALLOCATOR_CALLS,
    MEMORY_AT_PEAK,
    MEMORY_GROWTH,
    MEMORY_KEPT,
    MEMORY_PEAK,
    MEMORY_TIMELINE,
)
from tracebraid.model.questions.analysis import Analysis, Family, Need

__all__ = ["ANALYSES"]

_USES = (Need.MEMORY, Need.EXECUTION_TRACE, Need.MODULES, Need.STEPS)

ANALYSES = (
    Analysis(
        "memory_timeline",
        Family.MEMORY,
        memory_timeline,
        MEMORY_TIMELINE,
        needs=(Need.ALLOCATIONS,),
        uses=(Need.MEMORY,),
    ),
    Analysis("memory_peak", Family.MEMORY, memory_peak, MEMORY_PEAK, needs=(Need.ALLOCATIONS,), uses=_USES),
    Analysis(
        "memory_at_peak", Family.MEMORY, memory_at_peak, MEMORY_AT_PEAK, needs=(Need.ALLOCATIONS,), uses=_USES
    ),
    Analysis("allocations", Family.MEMORY, allocations, ALLOCATIONS, needs=(Need.ALLOCATIONS,), uses=_USES),
    Analysis("activations", Family.MEMORY, activations, ACTIVATIONS, needs=(Need.ALLOCATIONS,), uses=_USES),
    Analysis(
        "memory_growth", Family.MEMORY, memory_growth, MEMORY_GROWTH, needs=(Need.ALLOCATIONS, Need.STEPS)
    ),
    Analysis(
        "memory_kept", Family.MEMORY, memory_kept, MEMORY_KEPT, needs=(Need.MEMORY, Need.STEPS), uses=_USES
    ),
    Analysis("allocator", Family.MEMORY, allocator, ALLOCATOR, needs=(Need.MEMORY,), uses=(Need.STEPS,)),
    Analysis(
        "allocator_calls",
        Family.MEMORY,
        allocator_calls,
        ALLOCATOR_CALLS,
        needs=(Need.DEVICE_WORK,),
        uses=(Need.HOST_OPS, Need.STEPS),
    ),
)
