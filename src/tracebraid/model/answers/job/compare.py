"""Answers about two runs: `a` is what is compared with, `b` what is compared."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.column import Column, Kind, Table

__all__ = [
    "DIFF_KERNELS",
    "DIFF_OPS",
    "DIFF_PARTS",
    "DIFF_SETTINGS",
    "DIFF_STEPS",
    "DiffChange",
    "DiffPart",
    "DiffSetting",
    "MatchedBy",
]


class DiffPart(Enum):
    """A part of a step; all parts of a step add up to it."""

    COMPUTE = "compute"
    EXPOSED_COMMUNICATION = "exposed-communication"
    EXPOSED_MEMORY = "exposed-memory"
    IDLE = "idle"
    REST = "rest"
    """What no event of the trace explains, as where events are damaged."""


class DiffChange(Enum):
    """How an op or a kernel of the second run differs from that of the first; the first that fits counts."""

    ADDED = "added"
    REMOVED = "removed"
    RENAMED = "renamed"
    """Another kernel under the same op."""
    SHAPES = "shapes"
    TYPES = "types"
    DEVICE = "device"
    """It launches kernels in one run and none in the other."""
    MOVED = "moved"
    """It is called elsewhere in the tree."""
    COUNT = "count"
    """It runs more or less often in a step: the counts of no step of the one run are among those of the other."""
    SAME = "same"


class MatchedBy(Enum):
    """What is equal in both runs of an op that is matched."""

    PATH_AND_SHAPES = "path-and-shapes"
    """Module, path, shapes and types."""
    PATH = "path"
    """Module and path."""
    PATH_OUTSIDE_OF_MODULES = "path-outside-of-modules"
    """Path, shapes and types, in a module of another name."""
    MODULE_AND_SHAPES = "module-and-shapes"
    """Module, name, shapes and types, on another path."""
    SHAPES = "shapes"
    """Name, shapes and types."""


class DiffSetting(Enum):
    """What a run was made with."""

    PATH = "path"
    RANKS = "ranks"
    WORLD_SIZE = "world_size"
    DEVICES = "devices"
    TORCH = "torch"
    DRIVER = "driver"
    STEPS = "steps"
    RECORD_SHAPES = "record_shapes"
    WITH_STACK = "with_stack"
    PROFILE_MEMORY = "profile_memory"
    WITH_MODULES = "with_modules"
    HOST_EVENTS = "host_events"
    """Host events in a step and rank: each costs the host about a microsecond."""
    OVERHEAD = "overhead_ns"
    """Time of the profiler's own events (`overhead`) in a step and rank: flushing and requesting buffers."""
    HOST_LATE = "host_late"
    """Share of the step in which the device is idle because the host is late."""


_SHIFT = (
    Column(
        "shift_ns",
        Kind.FLOAT,
        "estimate of the difference of a typical step (Hodges and Lehmann): the median of all differences of pairs; "
        "null: it is in one run only",
    ),
    Column("low_ns", Kind.FLOAT, "lower end of its interval of 99.73 %; null: there are too few steps"),
    Column("high_ns", Kind.FLOAT, "upper end of its interval"),
)
_CORRECTED = (
    *_SHIFT,
    Column("p", Kind.FLOAT, "probability of chance (Mann and Whitney), corrected by Holm; null: not tested"),
    Column("significant", Kind.BOOL, "whether `p` is at most 0.27 %; null: not tested"),
)
_MEANS = (
    Column("a_ns", Kind.INT, "mean for each step and rank of the first run"),
    Column("b_ns", Kind.INT, "the same of the second run"),
    Column("difference_ns", Kind.INT, "b - a"),
)
_COUNTS = (
    Column("count_a", Kind.FLOAT, "how often, for each step and rank of the first run"),
    Column("count_b", Kind.FLOAT, "the same of the second run"),
)
_IRREGULAR = Column("irregular", Kind.BOOL, "it is in some steps of a run, and not in others")

DIFF_STEPS = Table(
    "diff_steps",
    "One row over all ranks that are compared, then one for each of them.",
    (
        Column("rank", Kind.INT, "the rank; null: mean over all"),
        Column("steps_a", Kind.INT, "steps of the first run that are counted"),
        Column("steps_b", Kind.INT, "the same of the second run"),
        Column("left_out_a", Kind.INT, "steps that are not counted: warm-up, doubtful, or not in all ranks"),
        Column("left_out_b", Kind.INT, "the same of the second run"),
        *_MEANS,
        Column("difference_share", Kind.FLOAT, "difference / a; null: a is 0"),
        Column("median_a_ns", Kind.FLOAT, "median of the first run's steps"),
        Column("median_b_ns", Kind.FLOAT, "median of the second run's steps"),
        *_SHIFT,
        Column("shift_share", Kind.FLOAT, "shift / median_a; null: that is 0"),
        Column("p", Kind.FLOAT, "probability of chance (Mann and Whitney), for this row alone"),
        Column("significant", Kind.BOOL, "whether `p` is at most 0.27 %"),
    ),
)

