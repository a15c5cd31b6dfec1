"""How long does a token take, in prefill and in decode?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.inference.iterations import iterations_by_step
from tracebraid.analysis.statistics import mean_of, median_of, p95_of
from tracebraid.analysis.step_rows import StepOptions, by_step
from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.model.answers.inference import TOKEN_TIMES, Phase
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.model.units import NS_PER_S

__all__ = ["token_times"]

_KEY = ["step", "phase"]


def token_times(
    linked: LinkedTrace,
    annotation: str = PROFILER_STEP,
    per_step: bool = False,
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """Tokens and their time by phase: `model.answers.TOKEN_TIMES`.

    An iteration's span reaches to its end on the host or to the end of the device work that it launched, whichever
    is later. Iterations that run at once count once in `covered_ns`. What a request waits for its next token is
    the interval between the starts of two decode iterations: the time of the scheduler between them is in it.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
        per_step: rows for each step in which iterations started, instead of over all.
        with_doubtful: count iterations of doubtful steps in means and in time per token, too.
    """
    options = StepOptions(annotation, per_step, with_doubtful)
    found = by_step(iterations_by_step(linked, annotation), linked, options)
    order = [phase.value for phase in Phase]
    return (
        _sums(found)
        .join(_means(found), on=_KEY, how="left", nulls_equal=True)
        .sort(pl.col("phase").cast(pl.Enum(order)))
        .pipe(in_order_of_steps, linked, annotation)
        .pipe(lambda frame: answer(TOKEN_TIMES, frame, linked, annotation))
    )


def _sums(found: pl.DataFrame) -> pl.DataFrame:
    return (
        _with_covered(found)
        .group_by(_KEY)
        .agg(
            pl.len().alias("iterations"),
            _sum_if_known("requests"),
            _sum_if_known("tokens"),
            pl.col("covered_ns", "device_ns").sum(),
        )
    )


def _means(found: pl.DataFrame) -> pl.DataFrame:
    """Of what counts in means: statistics of its iterations, and its time per token."""
    counted = found.filter("in_means")
    statistics = counted.group_by(_KEY).agg(
        *_statistics("span_ns", ""), *_statistics("interval_ns", "interval_")
    )
    ratios = _sums(counted).select(
        *_KEY,
        _ratio("covered_ns", "tokens").alias("ns_per_token"),
        _ratio("device_ns", "tokens").alias("device_ns_per_token"),
        (_ratio("tokens", "covered_ns") * NS_PER_S).alias("tokens_per_second"),
    )
    return statistics.join(ratios, on=_KEY, nulls_equal=True)


def _with_covered(found: pl.DataFrame) -> pl.DataFrame:
    """What each iteration adds to the time that those of its step and phase before it cover."""
    end = pl.col("start_ns") + pl.col("span_ns")
    reach = end.cum_max().shift(1).over(_KEY)
    covered = (end - pl.max_horizontal("start_ns", reach)).clip(0)
    return found.sort("start_ns", "event_id").with_columns(covered.alias("covered_ns"))


def _sum_if_known(column: str) -> pl.Expr:
    return pl.when(pl.col(column).is_not_null().all()).then(pl.col(column).sum()).alias(column)


def _ratio(amount: str, of: str) -> pl.Expr:
    """Null where either is 0 or not known."""
    return pl.when((pl.col(of) > 0) & (pl.col(amount) > 0)).then(pl.col(amount) / pl.col(of))


def _statistics(column: str, prefix: str) -> list[pl.Expr]:
    values = pl.col(column)
    return [
        mean_of(values, f"mean_{prefix}ns"),
        median_of(values, f"median_{prefix}ns"),
        p95_of(values, f"p95_{prefix}ns"),
    ]
