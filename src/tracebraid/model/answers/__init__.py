"""The tables that analyses answer with: a module for each family of `analysis/`."""

from __future__ import annotations

from tracebraid.model.answers.kernels import KERNELS, LAUNCHERS, Launcher
from tracebraid.model.answers.ops import (
    ANNOTATION_KERNELS,
    MODULES,
    OPS,
    PYTHON_FRAMES,
    USER_ANNOTATIONS,
    ModuleSource,
    OpKey,
)
from tracebraid.model.answers.time import BREAKDOWN, STEPS
from tracebraid.model.answers.validity import VALIDITY, Doubt

__all__ = [
    "ANNOTATION_KERNELS",
    "BREAKDOWN",
    "KERNELS",
    "LAUNCHERS",
    "MODULES",
    "OPS",
    "PYTHON_FRAMES",
    "STEPS",
    "USER_ANNOTATIONS",
    "VALIDITY",
    "Doubt",
    "Launcher",
    "ModuleSource",
    "OpKey",
]
