"""The analyses of launches, queues, copies and synchronisation."""

from __future__ import annotations

from tracebraid.analysis.launches.copies.copies import copies
from tracebraid.analysis.launches.copies.copy_bandwidth import copy_bandwidth
from tracebraid.analysis.launches.copies.copy_bandwidth_series import copy_bandwidth_series
from tracebraid.analysis.launches.counters import counters
from tracebraid.analysis.launches.launch_bound import launch_bound
from tracebraid.analysis.launches.launch_events import launch_events
from tracebraid.analysis.launches.launches import launches
from tracebraid.analysis.launches.queues.full_queue import full_queue
from tracebraid.analysis.launches.queues.queue_lengths import queue_lengths
from tracebraid.analysis.launches.queues.queue_series import queue_series
from tracebraid.analysis.launches.syncs.sync_calls import sync_calls
from tracebraid.analysis.launches.syncs.syncs import syncs
from tracebraid.model.answers import (
    COPIES,
    COPY_BANDWIDTH,
    COPY_BANDWIDTH_SERIES,
    COUNTERS,
    FULL_QUEUE,
    LAUNCH_BOUND,
    LAUNCH_EVENTS,
    LAUNCHES,
    QUEUE_LENGTHS,
    QUEUE_SERIES,
    SYNC_CALLS,
    SYNCS,
)
from tracebraid.model.questions.analysis import Analysis, Family, Need

__all__ = ["ANALYSES"]

_FAMILY = Family.LAUNCHES
_WORK = (Need.DEVICE_WORK,)

ANALYSES = (
    Analysis("launches", _FAMILY, launches, LAUNCHES, needs=_WORK, uses=(Need.HOST_OPS,)),
    Analysis("launch_events", _FAMILY, launch_events, LAUNCH_EVENTS, needs=_WORK, uses=(Need.HOST_OPS,)),
    Analysis("launch_bound", _FAMILY, launch_bound, LAUNCH_BOUND, needs=_WORK, uses=(Need.HOST_OPS,)),
    Analysis("queue_lengths", _FAMILY, queue_lengths, QUEUE_LENGTHS, needs=_WORK),
    Analysis("queue_series", _FAMILY, queue_series, QUEUE_SERIES, needs=_WORK),
    Analysis("full_queue", _FAMILY, full_queue, FULL_QUEUE, needs=_WORK),
    Analysis("copies", _FAMILY, copies, COPIES, needs=_WORK, uses=(Need.HOST_OPS,)),
    Analysis("copy_bandwidth", _FAMILY, copy_bandwidth, COPY_BANDWIDTH, needs=_WORK),
    Analysis("copy_bandwidth_series", _FAMILY, copy_bandwidth_series, COPY_BANDWIDTH_SERIES, needs=_WORK),
    Analysis(
        "syncs", _FAMILY, syncs, SYNCS, uses=(Need.DEVICE_WORK, Need.HOST_OPS, Need.STACKS, Need.SYNC_EVENTS)
    ),
    Analysis(
        "sync_calls",
        _FAMILY,
        sync_calls,
        SYNC_CALLS,
        uses=(Need.DEVICE_WORK, Need.HOST_OPS, Need.STACKS, Need.SYNC_EVENTS),
    ),
    Analysis("counters", _FAMILY, counters, COUNTERS, needs=(Need.COUNTERS,), uses=(Need.HOST_OPS,)),
)
