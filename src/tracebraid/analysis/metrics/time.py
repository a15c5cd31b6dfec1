"""How long are the steps, and what fills them?"""

from __future__ import annotations

from functools import partial

import polars as pl

from tracebraid.analysis.metrics.measured_steps import counted_steps, measured_steps
from tracebraid.analysis.metrics.values.quantiles import quantile_values
from tracebraid.analysis.metrics.values.ratios import ratio_values
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.metric import Metric, MetricOptions, OverRanks, Unit

__all__ = ["METRICS"]

_MEDIAN, _P95 = 0.5, 0.95


def _mean_of_span(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    steps = counted_steps(ranks.of(measured_steps), options).filter(pl.col("step").is_not_null())
    samples = steps.with_columns(pl.col("span_ns").alias("amount"), pl.lit(1).alias("base"))
    return ratio_values(samples, OverRanks.SLOWEST)


def _quantile_of_span(ranks: LinkedRanks, options: MetricOptions, quantile: float) -> pl.DataFrame:
    steps = counted_steps(ranks.of(measured_steps), options)
    return quantile_values(steps.with_columns(pl.col("span_ns").alias("amount")), quantile)


def _share(ranks: LinkedRanks, options: MetricOptions, amount: str, base: str) -> pl.DataFrame:
    steps = counted_steps(ranks.of(measured_steps), options)
    samples = steps.with_columns(pl.col(amount).alias("amount"), pl.col(base).alias("base"))
    return ratio_values(samples, OverRanks.POOLED, bounds=(0.0, 1.0))


def _share_metric(name: str, amount: str, formula: str, *needs: Need, base: str = "device_span_ns") -> Metric:
    measure = partial(_share, amount=amount, base=base)
    return Metric(
        name, Unit.SHARE, formula, OverRanks.POOLED, measure, (measured_steps,), (Need.EVENTS, *needs)
    )


def _span_metric(name: str, quantile: float | None, formula: str) -> Metric:
    measure = _mean_of_span if quantile is None else partial(_quantile_of_span, quantile=quantile)
    return Metric(name, Unit.NS, formula, OverRanks.SLOWEST, measure, (measured_steps,), (Need.STEPS,))


METRICS = (
    _span_metric("step_time_mean", None, "mean of `span_ns` in `step_times`"),
    _span_metric("step_time_median", _MEDIAN, "median of `span_ns` in `step_times`"),
    _span_metric("step_time_p95", _P95, "95th percentile of `span_ns` in `step_times`"),
    _share_metric("compute_share", "compute_ns", "sum of compute / sum of spans, of `step_times`"),
    _share_metric(
        "exposed_communication_share",
        "exposed_communication_ns",
        "sum of exposed communication / sum of spans, of `step_times`",
    ),
    _share_metric(
        "exposed_memory_share",
        "exposed_memory_ns",
        "sum of exposed copies / sum of spans, of `step_times`",
    ),
    _share_metric("idle_share", "idle_ns", "sum of idle time / sum of spans, of `step_times`"),
    _share_metric(
        "launch_bound_share",
        "launch_bound_ns",
        "idle time in which a stream waits for a launch in a stretch of `launch_bound` / sum of spans",
        Need.DEVICE_WORK,
    ),
    _share_metric(
        "communication_share",
        "communication_ns",
        "sum of communication, hidden or not / sum of spans, of `breakdown`",
    ),
    _share_metric(
        "communication_overlap",
        "overlap_ns",
        "sum of communication hidden behind compute / sum of communication, of `breakdown`",
        Need.COMMUNICATION,
        base="communication_ns",
    ),
)
"""Shares are of the device's time: the spans of a step on several devices add up."""
