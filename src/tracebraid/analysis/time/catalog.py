"""The analyses of time."""

from __future__ import annotations

from tracebraid.analysis.time.breakdown import breakdown
from tracebraid.analysis.time.idle.idle_blame import idle_blame
from tracebraid.analysis.time.idle.idle_causes import idle_causes
from tracebraid.analysis.time.idle.idle_gaps import idle_gaps
from tracebraid.analysis.time.idle.stream_idle import stream_idle
from tracebraid.analysis.time.steps import steps
from tracebraid.model.analysis import Analysis, Family, Need
from tracebraid.model.answers import BREAKDOWN, IDLE_BLAME, IDLE_CAUSES, IDLE_GAPS, STEPS, STREAM_IDLE

__all__ = ["ANALYSES"]

_OF_IDLE = (Need.DEVICE_WORK, Need.STEPS, Need.STACKS, Need.MODULES, Need.SYNC_EVENTS)

ANALYSES = (
    Analysis("steps", Family.TIME, steps, STEPS, needs=(Need.STEPS,)),
    Analysis("breakdown", Family.TIME, breakdown, BREAKDOWN, uses=(Need.DEVICE_WORK, Need.STEPS)),
    Analysis("idle_causes", Family.TIME, idle_causes, IDLE_CAUSES, uses=_OF_IDLE),
    Analysis("idle_blame", Family.TIME, idle_blame, IDLE_BLAME, uses=_OF_IDLE),
    Analysis("idle_gaps", Family.TIME, idle_gaps, IDLE_GAPS, uses=_OF_IDLE),
    Analysis(
        "stream_idle", Family.TIME, stream_idle, STREAM_IDLE, needs=(Need.DEVICE_WORK,), uses=(Need.STEPS,)
    ),
)
