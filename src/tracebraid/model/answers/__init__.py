"""The tables that analyses answer with: a module for each family of `analysis/`."""

from __future__ import annotations

from tracebraid.model.answers.kernels import KERNELS, LAUNCHERS, Launcher
from tracebraid.model.answers.memory import (
    ACTIVATIONS,
    ALLOCATIONS,
    ALLOCATOR,
    ALLOCATOR_CALLS,
    MEMORY_AT_PEAK,
    MEMORY_GROWTH,
    MEMORY_KEPT,
    MEMORY_PEAK,
    MEMORY_TIMELINE,
    AllocatorCall,
    CategoryRule,
    MemoryCategory,
    MemorySource,
    Phase,
)
from tracebraid.model.answers.ops import OPS
from tracebraid.model.answers.time import BREAKDOWN, STEPS
from tracebraid.model.answers.validity import VALIDITY, Doubt

__all__ = [
    "ACTIVATIONS",
    "ALLOCATIONS",
    "ALLOCATOR",
    "ALLOCATOR_CALLS",
    "BREAKDOWN",
    "KERNELS",
    "LAUNCHERS",
    "MEMORY_AT_PEAK",
    "MEMORY_GROWTH",
    "MEMORY_KEPT",
    "MEMORY_PEAK",
    "MEMORY_TIMELINE",
    "OPS",
    "STEPS",
    "VALIDITY",
    "AllocatorCall",
    "CategoryRule",
    "Doubt",
    "Launcher",
    "MemoryCategory",
    "MemorySource",
    "Phase",
]
