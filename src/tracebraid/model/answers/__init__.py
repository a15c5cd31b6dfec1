"""The tables that analyses answer with: a module for each family of `analysis/`."""

from __future__ import annotations

from tracebraid.model.answers.inference import (
    BATCH_SIZES,
    GRAPH_REPLAYS,
    INFERENCE_PHASES,
    TOKEN_TIMES,
    Phase,
    PhaseEvidence,
)
from tracebraid.model.answers.kernels import KERNELS, LAUNCHERS, Launcher
from tracebraid.model.answers.ops import OPS
from tracebraid.model.answers.time import BREAKDOWN, STEPS
from tracebraid.model.answers.validity import VALIDITY, Doubt

__all__ = [
    "BATCH_SIZES",
    "BREAKDOWN",
    "GRAPH_REPLAYS",
    "INFERENCE_PHASES",
    "KERNELS",
    "LAUNCHERS",
    "OPS",
    "STEPS",
    "TOKEN_TIMES",
    "VALIDITY",
    "Doubt",
    "Launcher",
    "Phase",
    "PhaseEvidence",
]
