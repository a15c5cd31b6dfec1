"""Answers about kernels and other work of devices: which take the time, of what family, and what launched them."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.answers.columns import DOUBTFUL, RANK, STEP_OF_LAUNCH
from tracebraid.model.column import Column, Kind, Table

__all__ = [
    "KERNELS",
    "KERNELS_BY_OP",
    "KERNEL_DURATIONS",
    "KERNEL_FAMILIES",
    "KERNEL_PACE",
    "LAUNCHERS",
    "SHORT_KERNELS",
    "Launcher",
]

_INT, _FLOAT, _TEXT = Kind.INT, Kind.FLOAT, Kind.TEXT


class Launcher(Enum):
    """What launched work of a device; the first that fits counts."""

    GRAPH = "graph"
    OP = "op"
    ANNOTATION = "annotation"
    CALL = "call"
    UNKNOWN = "unknown"


_KIND = Column("kind", _TEXT, "compute, communication, memory or wait")
_NAME = Column("name", _TEXT, "name of the kernel or copy")
_FAMILY = Column("family", _TEXT, "a code of `KernelFamily`, such as `gemm`")
_COUNT = Column("count", _INT, "how often it ran")
_TOTAL = Column("total_ns", _INT, "sum of its durations")
_MEAN = Column(
    "mean_ns", _FLOAT, "mean duration, doubtful steps left out unless asked for; null: it ran in no others"
)
_MIN = Column("min_ns", _INT, "shortest")
_MAX = Column("max_ns", _INT, "longest")
_STD = Column(
    "std_ns", _FLOAT, "standard deviation of the sample (divided by count - 1); null for fewer than two"
)
_SHARE = Column("share", _FLOAT, "of the sum of all device events' durations, 0 to 1")

KERNELS = Table(
    "kernels",
    "One row per kind and name of device event, the longest in total first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _KIND,
        Column("family", _TEXT, "a code of `KernelFamily`: that in which it spent most of its time"),
        _NAME,
        _COUNT,
        _TOTAL,
        _MEAN,
        Column("median_ns", _FLOAT, "median duration; what counts and null as in `mean_ns`"),
        Column("p95_ns", _FLOAT, "95th percentile, interpolated; what counts and null as in `mean_ns`"),
        _MIN,
        _MAX,
        _STD,
        _SHARE,
        DOUBTFUL,
    ),
)

KERNEL_FAMILIES = Table(
    "kernel_families",
    "One row per family of kernels, the longest in total first. The rows of a step add up to its device time.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _FAMILY,
        Column("names", _INT, "different names of kernels"),
        Column("count", _INT, "how often they ran"),
        Column("total_ns", _INT, "sum of their durations"),
        Column("by_op_ns", _INT, "part of that whose family the launching op decided"),
        Column("by_name_ns", _INT, "part of that whose family the kernel's name decided"),
        _MEAN,
        _SHARE,
        DOUBTFUL,
    ),
)

KERNELS_BY_OP = Table(
    "kernels_by_op",
    "One row per launching op, kind, family and name of device event, the longest in total first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("op", _TEXT, "innermost op that launched it, else annotation; null: none is known"),
        Column("op_category", _TEXT, "`cpu_op` or `user_annotation`; null without an op"),
        _KIND,
        _FAMILY,
        Column("family_by", _TEXT, "what decided the family: `kind`, `op` or `name`; null: nothing did"),
        _NAME,
        _COUNT,
        _TOTAL,
        _MEAN,
        _MIN,
        _MAX,
        _STD,
        _SHARE,
        DOUBTFUL,
    ),
)

SHORT_KERNELS = Table(
    "short_kernels",
    "One row per name of computing kernel with runs below the threshold; those with the most time around them first.",
    (
        RANK,
        STEP_OF_LAUNCH,
        _FAMILY,
        _NAME,
        Column("count", _INT, "its runs that are shorter than the threshold"),
        Column("count_of_all", _INT, "all its runs"),
        Column("total_ns", _INT, "sum of the durations of the short runs"),
        Column("mean_ns", _FLOAT, "their mean, doubtful steps left out unless asked for; null: none is left"),
        _SHARE,
        Column(
            "gap_before_ns",
            _INT,
            "time in which their streams were empty before them; 0 where nothing ran earlier",
        ),
        Column("gap_after_ns", _INT, "the same after them; counts again as `gap_before_ns` of what follows"),
        DOUBTFUL,
    ),
)

KERNEL_DURATIONS = Table(
    "kernel_durations",
    "One row per bin of durations that has kernels, the shortest first. Bins begin at 1, 2 and 5 of each decade.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("from_ns", _INT, "shortest duration of the bin"),
        Column("below_ns", _INT, "durations of the bin are less than this"),
        Column("count", _INT, "kernels whose duration lies in the bin"),
        Column("total_ns", _INT, "sum of their durations"),
        Column("share_of_count", _FLOAT, "of all kernels, 0 to 1"),
        Column("share", _FLOAT, "of the sum of all kernels' durations, 0 to 1"),
        DOUBTFUL,
    ),
)

KERNEL_PACE = Table(
    "kernel_pace",
    "One row per stream and name of kernel that ran there at least twice: distances from start to start.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("device", _TEXT, "device number"),
        Column("stream", _TEXT, "stream, as its lane is called in the file"),
        _FAMILY,
        _NAME,
        Column("count", _INT, "distances: its runs less one"),
        Column("mean_ns", _FLOAT, "mean distance"),
        Column("median_ns", _FLOAT, "median distance"),
        Column("p95_ns", _FLOAT, "95th percentile, interpolated"),
        Column("min_ns", _INT, "shortest distance"),
        Column("max_ns", _INT, "longest distance"),
        Column("std_ns", _FLOAT, "standard deviation of the sample; null for a single distance"),
        DOUBTFUL,
    ),
)

LAUNCHERS = Table(
    "launchers",
    "One row per kind of launcher: how much of the device's time it launched. The rows of a step add up to it.",
    (
        RANK,
        STEP_OF_LAUNCH,
        Column("launcher", _TEXT, "`graph`, `op`, `annotation`, `call` or `unknown`: see `Launcher`"),
        Column("kernels", _INT, "device events that it launched"),
        Column("device_ns", _INT, "sum of their durations"),
        Column("share", _FLOAT, "of the sum of all device events' durations, 0 to 1"),
        DOUBTFUL,
    ),
)
