"""Answers about time."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP
from tracebraid.model.column import Column, Kind, Table

__all__ = [
    "BREAKDOWN",
    "EXPOSED_COLLECTIVES",
    "OVERLAP",
    "STEPS",
    "STEP_SPREAD",
    "STEP_TIMES",
    "FirstTimeWork",
    "StepPart",
]


class FirstTimeWork(Enum):
    """Work that is done when something runs for the first time, and makes that step slow."""

    COMPILE = "compile"
    DEVICE_MALLOC = "device-malloc"
    MODULE_LOAD = "module-load"


class StepPart(Enum):
    """What of a step is measured."""

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
        Column("start_ns", Kind.INT, "start of the step on the host"),
        Column("span_ns", Kind.INT, "its length"),
        Column(
            "gap_ns",
            Kind.INT,
            "from its end to the next start of a step; below 0: they overlap; null: the last",
        ),
        Column("compute_ns", Kind.INT, "time in which something computes"),
        Column("exposed_communication_ns", Kind.INT, "communication while nothing computes"),
        Column("exposed_memory_ns", Kind.INT, "copies while nothing computes or communicates"),
        Column("idle_ns", Kind.INT, "time in which none of the three runs"),
        Column("warmup", Kind.BOOL, "it is one of the first steps, and slower than the later half by far"),
        Column(
            "first_time_work",
            Kind.TEXT,
            "what began in it that explains a warm-up: values of `FirstTimeWork`, by commas; null: nothing of them",
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
