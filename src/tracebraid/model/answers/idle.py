"""Answers about idle time: when nothing runs on a device, and why."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP
from tracebraid.model.column import Column, Kind, Table

__all__ = [
    "IDLE_BLAME",
    "IDLE_CAUSES",
    "IDLE_GAPS",
    "STREAM_IDLE",
    "GapSize",
    "HostActivity",
    "IdleCause",
    "StreamGap",
]


class IdleCause(Enum):
    """Why a device is idle."""

    HOST_LATE = "host-late"
    GRAPH_LAUNCH = "graph-launch"
    LAUNCH_LATENCY = "launch-latency"
    STREAM_WAIT = "stream-wait"
    QUEUED = "queued"
    BLOCKED = "blocked"
    NO_MORE_WORK = "no-more-work"
    UNKNOWN = "unknown"


class HostActivity(Enum):
    """What the host did while it was late."""

    WAITED_FOR_DATA = "waited-for-data"
    SYNCHRONIZED = "synchronized"
    LAUNCHED = "launched"
    CALLED = "called"
    COMMUNICATED = "communicated"
    COMPUTED = "computed"
    PYTHON = "python"
    OUTSIDE_OF_OPS = "outside-of-ops"


class GapSize(Enum):
    """Whether a gap is of the size of a launch, or longer."""

    MICRO = "micro"
    MACRO = "macro"


class StreamGap(Enum):
    """What a stream waited for, by HTA's rule."""

    HOST_WAIT = "host_wait"
    KERNEL_WAIT = "kernel_wait"
    OTHER = "other"


_DEVICE = Column("device", Kind.TEXT, "device number; `cpu` for a trace without device work")
_CAUSE = Column("cause", Kind.TEXT, "a code of `IdleCause`")
_SIZE = Column("size", Kind.TEXT, "a code of `GapSize`, by the length of the whole gap")
_OP = Column("op", Kind.TEXT, "innermost op that the host ran; null: none")
_TOP_OP = Column("top_op", Kind.TEXT, "outermost op around it, or itself; null: none")
_ANNOTATION = Column("annotation", Kind.TEXT, "innermost annotation that is no step; null: none")
_MODULE = Column(
    "module",
    Kind.TEXT,
    "innermost nn.Module (`Linear_0`), in backward that of the forward op; null: none known",
)
_FRAME = Column(
    "frame", Kind.TEXT, "innermost Python frame of the user's, else any; null: none, or no stacks"
)

IDLE_GAPS = Table(
    "idle_gaps",
    "One row per part of a gap with one cause. All lengths add up to the idle time of `breakdown`, exactly.",
    (
        RANK,
        STEP,
        _DEVICE,
        Column("gap", Kind.INT, "number of the gap on its device, in the order of time"),
        Column("start_ns", Kind.INT, "start of the part"),
        Column("dur_ns", Kind.INT, "its length"),
        Column("gap_ns", Kind.INT, "length of the whole gap, beyond the step too"),
        _SIZE,
        _CAUSE,
        Column(
            "host_activity",
            Kind.TEXT,
            "a code of `HostActivity`: what the host did for most of the part; null: the work had been launched",
        ),
        Column(
            "host_activity_ns", Kind.INT, "for how much of the part; null where there is no `host_activity`"
        ),
        _OP,
        _TOP_OP,
        _ANNOTATION,
        _MODULE,
        _FRAME,
        Column(
            "sync_call",
            Kind.TEXT,
            "call or op that synchronized the host with the device when it ran dry; null: none",
        ),
        Column("next_event", Kind.INT, "the event that ended the gap; null: none"),
        Column("next_name", Kind.TEXT, "its name"),
        Column("next_stream", Kind.TEXT, "its stream, or its thread for `cpu`"),
        Column("next_call", Kind.TEXT, "name of the call that launched it; null: none in the trace"),
        Column("next_op", Kind.TEXT, "name of the op that launched it, for `cpu` its own; null: none"),
        DOUBTFUL,
    ),
)

IDLE_CAUSES = Table(
    "idle_causes",
    "One row per cause of idle time. The rows of a step and device add up to its idle time in `breakdown`, exactly.",
    (
        RANK,
        STEP,
        _DEVICE,
        _CAUSE,
        Column("host_activity", Kind.TEXT, "a code of `HostActivity`; null: the work had been launched"),
        _SIZE,
        Column("idle_ns", Kind.INT, "idle time"),
        Column("count", Kind.INT, "gaps in which it lies"),
        Column("share", Kind.FLOAT, "of all idle time of the step and device, 0 to 1"),
        Column(
            "after_sync_ns",
            Kind.INT,
            "how much of it lies in gaps that began while the host synchronized with the device",
        ),
        DOUBTFUL,
    ),
)

IDLE_BLAME = Table(
    "idle_blame",
    "One row per thing that the host did while it was late. All rows add up to the cause `host-late` of `idle_causes`.",
    (
        RANK,
        STEP,
        _DEVICE,
        Column("host_activity", Kind.TEXT, "a code of `HostActivity`; null: summed over all"),
        _OP,
        _TOP_OP,
        _ANNOTATION,
        _MODULE,
        _FRAME,
        Column(
            "next_op",
            Kind.TEXT,
            "where the host ran no op: the op that launched next; null: none, or it ran one",
        ),
        Column("idle_ns", Kind.INT, "idle time in which the host did that"),
        Column("count", Kind.INT, "gaps in which it lies"),
        Column("longest_ns", Kind.INT, "the most of it in a single gap"),
        Column("share", Kind.FLOAT, "of all idle time of the step and device, 0 to 1"),
        DOUBTFUL,
    ),
)

STREAM_IDLE = Table(
    "stream_idle",
    "One row per stream and kind of gap between consecutive work on it.",
    (
        RANK,
        STEP,
        Column("device", Kind.TEXT, "device number"),
        Column("stream", Kind.TEXT, "the stream"),
        Column("category", Kind.TEXT, "a code of `StreamGap`"),
        Column("idle_ns", Kind.INT, "sum of the gaps"),
        Column("share", Kind.FLOAT, "of all gaps of the stream, 0 to 1; null: they have no length"),
        Column("count", Kind.INT, "gaps, those without length too"),
        Column("mean_ns", Kind.FLOAT, "their mean"),
        Column("std_ns", Kind.FLOAT, "their standard deviation (n - 1); null for a single gap"),
        Column("min_ns", Kind.INT, "the shortest"),
        Column("p25_ns", Kind.FLOAT, "a quarter are no longer, interpolated"),
        Column("p50_ns", Kind.FLOAT, "half are no longer, interpolated"),
        Column("p75_ns", Kind.FLOAT, "three quarters are no longer, interpolated"),
        Column("max_ns", Kind.INT, "the longest"),
        DOUBTFUL,
    ),
)
