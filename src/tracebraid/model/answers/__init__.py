"""The tables that analyses answer with: a module for each family of `analysis/`."""

from __future__ import annotations

from tracebraid.model.answers.kernels import KERNELS, LAUNCHERS, Launcher
from tracebraid.model.answers.ops import OPS
from tracebraid.model.answers.time import (
    BREAKDOWN,
    EXPOSED_COLLECTIVES,
    OVERLAP,
    STEP_SPREAD,
    STEP_TIMES,
    STEPS,
    FirstTimeWork,
    StepPart,
)
from tracebraid.model.answers.validity import VALIDITY, Doubt

__all__ = [
    "BREAKDOWN",
    "EXPOSED_COLLECTIVES",
    "KERNELS",
    "LAUNCHERS",
    "OPS",
    "OVERLAP",
    "STEPS",
    "STEP_SPREAD",
    "STEP_TIMES",
    "VALIDITY",
    "Doubt",
    "FirstTimeWork",
    "Launcher",
    "StepPart",
]
