"""Answers about ops, annotations, modules and Python functions."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers import DOUBTFUL, RANK, STEP_OF_OP
from tracebraid.model.column import Column, Kind, Table


class ModuleSource(Enum):
    """Source of the modules of a trace."""

    MODULE_EVENTS = "module-events"
    MODULE_HIERARCHY = "module-hierarchy"
    STACKS = "stacks"


def _spread(prefix: str, of: str) -> tuple[Column, ...]:
    """Columns of the distribution of a time over the items of a row."""
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
        Column("source", Kind.TEXT, "source of the modules: a code of `ModuleSource`; null: none"),
        Column("calls", Kind.INT, "how often it was called; null: not in the trace, or no module"),
        Column(
            "host_forward_self_ns",
            Kind.INT,
            "host time in its forward function and in no module inside it; no module: outside of backward ops",
        ),
        Column("host_forward_total_ns", Kind.INT, "the same with the modules inside it"),
        Column("host_backward_self_ns", Kind.INT, "host time in the backward ops of its direct ops"),
        Column("host_backward_total_ns", Kind.INT, "the same with the modules inside it"),
        Column("device_forward_self_ns", Kind.INT, "duration of launches in that forward time"),
        Column("device_forward_total_ns", Kind.INT, "the same with the modules inside it"),
        Column("device_backward_self_ns", Kind.INT, "duration of launches in that backward time"),
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


class OpNode(Enum):
    """Kind of a node."""

    OP = "op"
    ANNOTATION = "annotation"
    DEVICE_WORK = "device work"


class OpEdge(Enum):
    """Kind of an edge."""

    CALL = "call"
    """The second runs inside the first, directly among ops and annotations."""
    LAUNCH = "launch"
    """The first launched the second on a device."""
    DATA = "data"
    """The second reads the output of the first, by the Execution Trace."""
    FORWARD_BACKWARD = "forward_backward"
    """The second is the backward op of the first."""


OP_GRAPH_NODES = Table(
    "op_graph_nodes",
    "One row per op, annotation, and event of a device.",
    (
        Column("rank", Kind.INT, "the rank"),
        Column("event_id", Kind.INT, "the event: its row in `events` of the rank"),
        Column("kind", Kind.TEXT, "a code of `OpNode`"),
        Column("name", Kind.TEXT, "its name"),
        Column("step", Kind.TEXT, "the step in which it starts, or was launched; null: none"),
        Column("node_id", Kind.INT, "the Execution Trace node; null: none, or not an op"),
        Column("input_dims", Kind.TEXT, "shapes of the inputs, as JSON; null: not recorded, or not an op"),
        Column("input_types", Kind.TEXT, "their types, as JSON; null: not recorded, or not an op"),
        Column("start_ns", Kind.INT, "start, from the first event of the rank"),
        Column("duration_ns", Kind.INT, "duration"),
        Column("host_self_ns", Kind.INT, "ops: host time in it and in no op inside it; else null"),
        Column("kernels", Kind.INT, "ops: device events that it launched itself; else null"),
        Column("device_self_ns", Kind.INT, "ops: duration of those; else null"),
        Column("device_total_ns", Kind.INT, "ops: with those of the ops inside it; else null"),
    ),
)

OP_GRAPH_EDGES = Table(
    "op_graph_edges",
    "One row per edge between nodes of a rank.",
    (
        Column("rank", Kind.INT, "the rank"),
        Column("source", Kind.INT, "the event that it goes from"),
        Column("target", Kind.INT, "the event that it goes to"),
        Column("kind", Kind.TEXT, "a code of `OpEdge`"),
    ),
)


class FlameTree(Enum):
    """Meaning of the widths of a flame graph: a code, and the title of the page and of profiles in files."""

    title: str

    HOST = "host", "host time"
    """Time of host events: ops, annotations, calls, and Python functions where they were traced."""
    DEVICE = "device", "device time"
    """Duration of device events, by the stack of the host that launched them."""
    MODULES_HOST = "modules-host", "host time by module"
    """Host time by nn.Module."""
    MODULES_DEVICE = "modules-device", "device time by module"
    """Duration of device events by nn.Module."""

    def __new__(cls, code: str, title: str) -> FlameTree:
        """The member of a code, which is its value."""
        member = object.__new__(cls)
        member._value_ = code
        member.title = title
        return member


class FlameKind(Enum):
    """Kind of a frame. Device work has the kinds of `model.device_kind` too."""

    OP = "op"
    ANNOTATION = "annotation"
    CALL = "call"
    PYTHON = "python"
    MODULE = "module"
    COMPUTE = "compute"
    COMMUNICATION = "communication"
    MEMORY = "memory"
    WAIT = "wait"
    UNATTRIBUTED = "unattributed"
    """Time outside all frames: launched by nothing in the trace, or in no module."""
    SMALLER = "smaller"
    """Several frames that are too small to keep."""


_TREE = Column("tree", Kind.TEXT, "a code of `FlameTree`")

FLAME_FRAMES = Table(
    "flame_frames",
    "One row per frame of a flame graph, each after its parent; siblings by total time. Self times add up to the total "
    "of the roots.",
    (
        Column("rank", Kind.INT, "the rank; null: several ranks, merged"),
        _TREE,
        Column("frame", Kind.INT, "the frame: its row in the tree, from 0"),
        Column("parent", Kind.INT, "the frame that it is in; null: a root"),
        Column("name", Kind.TEXT, "steps without their numbers, built-in functions without their addresses"),
        Column("kind", Kind.TEXT, "a code of `FlameKind`"),
        Column("depth", Kind.INT, "number of frames around it"),
        Column("count", Kind.INT, "number of events, or calls of the module; null: unknown"),
        Column("self_ns", Kind.INT, "time in it and in no frame inside it"),
        Column("total_ns", Kind.INT, "time in it"),
    ),
)

FLAME_NAMES = Table(
    "flame_names",
    "One row per name of a flame graph's frames, the most self time first.",
    (
        _TREE,
        Column("name", Kind.TEXT, "the name"),
        Column("kind", Kind.TEXT, "a code of `FlameKind`"),
        Column("self_ns", Kind.INT, "time in frames of that name and in no frame inside them"),
        Column("share", Kind.FLOAT, "of the whole graph's time, 0 to 1; null: it has none"),
        Column("count", Kind.INT, "events, or calls of the module; null: unknown"),
        Column("frames", Kind.INT, "stacks that contain the name"),
    ),
)
