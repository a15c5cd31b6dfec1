"""The tables that analyses answer with: a module for each family of `analysis/`."""

from __future__ import annotations

from tracebraid.model.answers.kernel_sequences import (
    GRAPH_KERNELS,
    KERNEL_SEQUENCES,
    OP_KERNEL_SEQUENCES,
    CaptureMatch,
)
from tracebraid.model.answers.kernels import (
    KERNEL_DURATIONS,
    KERNEL_FAMILIES,
    KERNEL_PACE,
    KERNELS,
    KERNELS_BY_OP,
    LAUNCHERS,
    SHORT_KERNELS,
    Launcher,
)
from tracebraid.model.answers.ops import OPS
from tracebraid.model.answers.time import BREAKDOWN, STEPS
from tracebraid.model.answers.validity import VALIDITY, Doubt

__all__ = [
    "BREAKDOWN",
    "GRAPH_KERNELS",
    "KERNELS",
    "KERNELS_BY_OP",
    "KERNEL_DURATIONS",
    "KERNEL_FAMILIES",
    "KERNEL_PACE",
    "KERNEL_SEQUENCES",
    "LAUNCHERS",
    "OPS",
    "OP_KERNEL_SEQUENCES",
    "SHORT_KERNELS",
    "STEPS",
    "VALIDITY",
    "CaptureMatch",
    "Doubt",
    "Launcher",
]
