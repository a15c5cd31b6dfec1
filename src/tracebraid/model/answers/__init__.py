"""The tables that analyses answer with: a module for each family of `analysis/`."""

from __future__ import annotations

from tracebraid.model.answers.efficiency import MFU, OP_COSTS, RECOMPUTATION, ROOFLINE, Bound, OpFamily
from tracebraid.model.answers.kernels import KERNELS, LAUNCHERS, Launcher
from tracebraid.model.answers.ops import OPS
from tracebraid.model.answers.time import BREAKDOWN, STEPS
from tracebraid.model.answers.validity import VALIDITY, Doubt

__all__ = [
    "BREAKDOWN",
    "KERNELS",
    "LAUNCHERS",
    "MFU",
    "OPS",
    "OP_COSTS",
    "RECOMPUTATION",
    "ROOFLINE",
    "STEPS",
    "VALIDITY",
    "Bound",
    "Doubt",
    "Launcher",
    "OpFamily",
]
