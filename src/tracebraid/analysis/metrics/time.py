"""Metrics of step time and its parts."""

from __future__ import annotations

from functools import partial

import polars as pl

from tracebraid.analysis.metrics.memory import SAMPLE, quantile_values, ratio_values
from tracebraid.analysis.metrics.metrics import aligned_steps, counted_steps, measured_steps
from tracebraid.model.analysis import Need
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.questions import Metric, MetricOptions, OverRanks, Unit

_MEDIAN, _P95 = 0.5, 0.95


def _mean_span(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    samples, of_job = _spans(ranks, options)
    samples = samples.with_columns(pl.lit(1).alias("base"))
    return ratio_values(samples, OverRanks.ALIGNED, of_job=of_job)


def _span_quantile(ranks: LinkedRanks, options: MetricOptions, quantile: float) -> pl.DataFrame:
    samples, of_job = _spans(ranks, options)
    return quantile_values(samples, quantile, of_job)


def _spans(ranks: LinkedRanks, options: MetricOptions) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The counted steps of the ranks, and `SAMPLE` of those of the job on aligned clocks, with their times as `amount`.

    A step of the job lasts from the end of the one before; the first, on each rank too, see `aligned_steps`.
    """
    aligned = aligned_steps(ranks)
    of_job = (
        aligned.group_by(*SAMPLE, maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .sort("end_ns", maintain_order=True)
    )
    spans = pl.col("end_ns") - pl.col("end_ns").shift(1).fill_null(pl.col("start_ns").first())
    of_job = of_job.select(*SAMPLE, spans.alias("amount"))
    samples = counted_steps(
        aligned.with_columns((pl.col("end_ns") - pl.col("start_ns")).alias("amount")), options
    )
    counted = of_job.join(samples.select(SAMPLE).unique(), on=SAMPLE, how="semi", maintain_order="left")
    return samples, counted


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
    measure = _mean_span if quantile is None else partial(_span_quantile, quantile=quantile)
    return Metric(name, Unit.NS, formula, OverRanks.ALIGNED, measure, (measured_steps,), (Need.STEPS,))


_TIME = (
    _span_metric("step_time_mean", None, "mean of `span_ns` in `step_times`"),
    _span_metric("step_time_median", _MEDIAN, "median of `span_ns` in `step_times`"),
    _span_metric("step_time_p95", _P95, "95th percentile of `span_ns` in `step_times`"),
    _share_metric("compute_share", "compute_ns", "sum of compute / sum of spans, of `step_times`"),
    _share_metric(
        "exposed_communication_share",
        "exposed_communication_ns",
        "sum of exposed communication / sum of spans, of `step_times`",
        Need.KNOWN_COMMUNICATION,
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
        Need.KNOWN_COMMUNICATION,
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
