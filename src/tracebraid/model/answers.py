"""The tables that analyses answer with."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.column import Column, Kind, Table

__all__ = ["BREAKDOWN", "KERNELS", "LAUNCHERS", "OPS", "STEPS", "Launcher"]


class Launcher(Enum):
    """What launched work of a device; the first that fits counts."""

    GRAPH = "graph"
    OP = "op"
    ANNOTATION = "annotation"
    CALL = "call"
    UNKNOWN = "unknown"


_INT, _FLOAT, _TEXT, _JSON = Kind.INT, Kind.FLOAT, Kind.TEXT, Kind.JSON
_RANK = Column("rank", _INT, "the rank")
_STEP = Column("step", _TEXT, "the step, by its annotation's name; null: the whole trace")
_STEP_OF_LAUNCH = Column(
    "step",
    _TEXT,
    "the step of the launch; null: the whole trace, or by step: launched in none, or no launch is known",
)
_STEP_OF_OP = Column(
    "step", _TEXT, "the step in which they started; null: the whole trace, or by step: in none"
)

STEPS = Table(
    "steps",
    "One row per step: an occurrence of the annotation that marks steps, on the host.",
    (
        _RANK,
        Column("step", _TEXT, "the annotation's name, such as `ProfilerStep#5`"),
        Column("start_ns", _INT, "start"),
        Column("end_ns", _INT, "end"),
    ),
)

BREAKDOWN = Table(
    "breakdown",
    "One row per rank, step and device. compute + exposed_communication + exposed_memory + idle = span, exactly.",
    (
        _RANK,
        _STEP,
        Column("device", _TEXT, "device number; `cpu` for a trace without device work"),
        Column("start_ns", _INT, "start of the span"),
        Column("span_ns", _INT, "its length: the step, or from the device's first event to its last"),
        Column("compute_ns", _INT, "time in which something computes"),
        Column("communication_ns", _INT, "time in which some communication runs"),
        Column("memory_ns", _INT, "time in which something is copied or filled"),
        Column("overlap_ns", _INT, "communication hidden behind compute"),
        Column("exposed_communication_ns", _INT, "communication while nothing computes"),
        Column("exposed_memory_ns", _INT, "copies while nothing computes or communicates"),
        Column("idle_ns", _INT, "time in which none of the three runs"),
    ),
)

KERNELS = Table(
    "kernels",
    "One row per kind and name of device event, the longest in total first.",
    (
        _RANK,
        _STEP_OF_LAUNCH,
        Column("kind", _TEXT, "compute, communication, memory or wait"),
        Column("name", _TEXT, "name of the kernel or copy"),
        Column("count", _INT, "how often it ran"),
        Column("total_ns", _INT, "sum of its durations"),
        Column("mean_ns", _FLOAT, "mean duration"),
        Column("min_ns", _INT, "shortest"),
        Column("max_ns", _INT, "longest"),
        Column("share", _FLOAT, "of the sum of all device events' durations, 0 to 1"),
    ),
)

LAUNCHERS = Table(
    "launchers",
    "One row per kind of launcher: how much of the device's time it launched. The rows of a step add up to it.",
    (
        _RANK,
        _STEP_OF_LAUNCH,
        Column("launcher", _TEXT, "`graph`, `op`, `annotation`, `call` or `unknown`: see `Launcher`"),
        Column("kernels", _INT, "device events that it launched"),
        Column("device_ns", _INT, "sum of their durations"),
        Column("share", _FLOAT, "of the sum of all device events' durations, 0 to 1"),
    ),
)

OPS = Table(
    "ops",
    "One row per op name and input shapes, the most device time first, then the most host time.",
    (
        _RANK,
        _STEP_OF_OP,
        Column("name", _TEXT, "the op's name"),
        Column("category", _TEXT, "`cpu_op` or `user_annotation`"),
        Column("input_dims", _TEXT, "shapes of the inputs, as JSON; null where none were recorded"),
        Column("count", _INT, "how often it ran"),
        Column("host_self_ns", _INT, "host time in it and in no op inside it"),
        Column("host_total_ns", _INT, "host time in it, ops inside included"),
        Column("kernels", _INT, "device events that it launched itself"),
        Column("device_self_ns", _INT, "duration of those"),
        Column("device_total_ns", _INT, "duration of all that it and the ops inside it launched"),
    ),
)