DIFF_PARTS = Table(
    "diff_parts",
    "One row per part of the step, largest difference first. `a_ns`, `b_ns` and `difference_ns` add up to those of "
    "the first row of `diff_steps`, exactly.",
    (
        Column("part", Kind.TEXT, "a code of `DiffPart`"),
        Column("op", Kind.TEXT, "the op that launched it, on the host the innermost op; null: none known"),
        Column("path", Kind.TEXT, "where it is called: annotations and ops, the outermost first"),
        Column("module", Kind.TEXT, "nn.Module; null: none known in both runs"),
        Column("cause", Kind.TEXT, "of idle time a code of `IdleCause`"),
        Column("host_activity", Kind.TEXT, "of idle time a code of `HostActivity`"),
        *_MEANS,
        *_CORRECTED,
    ),
)

DIFF_OPS = Table(
    "diff_ops",
    "One row per op or annotation at one position of the tree, in one or both runs; largest difference first.",
    (
        Column("change", Kind.TEXT, "a code of `DiffChange`"),
        Column("matched_by", Kind.TEXT, "a code of `MatchedBy`; null: it is in one run only"),
        Column("name", Kind.TEXT, "its name"),
        Column("category", Kind.TEXT, "Kineto's category: `cpu_op` or `user_annotation`"),
        Column("path_a", Kind.TEXT, "where the first run calls it; null: it does not"),
        Column("path_b", Kind.TEXT, "where the second run calls it; null: it does not"),
        Column("module_a", Kind.TEXT, "nn.Module; null: none, or modules are not known in both runs"),
        Column("module_b", Kind.TEXT, "the same of the second run"),
        Column("input_dims_a", Kind.TEXT, "shapes, JSON; null: none, or they are not recorded in both runs"),
        Column("input_dims_b", Kind.TEXT, "the same of the second run"),
        Column("input_types_a", Kind.TEXT, "types, JSON; null as shapes"),
        Column("input_types_b", Kind.TEXT, "the same of the second run"),
        Column("outermost", Kind.BOOL, "the op around it has not the same change"),
        _IRREGULAR,
        *_COUNTS,
        Column("kernels_a", Kind.FLOAT, "device events that it launched itself, for each step and rank"),
        Column("kernels_b", Kind.FLOAT, "the same of the second run"),
        Column("host_a_ns", Kind.INT, "its own time on the host, mean for each step and rank"),
        Column("host_b_ns", Kind.INT, "the same of the second run"),
        Column("device_a_ns", Kind.INT, "duration of what it launched itself, mean for each step and rank"),
        Column("device_b_ns", Kind.INT, "the same of the second run"),
        Column(
            "difference_ns",
            Kind.INT,
            "b - a, of device times; of a run without device work host time stands for it",
        ),
        *_CORRECTED,
    ),
)

DIFF_KERNELS = Table(
    "diff_kernels",
    "One row per kernel, copy or fill under one op, in one or both runs; largest difference first.",
    (
        Column("change", Kind.TEXT, "a code of `DiffChange`"),
        Column("op", Kind.TEXT, "the op that launched it; null: none known"),
        Column("path", Kind.TEXT, "where that is called"),
        Column("module", Kind.TEXT, "nn.Module of the op; null: none known in both runs"),
        Column("kind", Kind.TEXT, "compute, communication or memory"),
        Column("kernel_a", Kind.TEXT, "its name in the first run; null: it is not there"),
        Column("kernel_b", Kind.TEXT, "its name in the second run; null: it is not there"),
        _IRREGULAR,
        *_COUNTS,
        *_MEANS,
        *_CORRECTED,
    ),
)

DIFF_SETTINGS = Table(
    "diff_settings",
    "One row per setting, in the order of `DiffSetting`.",
    (
        Column("setting", Kind.TEXT, "a code of `DiffSetting`"),
        Column("a", Kind.TEXT, "the first run's; null: unknown"),
        Column("b", Kind.TEXT, "the second run's; null: unknown"),
        Column("differs", Kind.BOOL, "both are known, and differ"),
    ),
)
