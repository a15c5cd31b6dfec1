"""The analyses of time."""

from __future__ import annotations

from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.analysis.time.exposed_collectives import exposed_collectives
from tracebraid.analysis.time.idle.catalog import ANALYSES as IDLE
from tracebraid.analysis.time.overlap import overlap
from tracebraid.analysis.time.step_spread import step_spread
from tracebraid.analysis.time.step_times import step_times
from tracebraid.analysis.time.steps import steps
from tracebraid.model.answers import (
    BREAKDOWN,
    EXPOSED_COLLECTIVES,
    OVERLAP,
    STEP_SPREAD,
    STEP_TIMES,
    STEPS,
)
from tracebraid.model.questions.analysis import Analysis, Family, Need

__all__ = ["ANALYSES"]

_WORK = (Need.DEVICE_WORK, Need.STEPS)

ANALYSES = (
    Analysis("steps", Family.TIME, steps, STEPS, needs=(Need.STEPS,)),
    Analysis(
        "step_times", Family.TIME, step_times, STEP_TIMES, needs=(Need.STEPS,), uses=(Need.DEVICE_WORK,)
    ),
    Analysis(
        "step_spread", Family.TIME, step_spread, STEP_SPREAD, needs=(Need.STEPS,), uses=(Need.DEVICE_WORK,)
    ),
    Analysis("breakdown", Family.TIME, breakdown, BREAKDOWN, uses=_WORK),
    Analysis(
        "overlap", Family.TIME, overlap, OVERLAP, needs=(Need.COMMUNICATION,), uses=(*_WORK, Need.COLLECTIVES)
    ),
    Analysis(
        "exposed_collectives",
        Family.TIME,
        exposed_collectives,
        EXPOSED_COLLECTIVES,
        needs=(Need.COMMUNICATION,),
        uses=(*_WORK, Need.COLLECTIVES),
    ),
    *IDLE,
)
