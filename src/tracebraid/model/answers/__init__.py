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
from tracebraid.model.answers.inference import (
    BATCH_SIZES,
    GRAPH_REPLAYS,
    INFERENCE_PHASES,
    TOKEN_TIMES,
    Phase,
    PhaseEvidence,
)
from tracebraid.model.answers.kernel_sequences import (
    GRAPH_KERNELS,
    KERNEL_SEQUENCES,
    OP_KERNEL_SEQUENCES,
    CaptureMatch,
)
from tracebraid.model.answers.kernels import (
    KERNEL_DURATIONS,
    KERNEL_FAMILIES,
    KERNEL_PACE,
    KERNELS,
    KERNELS_BY_OP,
    LAUNCHERS,
    SHORT_KERNELS,
    Launcher,
)
from tracebraid.model.answers.launches import LAUNCH_BOUND, LAUNCH_EVENTS, LAUNCHES, STEP_OF_EVENT
from tracebraid.model.answers.ops import OPS
from tracebraid.model.answers.queues import FULL_QUEUE, QUEUE_LENGTHS, QUEUE_SERIES
from tracebraid.model.answers.syncs import SYNC_CALLS, SYNCS, SyncKind, WaitMethod
from tracebraid.model.answers.time import (
    BREAKDOWN,
    EXPOSED_COLLECTIVES,
    OVERLAP,
    STEP_SPREAD,
    STEP_TIMES,
    STEPS,
    FirstTimeWork,
    StepPart,
)
from tracebraid.model.answers.validity import VALIDITY, Doubt

__all__ = [
    "BATCH_SIZES",
    "BREAKDOWN",
    "COPIES",
    "COPY_BANDWIDTH",
    "COPY_BANDWIDTH_SERIES",
    "COUNTERS",
    "EXPOSED_COLLECTIVES",
    "FULL_QUEUE",
    "GRAPH_KERNELS",
    "GRAPH_REPLAYS",
    "INFERENCE_PHASES",
    "KERNELS",
    "KERNELS_BY_OP",
    "KERNEL_DURATIONS",
    "KERNEL_FAMILIES",
    "KERNEL_PACE",
    "KERNEL_SEQUENCES",
    "LAUNCHERS",
    "LAUNCHES",
    "LAUNCH_BOUND",
    "LAUNCH_EVENTS",
    "OPS",
    "OP_KERNEL_SEQUENCES",
    "OVERLAP",
    "QUEUE_LENGTHS",
    "QUEUE_SERIES",
    "SHORT_KERNELS",
    "STEPS",
    "STEP_OF_EVENT",
    "STEP_SPREAD",
    "STEP_TIMES",
    "SYNCS",
    "SYNC_CALLS",
    "TOKEN_TIMES",
    "VALIDITY",
    "CaptureMatch",
    "CopyKind",
    "CounterMethod",
    "Direction",
    "Doubt",
    "FirstTimeWork",
    "HostWait",
    "Launcher",
    "Phase",
    "PhaseEvidence",
    "StepPart",
    "SyncKind",
    "WaitMethod",
]
