"""Scalars for dashboards and papers."""

from __future__ import annotations

from enum import Enum

from tracebraid.model.column import Column, Kind, Table

__all__ = ["METRICS", "MetricLack"]


class MetricLack(Enum):
    """Why a metric has no value, where the traces lack none of its needs."""

    DOUBTFUL_STEPS = "doubtful-steps"
    """`validity` has a doubt about every step."""
    NOTHING_TO_MEASURE = "nothing-to-measure"
    """The steps hold nothing of what it measures, or its formula divides by 0 there."""
    SIZES_UNKNOWN = "sizes-unknown"
    """Of some collective the trace does not say how much it communicates."""
    RANKS_MISSING = "ranks-missing"
    """No such collective is there with its size and all its ranks: without these, waiting looks like transfer."""
    PEAK_NOT_STATED = "peak-not-stated"
    """No peak bandwidth of the network was stated, or no bandwidth is known that could be compared."""
    METRIC_FAILED = "metric-failed"
    """A user's metric raised an exception, or gave no number."""


METRICS = Table(
    "metrics",
    "One row per metric over all ranks, with the rows of each rank behind it, in the order of metrics and of ranks.",
    (
        Column("metric", Kind.TEXT, "its name"),
        Column("rank", Kind.INT, "the rank; null: all ranks together"),
        Column("value", Kind.FLOAT, "its value; null: `lacks` says why"),
        Column("unit", Kind.TEXT, "unit of the value, a code of `Unit` or a user's own"),
        Column(
            "low",
            Kind.FLOAT,
            "lower end of the 95 % interval, the steps taken as a sample; null: too few, or they are no sample",
        ),
        Column("high", Kind.FLOAT, "upper end of that interval"),
        Column(
            "steps", Kind.INT, "steps that it is taken from; 0: the whole trace; null: it is not about steps"
        ),
        Column("ranks", Kind.INT, "ranks that it is taken from"),
        Column("lacks", Kind.TEXT, "why there is no value: a value of `Need` or of `MetricLack`"),
    ),
)
