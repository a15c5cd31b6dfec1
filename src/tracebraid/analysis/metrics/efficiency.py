"""How much of the device's peak is reached, and how many FLOPs does a step need?"""

from __future__ import annotations

from functools import partial

import polars as pl

from tracebraid.analysis.efficiency.mfu import mfu
from tracebraid.analysis.metrics.measured_steps import counted_steps, measured_steps, of_sound_steps
from tracebraid.analysis.metrics.values.ratios import ratio_values
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.metric import Metric, MetricOptions, OverRanks, Unit
from tracebraid.model.units import NS_PER_S

__all__ = ["METRICS", "flops_of_steps"]

_COLUMNS = ("rank", "step", "span_ns", "model_flops", "hardware_flops", "peak_flops_per_s", "doubtful")


def flops_of_steps(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Of `mfu` the rows of steps, or of a trace without steps that of the whole trace."""
    found = mfu(linked, annotation).select(_COLUMNS)
    by_step = found.filter(pl.col("step").is_not_null())
    return found if by_step.is_empty() else by_step


def _samples(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    """The steps that count by their names, since FLOPs are summed where steps share one.

    A rank without any FLOPs is left out: what it computes is nothing that is counted, or hidden in graphs.
    """
    steps = counted_steps(ranks.of(measured_steps), options).select("rank", "step").unique()
    found = of_sound_steps(ranks.of(flops_of_steps), options)
    known = pl.col("model_flops").sum().over("rank") > 0
    return (
        found.filter(known)
        .join(steps, on=["rank", "step"], how="semi", nulls_equal=True)
        .with_columns(pl.lit(0, dtype=pl.Int64).alias("occurrence"))
        .sort("rank", maintain_order=True)
    )


def _utilisation(ranks: LinkedRanks, options: MetricOptions, flops: str) -> pl.DataFrame:
    peak = pl.col("peak_flops_per_s") if options.peak_flops is None else pl.lit(options.peak_flops)
    samples = _samples(ranks, options).with_columns(
        pl.col(flops).alias("amount"), (peak * pl.col("span_ns") / NS_PER_S).alias("base")
    )
    return ratio_values(samples, OverRanks.POOLED)


def _rate(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    samples = _samples(ranks, options).with_columns(
        pl.col("model_flops").alias("amount"), (pl.col("span_ns") / NS_PER_S).alias("base")
    )
    return ratio_values(samples, OverRanks.POOLED)


_GATHERS = (measured_steps, flops_of_steps)
_SHAPES = (Need.SHAPES_OF_EITHER,)

METRICS = (
    Metric(
        "mfu",
        Unit.SHARE,
        "model FLOPs / (span x peak), sums over steps, of `mfu`",
        OverRanks.POOLED,
        partial(_utilisation, flops="model_flops"),
        _GATHERS,
        (*_SHAPES, Need.DEVICE_PEAKS),
    ),
    Metric(
        "hfu",
        Unit.SHARE,
        "hardware FLOPs / (span x peak), sums over steps, of `mfu`",
        OverRanks.POOLED,
        partial(_utilisation, flops="hardware_flops"),
        _GATHERS,
        (*_SHAPES, Need.DEVICE_PEAKS),
    ),
    Metric(
        "model_flops_per_second",
        Unit.FLOP_PER_S,
        "model FLOPs / span, sums over steps, of `mfu`; of a job the mean of a rank",
        OverRanks.POOLED,
        _rate,
        _GATHERS,
        _SHAPES,
    ),
)
"""MFU can be above 1 where the stated peak is below what the device reaches: it is not cut."""
