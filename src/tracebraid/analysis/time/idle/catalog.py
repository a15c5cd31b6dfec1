"""The analyses of idle time."""

from __future__ import annotations

from tracebraid.analysis.time.idle.idle_blame import idle_blame
from tracebraid.analysis.time.idle.idle_causes import idle_causes
from tracebraid.analysis.time.idle.idle_gaps import idle_gaps
from tracebraid.analysis.time.idle.stream_idle import stream_idle
from tracebraid.model.answers import IDLE_BLAME, IDLE_CAUSES, IDLE_GAPS, STREAM_IDLE
from tracebraid.model.questions.analysis import Analysis, Family, Need

__all__ = ["ANALYSES"]

_USES = (Need.DEVICE_WORK, Need.STEPS, Need.STACKS, Need.MODULES, Need.SYNC_EVENTS)

ANALYSES = (
    Analysis("idle_causes", Family.TIME, idle_causes, IDLE_CAUSES, uses=_USES),
    Analysis("idle_blame", Family.TIME, idle_blame, IDLE_BLAME, uses=_USES),
    Analysis("idle_gaps", Family.TIME, idle_gaps, IDLE_GAPS, uses=_USES),
    Analysis(
        "stream_idle", Family.TIME, stream_idle, STREAM_IDLE, needs=(Need.DEVICE_WORK,), uses=(Need.STEPS,)
    ),
)
