"""The tables that analyses answer with: a module for each family of `analysis/`."""

from __future__ import annotations

from tracebraid.model.answers.idle import (
    IDLE_BLAME,
    IDLE_CAUSES,
    IDLE_GAPS,
    STREAM_IDLE,
    GapSize,
    HostActivity,
    IdleCause,
    StreamGap,
)
from tracebraid.model.answers.kernels import KERNELS, LAUNCHERS, Launcher
from tracebraid.model.answers.ops import OPS
from tracebraid.model.answers.time import BREAKDOWN, STEPS
from tracebraid.model.answers.validity import VALIDITY, Doubt

__all__ = [
    "BREAKDOWN",
    "IDLE_BLAME",
    "IDLE_CAUSES",
    "IDLE_GAPS",
    "KERNELS",
    "LAUNCHERS",
    "OPS",
    "STEPS",
    "STREAM_IDLE",
    "VALIDITY",
    "Doubt",
    "GapSize",
    "HostActivity",
    "IdleCause",
    "Launcher",
    "StreamGap",
]
