"""Answers about time."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.efficiency import DOUBTFUL, RANK, STEP
from tracebraid.model.column import Column, Kind, Table


class FirstTimeWork(Enum):
    """Work of a first execution, which makes its step slow."""

    COMPILE = "compile"
    DEVICE_MALLOC = "device-malloc"
    MODULE_LOAD = "module-load"


class StepPart(Enum):
    """Measured part of a step."""

    SPAN = "span"
    COMPUTE = "compute"
    EXPOSED_COMMUNICATION = "exposed_communication"
    EXPOSED_MEMORY = "exposed_memory"
    IDLE = "idle"
    GAP = "gap"


STEPS = Table(
    "steps",
    "One row per step: an occurrence of the annotation that marks steps, on the host.",
    (
        RANK,
        Column("step", Kind.TEXT, "the annotation's name, such as `ProfilerStep#5`"),
        Column("start_ns", Kind.INT, "start"),
        Column("end_ns", Kind.INT, "end"),
        DOUBTFUL,
    ),
)

BREAKDOWN = Table(
    "breakdown",
    "One row per rank, step and device. compute + exposed_communication + exposed_memory + idle = span, exactly.",
    (
        RANK,
        STEP,
        Column("device", Kind.TEXT, "device number; `cpu` for a trace without device work"),
        Column("start_ns", Kind.INT, "start of the span"),
        Column("span_ns", Kind.INT, "its length: the step, or from the device's first event to its last"),
        Column("compute_ns", Kind.INT, "time in which something computes"),
        Column("communication_ns", Kind.INT, "time in which some communication runs"),
        Column("memory_ns", Kind.INT, "time in which something is copied or filled"),
        Column("overlap_ns", Kind.INT, "communication hidden behind compute"),
        Column("exposed_communication_ns", Kind.INT, "communication while nothing computes"),
        Column("exposed_memory_ns", Kind.INT, "copies while nothing computes or communicates"),
        Column("idle_ns", Kind.INT, "time in which none of the three runs"),
        DOUBTFUL,
    ),
)

STEP_TIMES = Table(
    "step_times",
    "One row per step and device. compute + exposed_communication + exposed_memory + idle = span, exactly.",
    (
        RANK,
        Column("step", Kind.TEXT, "the step, by its annotation's name"),
        Column("device", Kind.TEXT, "device number; `cpu` for a trace without device work"),
        Column("start_ns", Kind.INT, "end of the step before; of the first, its start"),
        Column("span_ns", Kind.INT, "its length"),
        Column(
            "gap_ns",
            Kind.INT,
            "from the end of its annotation to the next start of one; below 0: they overlap; null: the last",
        ),
        Column("compute_ns", Kind.INT, "time in which something computes"),
        Column("exposed_communication_ns", Kind.INT, "communication while nothing computes"),
        Column("exposed_memory_ns", Kind.INT, "copies while nothing computes or communicates"),
        Column("idle_ns", Kind.INT, "time in which none of the three runs"),
        Column("warmup", Kind.BOOL, "it is one of the first steps, and slower than the later half by far"),
        Column(
            "first_time_work",
            Kind.TEXT,
            "work in it that explains a warm-up: values of `FirstTimeWork`, separated by commas; null: none",
        ),
        DOUBTFUL,
    ),
)

STEP_SPREAD = Table(
    "step_spread",
    "One row per device and part of the step: how it differs between the steps that are counted.",
    (
        RANK,
        Column("device", Kind.TEXT, "device number; `cpu` for a trace without device work"),
        Column("part", Kind.TEXT, "a value of `StepPart`: a column of `step_times`"),
        Column("count", Kind.INT, "steps that are counted"),
        Column("mean_ns", Kind.FLOAT, "mean"),
        Column("median_ns", Kind.FLOAT, "median"),
        Column("std_ns", Kind.FLOAT, "standard deviation of the sample (n - 1); null: a single step"),
        Column("p95_ns", Kind.FLOAT, "95th percentile, interpolated between steps"),
        Column("min_ns", Kind.INT, "least"),
        Column("max_ns", Kind.INT, "most"),
        Column(
            "variation", Kind.FLOAT, "coefficient of variation: std / mean; null: a single step, or mean 0"
        ),
        Column("warmup_left_out", Kind.INT, "warm-up steps that are not counted"),
        Column("doubtful_left_out", Kind.INT, "doubtful steps that are not counted"),
    ),
)

_PROCESS_GROUP = Column("process_group", Kind.TEXT, "name of the process group; null: the file does not say")
_DESCRIPTION = Column("description", Kind.TEXT, "the process group's description; null: the file has none")

OVERLAP = Table(
    "overlap",
    "One row per step and device over all its communication, then one per process group and stream.",
    (
        RANK,
        STEP,
        Column("device", Kind.TEXT, "device number; `cpu` for a trace without device work"),
        Column(
            "process_group",
            Kind.TEXT,
            "name of the process group; null: over all, or where `stream` is not null: the file does not say",
        ),
        _DESCRIPTION,
        Column("stream", Kind.TEXT, "stream, or thread of the host; null: over all"),
        Column(
            "count",
            Kind.INT,
            "collectives that run in it, even if in part; 0: ops that ask a backend, whose ranges count",
        ),
        Column("communication_ns", Kind.INT, "time in which some of them runs"),
        Column("overlap_ns", Kind.INT, "of it, hidden: something computes on the device, on any stream"),
        Column("exposed_ns", Kind.INT, "of it, exposed: nothing computes; communication - overlap"),
        Column("overlap_share", Kind.FLOAT, "overlap / communication, 0 to 1; null: no communication"),
        DOUBTFUL,
    ),
)

EXPOSED_COLLECTIVES = Table(
    "exposed_collectives",
    "One row per collective: operation, process group, type and size; the most exposed first. Its `exposed_ns` of a "
    "step and device add up to `exposed_communication_ns` in `breakdown`, exactly.",
    (
        RANK,
        STEP,
        Column("device", Kind.TEXT, "device number; `cpu` for a trace without device work"),
        Column("name", Kind.TEXT, "as in the collective's arguments; else the op's name, else the kernel's"),
        _PROCESS_GROUP,
        _DESCRIPTION,
        Column("dtype", Kind.TEXT, "element type, as in the file; null: not recorded"),
        Column("message_bytes", Kind.INT, "the larger of input and output, in bytes; null: not recorded"),
        Column(
            "count",
            Kind.INT,
            "how often it ran in the step, even if in part; 0: an op that asks a backend, whose ranges count",
        ),
        Column("total_ns", Kind.INT, "sum of its durations in the step"),
        Column(
            "exposed_ns",
            Kind.INT,
            "of it, while nothing computes, and no collective counts that began before",
        ),
        Column("share", Kind.FLOAT, "of all exposed communication of the step, 0 to 1; null: there is none"),
        DOUBTFUL,
    ),
)


class IdleCause(Enum):
    """Cause of a device's idle time."""

    HOST_LATE = "host-late"
    GRAPH_LAUNCH = "graph-launch"
    LAUNCH_LATENCY = "launch-latency"
    STREAM_WAIT = "stream-wait"
    QUEUED = "queued"
    BLOCKED = "blocked"
    NO_MORE_WORK = "no-more-work"
    UNKNOWN = "unknown"


class HostActivity(Enum):
    """Host activity while it was late."""

    WAITED_FOR_DATA = "waited-for-data"
    SYNCHRONIZED = "synchronized"
    LAUNCHED = "launched"
    CALLED = "called"
    COMMUNICATED = "communicated"
    COMPUTED = "computed"
    PYTHON = "python"
    OUTSIDE_OF_OPS = "outside-of-ops"


class GapSize(Enum):
    """Size of a gap: that of a launch, or longer."""

    MICRO = "micro"
    MACRO = "macro"


class StreamGap(Enum):
    """Cause of a stream's wait, by HTA's rule."""

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
            "a code of `HostActivity`: the main host activity of the part; null: the work had been launched",
        ),
        Column("host_activity_ns", Kind.INT, "its time in the part; null without `host_activity`"),
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
            "if the host ran no op: the op that launched next; null: none, or it ran one",
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
