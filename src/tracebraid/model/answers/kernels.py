"""Answers about kernels and other work of devices."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP_OF_LAUNCH
from tracebraid.model.column import Column, Kind, Table

__all__ = ["KERNELS", "LAUNCHERS", "Launcher"]


class Launcher(Enum):
    """What launched work of a device; the first that fits counts."""

    GRAPH = "graph"
    OP = "op"
    ANNOTATION = "annotation"
    CALL = "call"
    UNKNOWN = "unknown"


KERNELS = Table(
    "kernels",
    "One row per kind and name of device event, the longest in total first.",
    (
        RANK,
        STEP_OF_LAUNCH,
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

LAUNCHERS = Table(
    "launchers",
    "One row per kind of launcher: how much of the device's time it launched. The rows of a step add up to it.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("launcher", Kind.TEXT, "`graph`, `op`, `annotation`, `call` or `unknown`: see `Launcher`"),
        Column("kernels", Kind.INT, "device events that it launched"),
        Column("device_ns", Kind.INT, "sum of their durations"),
        Column("share", Kind.FLOAT, "of the sum of all device events' durations, 0 to 1"),
        DOUBTFUL,
    ),
)
