"""The analyses of time."""

from __future__ import annotations

from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.analysis.time.idle.catalog import ANALYSES as IDLE
from tracebraid.analysis.time.steps import steps
from tracebraid.model.analysis import Analysis, Family, Need
from tracebraid.model.answers import BREAKDOWN, STEPS

__all__ = ["ANALYSES"]

ANALYSES = (
    Analysis("steps", Family.TIME, steps, STEPS, needs=(Need.STEPS,)),
    Analysis("breakdown", Family.TIME, breakdown, BREAKDOWN, uses=(Need.DEVICE_WORK, Need.STEPS)),
    *IDLE,
)
