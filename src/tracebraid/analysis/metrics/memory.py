"""Metrics of peak memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import cache, partial
from numbers import Real
from typing import TypeAlias

import numpy as np
import polars as pl
from msgspec import Struct

from tracebraid.analysis.distributions import CONFIDENCE, exactly, student_quantile
from tracebraid.analysis.inference.phases import token_times
from tracebraid.analysis.memory.blocks import peaks, usage_by_step
from tracebraid.analysis.memory.pairing import CPU
from tracebraid.analysis.needs import lacking_of
from tracebraid.errors import ArgumentError
from tracebraid.model.analysis import Family, Need
from tracebraid.model.answers.efficiency import Phase
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions import VALUES, Metric, MetricOptions, OverRanks, Unit

_JOINED = {
    OverRanks.MEAN: pl.col("value").mean(),
    OverRanks.SUM: pl.col("value").sum(),
    OverRanks.MAX: pl.col("value").max(),
    OverRanks.MIN: pl.col("value").min(),
}


def values_over_ranks(found: pl.DataFrame, over_ranks: OverRanks) -> pl.DataFrame:
    """`VALUES` of the ranks, and of all of them that have a value; a sum needs the value of each rank."""
    known = found.filter(pl.col("value").is_not_null() & pl.col("value").cast(pl.Float64).is_finite())
    if known.is_empty() or (over_ranks is OverRanks.SUM and known.height < found.height):
        job = known.clear().select("rank", "value", pl.lit(0).alias("ranks"))
    else:
        joined = _JOINED[over_ranks].cast(pl.Float64).alias("value")
        job = known.select(pl.lit(None, dtype=pl.Int64).alias("rank"), joined, pl.len().alias("ranks"))
    each = known.sort("rank").select("rank", "value", pl.lit(1).alias("ranks"))
    rows = pl.concat([job, each], how="vertical_relaxed")
    return VALUES.conform(rows, fill_missing=True)


def quantile_values(samples: pl.DataFrame, quantile: float, of_job: pl.DataFrame) -> pl.DataFrame:
    """`VALUES` of a quantile of the steps' amounts; of all ranks that of the steps of the job.

    It is interpolated between steps, as numpy's `percentile`. The interval assumes no distribution: it reaches from one
    step to another in the order of amounts, such that each of the two is beyond the true quantile with a probability
    of at most 2.5 %, by the binomial distribution (David & Nagaraja, "Order Statistics", 7.1). It needs 6 steps for
    the median, and 72 for the 95th percentile.
    """
    samples = samples.filter(pl.col("amount").is_not_null() & pl.col("step").is_not_null())
    ranks = samples.get_column("rank").n_unique()
    rows = [_row(None, of_job, ranks, quantile)] if ranks else []
    for (rank,), of_rank in samples.sort("rank").group_by("rank", maintain_order=True):
        rows.append(_row(rank, of_rank, 1, quantile))
    columns = list(VALUES.polars_schema())
    return VALUES.conform(pl.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None))


def _row(rank: object, samples: pl.DataFrame, ranks: int, quantile: float) -> tuple[object, ...]:
    amounts = np.sort(samples.get_column("amount").to_numpy())
    first, last = _ends(len(amounts), quantile)
    low = None if first is None else float(amounts[first])
    high = None if last is None else float(amounts[last])
    if low is None or high is None:
        low = high = None
    return rank, float(np.quantile(amounts, quantile)), low, high, len(amounts), ranks


@cache
def _ends(count: int, quantile: float) -> tuple[int | None, int | None]:
    """The indices of the order statistics, from 0, between which the quantile is; None: there is none.

    The amount with index i is above the quantile with probability P(B <= i), and below it with P(B >= i + 1), where B
    is binomial with `count` trials.
    """
    tail = (1 - CONFIDENCE) / 2
    chances = [exactly(k, count, quantile) for k in range(count + 1)]
    up_to = np.cumsum(chances)
    from_here = np.cumsum(chances[::-1])[::-1]
    low = np.flatnonzero(up_to[:count] <= tail)
    high = np.flatnonzero(from_here[1:] <= tail)
    return (int(low[-1]) if len(low) else None), (int(high[0]) if len(high) else None)


SAMPLE = ("step", "occurrence")
"""Key of rows of several ranks in one sample; step null: the whole trace, which is no sample."""

_RANK = pl.col("rank")
_NO_RANK = pl.lit(None, dtype=pl.Int64).alias("rank")


def ratio_values(
    samples: pl.DataFrame,
    over_ranks: OverRanks,
    bounds: tuple[float | None, float | None] = (0.0, None),
    of_job: pl.DataFrame | None = None,
) -> pl.DataFrame:
    """`VALUES` of sum(amount) / sum(base), over the steps of each rank and over those of all ranks.

    The interval is that of the ratio estimator (Cochran, "Sampling Techniques", 6.4): with residuals
    e = amount - ratio * base, the standard error is sqrt(sum(e^2) / (n - 1) / n) / mean(base), with Student's t of
    n - 1 degrees. It takes steps for independent. Where base is 1 it is the interval of a mean.
    """
    samples = samples.filter(pl.col("amount").is_not_null() & pl.col("base").is_not_null())
    amount, base = pl.col("amount"), pl.col("base")
    joined = [amount.sum(), base.sum() if over_ranks is OverRanks.POOLED else base.max()]
    job = samples.group_by(*SAMPLE, maintain_order=True).agg(*joined, _RANK.n_unique().alias("ranks"))
    if of_job is not None:
        job = job.drop("amount").join(of_job, on=SAMPLE, maintain_order="left", nulls_equal=True)
    of_ranks = samples.with_columns(pl.lit(1, dtype=pl.UInt32).alias("ranks"))
    columns = ["rank", *SAMPLE, "amount", "base", "ranks"]
    rows = pl.concat(
        [job.with_columns(_NO_RANK).select(columns), of_ranks.select(columns)], how="vertical_relaxed"
    )
    found = _estimates(rows).with_columns(
        pl.when(_RANK.is_null())
        .then(pl.lit(samples.get_column("rank").n_unique()))
        .otherwise(1)
        .alias("ranks")
    )
    bounded = found.with_columns(pl.col("low", "high").clip(*bounds))
    return VALUES.conform(bounded.sort("rank", nulls_last=False))


def _estimates(rows: pl.DataFrame) -> pl.DataFrame:
    """Compute by rank: value, low, high and steps; ranks with base 0 are skipped."""
    amount, base = pl.col("amount").cast(pl.Float64), pl.col("base").cast(pl.Float64)
    rows = rows.with_columns((amount.sum() / base.sum()).over("rank").alias("value"))
    error = amount - pl.col("value") * base
    found = (
        rows.filter(pl.col("value").is_finite())
        .group_by("rank", maintain_order=True)
        .agg(
            pl.col("value").first(),
            pl.col("step").is_not_null().sum().cast(pl.Int64).alias("steps"),
            ((error**2).sum() / (pl.len() - 1) / pl.len()).sqrt().alias("_error"),
            base.mean().alias("_mean"),
        )
    )
    counts = found.get_column("steps").unique().to_list()
    quantiles = {count: student_quantile(count - 1) for count in counts if count > 1}
    reach = (
        pl.col("steps").replace_strict(quantiles, default=None, return_dtype=pl.Float64)
        * pl.col("_error")
        / pl.col("_mean").abs()
    )
    return found.with_columns((pl.col("value") - reach).alias("low"), (pl.col("value") + reach).alias("high"))


_SCHEMA = {"rank": pl.Int64, "device": pl.String, "allocated_bytes": pl.Int64, "reserved_bytes": pl.Int64}


def memory_of_devices(linked: LinkedTrace) -> pl.DataFrame:
    """A row per device, those of accelerators where there is one: rank, device, allocated_bytes, reserved_bytes.

    From the allocations in the Kineto trace alone; without any there is no row.
    """
    if linked.timeline.tables["memory"].is_empty():
        return pl.DataFrame(schema=_SCHEMA)
    reserved = usage_by_step(linked, False).group_by("device").agg(pl.col("reserved_bytes").max())
    found = (
        peaks(linked, False)
        .select("device", "allocated_bytes")
        .join(reserved, on="device", how="left", maintain_order="left")
        .with_columns(pl.lit(linked.rank).alias("rank"))
    )
    accelerators = found.filter(pl.col("device") != CPU)
    return (found if accelerators.is_empty() else accelerators).select(list(_SCHEMA)).cast(pl.Schema(_SCHEMA))


def _peak(ranks: LinkedRanks, _: MetricOptions, column: str) -> pl.DataFrame:
    found = ranks.of(memory_of_devices).group_by("rank").agg(pl.col(column).max().alias("value"))
    return values_over_ranks(found, OverRanks.MAX)


def _metric(name: str, column: str, formula: str) -> Metric:
    measure = partial(_peak, column=column)
    gathers, needs = (memory_of_devices,), (Need.MEMORY,)
    return Metric(name, Unit.BYTES, formula, OverRanks.MAX, measure, gathers, needs, family=Family.MEMORY)


_MEMORY = (
    _metric(
        "memory_allocated_peak",
        "allocated_bytes",
        "`peak_bytes` of `memory_peak`, of the device of the rank that has the most; the host only without any other",
    ),
    _metric(
        "memory_reserved_peak",
        "reserved_bytes",
        "the most that the allocator has reserved at a moment, of that device that has the most",
    ),
)


_COLUMNS = ("mean_ns", "median_ns", "p95_ns", "median_interval_ns", "tokens_per_second")
_PREFILL = Phase.PREFILL
_DECODE = Phase.DECODE


def times_of_phases(linked: LinkedTrace) -> pl.DataFrame:
    """`token_times` over all, without doubtful steps and, in rows with `with_doubtful`, with them."""
    return pl.concat(
        token_times(linked, with_doubtful=with_doubtful).select(
            "rank", "phase", *_COLUMNS, pl.lit(with_doubtful).alias("with_doubtful")
        )
        for with_doubtful in (False, True)
    )


def _of_phase(ranks: LinkedRanks, options: MetricOptions, phase: Phase, column: str) -> pl.DataFrame:
    asked = (pl.col("phase") == phase.value) & (pl.col("with_doubtful") == options.with_doubtful)
    found = ranks.of(times_of_phases).filter(asked).select("rank", pl.col(column).alias("value"))
    return values_over_ranks(found, _over(column))


def _over(column: str) -> OverRanks:
    return OverRanks.MEAN if column == "tokens_per_second" else OverRanks.MAX


def _phase_metric(name: str, phase: Phase, column: str, formula: str) -> Metric:
    unit = Unit.TOKENS_PER_S if column == "tokens_per_second" else Unit.NS
    measure = partial(_of_phase, phase=phase, column=column)
    gathers, needs = (times_of_phases,), (Need.INFERENCE_ITERATIONS,)
    return Metric(name, unit, formula, _over(column), measure, gathers, needs, family=Family.INFERENCE)


_INFERENCE = (
    _phase_metric(
        "prefill_time_mean", _PREFILL, "mean_ns", "mean span of prefill iterations, of `token_times`"
    ),
    _phase_metric("prefill_time_median", _PREFILL, "median_ns", "median span of prefill iterations"),
    _phase_metric("prefill_time_p95", _PREFILL, "p95_ns", "95th percentile of spans of prefill iterations"),
    _phase_metric(
        "prefill_tokens_per_second",
        _PREFILL,
        "tokens_per_second",
        "prompt tokens / time in which prefill iterations run, of `token_times`",
    ),
    _phase_metric("decode_time_mean", _DECODE, "mean_ns", "mean span of decode iterations, of `token_times`"),
    _phase_metric("decode_time_median", _DECODE, "median_ns", "median span of decode iterations"),
    _phase_metric("decode_time_p95", _DECODE, "p95_ns", "95th percentile of spans of decode iterations"),
    _phase_metric(
        "decode_interval_median",
        _DECODE,
        "median_interval_ns",
        "median time from the start of a decode iteration to that of the next: what a request waits for a token",
    ),
    _phase_metric(
        "decode_tokens_per_second",
        _DECODE,
        "tokens_per_second",
        "tokens / time in which decode iterations run, of `token_times`",
    ),
)


RankFunction: TypeAlias = Callable[[LinkedTrace], float | Iterable[float | None] | None]
"""Takes a linked trace; returns a number, or a number for each step, or None."""

_USER_METRIC_JOINED = (OverRanks.MEAN, OverRanks.SUM, OverRanks.MAX, OverRanks.MIN)
_USER_METRIC_SCHEMA = {"rank": pl.Int64, "occurrence": pl.Int64, "value": pl.Float64, "is_sample": pl.Boolean}


class _OfRank(Struct, frozen=True):
    """Function that gathers a user metric's values of a rank: a row, or a row per step; none if a need is unmet."""

    function: RankFunction
    needs: tuple[Need, ...]

    def __call__(self, linked: LinkedTrace) -> pl.DataFrame:
        needs = [need for need in self.needs if need is not Need.SEVERAL_RANKS]
        if lacking_of(needs, linked):
            return pl.DataFrame(schema=_USER_METRIC_SCHEMA)
        said = self.function(linked)
        is_sample = isinstance(said, Iterable)
        values = [_number(value) for value in (said if isinstance(said, Iterable) else [said])]
        rows = [(linked.rank, number, value, is_sample) for number, value in enumerate(values)]
        return pl.DataFrame(rows, schema=_USER_METRIC_SCHEMA, orient="row")


