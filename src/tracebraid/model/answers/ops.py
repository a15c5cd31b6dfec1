"""Answers about ops, annotations, modules and Python functions."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP_OF_LAUNCH, STEP_OF_OP
from tracebraid.model.column import Column, Kind, Table

__all__ = [
    "ANNOTATION_KERNELS",
    "MODULES",
    "OPS",
    "PYTHON_FRAMES",
    "USER_ANNOTATIONS",
    "ModuleSource",
    "OpKey",
]


class OpKey(Enum):
    """What ops may be grouped by."""

    NAME = "name"
    SHAPES = "shapes"
    TYPES = "types"
    STRIDES = "strides"
    CONCRETE_INPUTS = "concrete_inputs"
    CALL_SITE = "call_site"
    MODULE = "module"
    ANNOTATION = "annotation"


class ModuleSource(Enum):
    """What the modules of a trace are known from."""

    MODULE_EVENTS = "module-events"
    MODULE_HIERARCHY = "module-hierarchy"
    STACKS = "stacks"


def _spread(prefix: str, of: str) -> tuple[Column, ...]:
    """The columns that say how a time is spread over what a row counts."""
    return (
        Column(f"{prefix}_mean_ns", Kind.FLOAT, f"mean of {of}"),
        Column(f"{prefix}_median_ns", Kind.FLOAT, f"median of {of}"),
        Column(f"{prefix}_p95_ns", Kind.FLOAT, f"95th percentile of {of}, interpolated linearly"),
        Column(f"{prefix}_min_ns", Kind.INT, f"least of {of}"),
        Column(f"{prefix}_max_ns", Kind.INT, f"greatest of {of}"),
    )


_OF_OPS = "the total {} time of each op, without those inside another of the row"

OPS = Table(
    "ops",
    "One row per group of ops, by name and input shapes or as asked for, the most device time first, then the most "
    "host time.",
    (
        RANK,
        STEP_OF_OP,
        Column("name", Kind.TEXT, "the op's name; null: not grouped by"),
        Column("category", Kind.TEXT, "`cpu_op` or `user_annotation`; null: not grouped by name"),
        Column(
            "input_dims", Kind.TEXT, "shapes of the inputs, as JSON; null: not recorded, or not grouped by"
        ),
        Column("input_types", Kind.TEXT, "their types, as JSON; null: not recorded, or not grouped by"),
        Column(
            "input_strides",
            Kind.TEXT,
            "their strides in elements, as JSON; null: not recorded, or not grouped by",
        ),
        Column(
            "concrete_inputs",
            Kind.TEXT,
            "values of the scalar inputs, as JSON; null: not recorded, or not grouped by",
        ),
        Column(
            "call_site",
            Kind.TEXT,
            "`file(line): function`, the user's innermost function around it; null: unknown, or not grouped by",
        ),
        Column("module", Kind.TEXT, "path of its module; null: in none, or not grouped by"),
        Column(
            "annotation",
            Kind.TEXT,
            "annotations around it, the outermost first, joined by ` > `; null: none but steps, or not grouped by",
        ),
        Column("count", Kind.INT, "how often they ran"),
        Column("host_self_ns", Kind.INT, "host time in them and in no op inside them"),
        Column("host_total_ns", Kind.INT, "host time in them, ops inside included"),
        *_spread("host", _OF_OPS.format("host")),
        Column("kernels", Kind.INT, "device events that they launched themselves"),
        Column("device_self_ns", Kind.INT, "duration of those"),
        Column("device_total_ns", Kind.INT, "duration of all that they and the ops inside them launched"),
        *_spread("device", _OF_OPS.format("device")),
        DOUBTFUL,
    ),
)

_OF_ANNOTATIONS = "the total host time of each, without those inside another of the row"

USER_ANNOTATIONS = Table(
    "user_annotations",
    "One row per name of an annotation, the most device time first, then the most host time.",
    (
        RANK,
        STEP_OF_OP,
        Column("name", Kind.TEXT, "the annotation's name"),
        Column("count", Kind.INT, "how often the host was in it; 0: the trace has it for the device only"),
        Column("host_self_ns", Kind.INT, "host time in it and in no annotation inside it, on its thread"),
        Column("host_total_ns", Kind.INT, "host time in it"),
        *_spread("host", _OF_ANNOTATIONS),
        Column("kernels", Kind.INT, "device events launched in it and in no annotation inside it"),
        Column("device_self_ns", Kind.INT, "duration of those"),
        Column("kernels_total", Kind.INT, "device events launched in it"),
        Column("device_total_ns", Kind.INT, "duration of those"),
        Column("device_busy_ns", Kind.INT, "time in which at least one of those ran, on each device"),
        Column("device_ranges", Kind.INT, "ranges of that name on the device (`gpu_user_annotation`)"),
        Column("device_range_ns", Kind.INT, "sum of their durations; null: none, as all that follow"),
        Column("device_range_mean_ns", Kind.FLOAT, "mean duration"),
        Column("device_range_min_ns", Kind.INT, "shortest"),
        Column("device_range_max_ns", Kind.INT, "longest"),
        DOUBTFUL,
    ),
)

ANNOTATION_KERNELS = Table(
    "annotation_kernels",
    "One row per stack of annotations and device event launched in it, the longest in total first. "
    "The rows of a step add up to the device's time.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column(
            "annotations",
            Kind.TEXT,
            "annotations around the launch, the outermost first, joined by ` > `; null: none but steps",
        ),
        Column("depth", Kind.INT, "how many they are"),
        Column("kind", Kind.TEXT, "compute, communication, memory or wait"),
        Column("name", Kind.TEXT, "name of the kernel or copy"),
        Column("count", Kind.INT, "how often it ran"),
        Column("total_ns", Kind.INT, "sum of its durations"),
        Column("mean_ns", Kind.FLOAT, "mean duration"),
        Column("min_ns", Kind.INT, "shortest"),
        Column("max_ns", Kind.INT, "longest"),
        Column("share", Kind.FLOAT, "of the sum of all device events' durations, 0 to 1"),
        DOUBTFUL,
    ),
)

_STEP_OF_EVENT = Column(
    "step",
    Kind.TEXT,
    "the step in which host events started and device events were launched; null: the whole trace, or by step: in none",
)

MODULES = Table(
    "modules",
    "One row per nn.Module by its path, each before the modules in it, siblings in the order of their first calls; "
    "last what is in no module. Self times add up to the whole, and each total is self and the totals of the modules "
    "directly inside.",
    (
        RANK,
        _STEP_OF_EVENT,
        Column(
            "path", Kind.TEXT, "names of the modules around it and its own, joined by `/`; null: no module"
        ),
        Column("depth", Kind.INT, "number of modules around it; null: no module"),
        Column("class_name", Kind.TEXT, "its class; null: unknown, or no module"),
        Column(
            "source", Kind.TEXT, "what the modules are known from: a code of `ModuleSource`; null: nothing"
        ),
        Column("calls", Kind.INT, "how often it was called; null: not in the trace, or no module"),
        Column(
            "host_forward_self_ns",
            Kind.INT,
            "host time in its forward function and in no module inside it; no module: outside of backward ops",
        ),
        Column("host_forward_total_ns", Kind.INT, "the same with the modules inside it"),
        Column("host_backward_self_ns", Kind.INT, "host time in the backward ops of what ran directly in it"),
        Column("host_backward_total_ns", Kind.INT, "the same with the modules inside it"),
        Column("device_forward_self_ns", Kind.INT, "duration of what was launched in that forward time"),
        Column("device_forward_total_ns", Kind.INT, "the same with the modules inside it"),
        Column("device_backward_self_ns", Kind.INT, "duration of what was launched in that backward time"),
        Column("device_backward_total_ns", Kind.INT, "the same with the modules inside it"),
        Column(
            "device_recompute_total_ns",
            Kind.INT,
            "that part of `device_forward_total_ns` that ran again in a backward pass, as checkpointing does",
        ),
        Column("kernels_self", Kind.INT, "device events launched in it, forward and backward"),
        Column("kernels_total", Kind.INT, "the same with the modules inside it"),
        Column(
            "share",
            Kind.FLOAT,
            "device time, forward and backward, of that of the step, 0 to 1; null: there is none",
        ),
        DOUBTFUL,
    ),
)

PYTHON_FRAMES = Table(
    "python_frames",
    "One row per Python function, the most device time first, then the most host time. Self times add up to the whole.",
    (
        RANK,
        _STEP_OF_EVENT,
        Column(
            "name",
            Kind.TEXT,
            "`file(line): function`, a built-in function without its address, or a module call; null: in no function",
        ),
        Column("is_user", Kind.BOOL, "whether it is a user's: neither PyTorch's nor Python's own"),
        Column("calls", Kind.INT, "how often it was called"),
        Column("host_self_ns", Kind.INT, "host time in it and in no Python function inside it; ops count"),
        Column("host_total_ns", Kind.INT, "host time in it; `host_self_ns` in no function"),
        Column("kernels", Kind.INT, "device events launched in it and in no Python function inside it"),
        Column("device_self_ns", Kind.INT, "duration of those"),
        Column(
            "device_total_ns", Kind.INT, "duration of all launched in it; `device_self_ns` in no function"
        ),
        DOUBTFUL,
    ),
)
