"""The frames of flame graphs: stacks merged where all names from the outermost frame inwards are the same."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.column import Column, Kind, Table

__all__ = ["FLAME_FRAMES", "FLAME_NAMES", "FlameKind", "FlameTree"]


class FlameTree(Enum):
    """What the widths of a flame graph are."""

    HOST = "host"
    """Time of host events: ops, annotations, calls, and Python functions where they were traced."""
    DEVICE = "device"
    """Duration of device events, by the stack of the host that launched them."""
    MODULES_HOST = "modules-host"
    """Host time by nn.Module."""
    MODULES_DEVICE = "modules-device"
    """Duration of device events by nn.Module."""


class FlameKind(Enum):
    """What a frame stands for. What runs on a device has the kinds of `model.device_kind`, too."""

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
    """What belongs to no frame: launched by nothing that the trace has, or in no module."""
    SMALLER = "smaller"
    """Several frames that are too small to be kept."""


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
        Column("count", Kind.INT, "events, or calls of the module, that it stands for; null: unknown"),
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
        Column("frames", Kind.INT, "stacks in which the name stands"),
    ),
)
