"""The phases of a training step as numbers."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.answers import TrainingPhase

__all__ = ["phase_code", "phase_names"]

_Ints = NDArray[np.int64]

_PHASES = [phase.value for phase in TrainingPhase]
"""Phases in the order of their codes."""


def phase_code(phase: TrainingPhase) -> int:
    """The code of a phase."""
    return _PHASES.index(phase.value)


def phase_names(codes: _Ints) -> pl.Series:
    """The phases of some codes; null for -1."""
    numbers = pl.Series(codes, dtype=pl.Int64)
    names: pl.Series = numbers.replace_strict(
        list(range(len(_PHASES))), _PHASES, default=None, return_dtype=pl.String
    )
    return names
