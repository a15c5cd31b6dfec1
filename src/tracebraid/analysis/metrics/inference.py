"""How long do prefill and decode take?"""

from __future__ import annotations

from functools import partial

import polars as pl

from tracebraid.analysis.inference.token_times import token_times
from tracebraid.analysis.metrics.values.over_ranks import values_over_ranks
from tracebraid.model.answers.inference import Phase
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.metric import Metric, MetricOptions, OverRanks, Unit

__all__ = ["METRICS", "times_of_phases"]

_COLUMNS = ("mean_ns", "median_ns", "p95_ns", "median_interval_ns", "tokens_per_second")
_PREFILL, _DECODE = Phase.PREFILL, Phase.DECODE


def times_of_phases(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """`token_times` over all, without doubtful steps and, in rows with `with_doubtful`, with them."""
    return pl.concat(
        token_times(linked, annotation, with_doubtful=with_doubtful).select(
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


def _metric(name: str, phase: Phase, column: str, formula: str) -> Metric:
    unit = Unit.TOKENS_PER_S if column == "tokens_per_second" else Unit.NS
    measure = partial(_of_phase, phase=phase, column=column)
    needs = (Need.INFERENCE_ITERATIONS,)
    return Metric(name, unit, formula, _over(column), measure, (times_of_phases,), needs)


METRICS = (
    _metric("prefill_time_mean", _PREFILL, "mean_ns", "mean span of prefill iterations, of `token_times`"),
    _metric("prefill_time_median", _PREFILL, "median_ns", "median span of prefill iterations"),
    _metric("prefill_time_p95", _PREFILL, "p95_ns", "95th percentile of spans of prefill iterations"),
    _metric(
        "prefill_tokens_per_second",
        _PREFILL,
        "tokens_per_second",
        "prompt tokens / time in which prefill iterations run, of `token_times`",
    ),
    _metric("decode_time_mean", _DECODE, "mean_ns", "mean span of decode iterations, of `token_times`"),
    _metric("decode_time_median", _DECODE, "median_ns", "median span of decode iterations"),
    _metric("decode_time_p95", _DECODE, "p95_ns", "95th percentile of spans of decode iterations"),
    _metric(
        "decode_interval_median",
        _DECODE,
        "median_interval_ns",
        "median time from the start of a decode iteration to that of the next: what a request waits for a token",
    ),
    _metric(
        "decode_tokens_per_second",
        _DECODE,
        "tokens_per_second",
        "tokens / time in which decode iterations run, of `token_times`",
    ),
)
