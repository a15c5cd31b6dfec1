"""Answers about what stragglers cost a job."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.column import Column, Kind, Table

__all__ = ["STRAGGLER_METRICS", "StragglerMetric"]

_FLOAT, _TEXT = Kind.FLOAT, Kind.TEXT


class StragglerMetric(Enum):
    """A metric of "Understanding Stragglers in Large Model Training Using What-if Analysis" (OSDI 2025)."""

    SLOWDOWN = "S"
    """A step over an ideal step, in which the same operations take equally long."""
    SLOWDOWN_BY = "S_x"
    """An ideal step with only one group's work as it was, over an ideal step."""
    LAST_STAGE = "M_S"
    """The share of what is lost that goes when the last pipeline stage's work is made ideal."""
    SLOWEST_WORKERS = "M_W"
    """The same of the slowest 3 % of workers, rounded up."""


STRAGGLER_METRICS = Table(
    "straggler_metrics",
    "One row per metric, of S_x one for each group. S first, then S_x with the greatest first.",
    (
        Column("metric", _TEXT, "the metric (`StragglerMetric`)"),
        Column("group_by", _TEXT, "of S_x and M: `rank`, `stage` or `optype`; null: S"),
        Column("group", _TEXT, "the rank, stage or kind of operation; of M_W the ranks; null: S"),
        Column("value", _FLOAT, "the metric; null: nothing is lost, or a step takes no time"),
        Column(
            "step_ns", _FLOAT, "mean time of a step: of S as it was without residuals, of S_x as it counts"
        ),
        Column("ideal_ns", _FLOAT, "mean time of an ideal step"),
    ),
)