class _Measure(Struct, frozen=True):
    """The values of all ranks; of a function that gives a number for each step, their mean with its interval."""

    gather: _OfRank
    over_ranks: OverRanks

    def __call__(self, ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
        found = ranks.of(self.gather)
        samples = found.filter("is_sample").with_columns(
            pl.lit("").alias("step"), pl.col("value").alias("amount"), pl.lit(1).alias("base")
        )
        intervals = ratio_values(samples, OverRanks.POOLED, bounds=(None, None))
        if self.over_ranks is OverRanks.MEAN and samples.height == found.height:
            return intervals
        values = values_over_ranks(found.group_by("rank").agg(pl.col("value").mean()), self.over_ranks)
        # A step is a sample of the mean alone: what else joins ranks has no interval.
        of_ranks = intervals.filter(pl.col("rank").is_not_null()).select("rank", "low", "high", "steps")
        kept = values.drop("low", "high", "steps")
        return VALUES.conform(kept.join(of_ranks, on="rank", how="left", maintain_order="left"))


def metric_of_function(
    function: RankFunction, name: str, unit: Unit | str, over_ranks: OverRanks | str, needs: Iterable[Need]
) -> Metric:
    """A metric computed by a user's function."""
    if not name.isidentifier() or name != name.lower():
        raise ArgumentError(
            f"a metric is called {name!r}; give a name in snake case, such as tokens_per_step"
        )
    joined = next((way for way in _USER_METRIC_JOINED if over_ranks in (way, way.value)), None)
    if joined is None:
        have = ", ".join(way.value for way in _USER_METRIC_JOINED)
        raise ArgumentError(f"{name}: over_ranks is {over_ranks!r}; it can be: {have}")
    gather = _OfRank(function, tuple(needs))
    formula = (function.__doc__ or "").strip().partition("\n")[0] or function.__qualname__
    return Metric(name, unit, formula, joined, _Measure(gather, joined), (gather,), gather.needs)


def _number(value: object) -> float | None:
    """Convert the value to float; None if not finite."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{value!r} is no number")
    return float(value) if math.isfinite(value) else None
