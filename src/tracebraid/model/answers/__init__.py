"""The tables that analyses answer with: a module for each family of `analysis/`."""

from __future__ import annotations

from tracebraid.model.answers.copies import (
    COPIES,
    COPY_BANDWIDTH,
    COPY_BANDWIDTH_SERIES,
    CopyKind,
    Direction,
    HostWait,
)
from tracebraid.model.answers.counters import COUNTERS, CounterMethod
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
from tracebraid.model.answers.inference import (
    BATCH_SIZES,
    GRAPH_REPLAYS,
    INFERENCE_PHASES,
    TOKEN_TIMES,
    Phase,
    PhaseEvidence,
)
from tracebraid.model.answers.kernels import KERNELS, LAUNCHERS, Launcher
from tracebraid.model.answers.launches import LAUNCH_BOUND, LAUNCH_EVENTS, LAUNCHES, STEP_OF_EVENT
from tracebraid.model.answers.ops import OPS
from tracebraid.model.answers.queues import FULL_QUEUE, QUEUE_LENGTHS, QUEUE_SERIES
from tracebraid.model.answers.syncs import SYNC_CALLS, SYNCS, SyncKind, WaitMethod
from tracebraid.model.answers.time import BREAKDOWN, STEPS
from tracebraid.model.answers.validity import VALIDITY, Doubt

__all__ = [
    "BATCH_SIZES",
    "BREAKDOWN",
    "COPIES",
    "COPY_BANDWIDTH",
    "COPY_BANDWIDTH_SERIES",
    "COUNTERS",
    "FULL_QUEUE",
    "GRAPH_REPLAYS",
    "IDLE_BLAME",
    "IDLE_CAUSES",
    "IDLE_GAPS",
    "INFERENCE_PHASES",
    "KERNELS",
    "LAUNCHERS",
    "LAUNCHES",
    "LAUNCH_BOUND",
    "LAUNCH_EVENTS",
    "OPS",
    "QUEUE_LENGTHS",
    "QUEUE_SERIES",
    "STEPS",
    "STEP_OF_EVENT",
    "STREAM_IDLE",
    "SYNCS",
    "SYNC_CALLS",
    "TOKEN_TIMES",
    "VALIDITY",
    "CopyKind",
    "CounterMethod",
    "Direction",
    "Doubt",
    "GapSize",
    "HostActivity",
    "HostWait",
    "IdleCause",
    "Launcher",
    "Phase",
    "PhaseEvidence",
    "StreamGap",
    "SyncKind",
    "WaitMethod",
]
