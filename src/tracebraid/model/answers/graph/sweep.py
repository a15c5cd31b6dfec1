"""Answers about what a step gains when work gets faster."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.column import Column, Kind, Table

__all__ = ["SWEEP", "SweepBy", "SweepScope"]

_INT, _FLOAT, _TEXT = Kind.INT, Kind.FLOAT, Kind.TEXT


class SweepBy(Enum):
    """By what work is grouped."""

    OP = "op"
    MODULE = "module"
    FAMILY = "family"
    """Of kernels, copies and fills: their family."""
    KERNEL = "kernel"
    """Of kernels, copies and fills: their name."""
    COLLECTIVE = "collective"
    """Transfers, by type and process group."""
    PYTHON = "python"
    """Python functions, without what they call."""
    CALL = "call"
    """Calls of a runtime or driver API, by name."""
    ANNOTATION = "annotation"
    """User annotations, without the events in them; marks of steps are one."""
    THREAD = "thread"
    """All that a thread does, by rank and name."""
    LATENCY = "latency"
    """Latencies that are usual, by the kind of edge."""


class SweepScope(Enum):
    """Which work of a group is faster."""

    SELF = "self"
    """Only the group's own: of ops and modules the host's, without ops, calls and Python functions in them."""
    LAUNCHED = "launched"
    """Of ops and modules also the calls and Python functions in them, and the device work that they launched.

    In ops and modules that are the innermost around it. Left out where that is the same work."""


SWEEP = Table(
    "sweep",
    "One row per group of work whose work is not 0, what to optimise first on top: by the gain at 50 %.",
    (
        Column("group_by", _TEXT, "by what it is grouped (`SweepBy`)"),
        Column("scope", _TEXT, "which of its work is faster (`SweepScope`)"),
        Column("name", _TEXT, "name of the group"),
        Column("activities", _INT, "activities that have the work"),
        Column("total_ns", _INT, "the work from the start of the first step on, over all ranks"),
        Column("on_path_ns", _INT, "of it what is on the critical path: no gain is more"),
        Column("on_path", _FLOAT, "`on_path_ns` over the time of all steps"),
        Column(
            "gain_10_ns", _FLOAT, "gain of a step, on average, with 10 % of the work gone; null: not computed"
        ),
        Column("gain_50_ns", _FLOAT, "the same with 50 %"),
        Column("gain_100_ns", _FLOAT, "the same with all of it"),
        Column("gain_10", _FLOAT, "`gain_10_ns` over the mean time of a step; null: not computed"),
        Column("gain_50", _FLOAT, "the same of `gain_50_ns`"),
        Column("gain_100", _FLOAT, "the same of `gain_100_ns`"),
    ),
)
