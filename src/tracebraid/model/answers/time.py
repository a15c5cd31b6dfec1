"""Answers about time."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers import DOUBTFUL, RANK, STEP
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
        Column(
            "exposed_communication_ns", Kind.INT, "communication while nothing computes; null: nobody knows"
        ),
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
