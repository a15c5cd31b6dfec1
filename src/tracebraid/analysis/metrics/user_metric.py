"""What does a user's function say of each rank, and of all?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

import polars as pl

from tracebraid.analysis.metrics.values.over_ranks import values_over_ranks
from tracebraid.analysis.metrics.values.ratios import ratio_values
from tracebraid.analysis.needs import lacking_of
from tracebraid.errors import ArgumentError
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.metric import VALUES, Metric, MetricOptions, OverRanks, Unit

__all__ = ["RankFunction", "metric_of_function"]

RankFunction: TypeAlias = Callable[[LinkedTrace, str], float | Iterable[float | None] | None]
"""Takes a linked trace and the annotation that marks steps; returns a number, or a number for each step, or None."""

_JOINED = (OverRanks.MEAN, OverRanks.SUM, OverRanks.MAX, OverRanks.MIN)
_SCHEMA = {"rank": pl.Int64, "occurrence": pl.Int64, "value": pl.Float64, "is_sample": pl.Boolean}


@dataclass(frozen=True)
class _OfRank:
    """Takes of a rank what the function says of it: a row, or a row for each step; none where a need is lacking."""

    function: RankFunction
    needs: tuple[Need, ...]

    def __call__(self, linked: LinkedTrace, annotation: str) -> pl.DataFrame:
        needs = [need for need in self.needs if need is not Need.SEVERAL_RANKS]
        if lacking_of(needs, linked, annotation):
            return pl.DataFrame(schema=_SCHEMA)
        said = self.function(linked, annotation)
        is_sample = isinstance(said, Iterable)
        values = [_number(value) for value in (said if isinstance(said, Iterable) else [said])]
        rows = [(linked.rank, number, value, is_sample) for number, value in enumerate(values)]
        return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


@dataclass(frozen=True)
class _Measure:
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
    """A metric whose value of a rank is what a function says of it.

    Args:
        function: see `RankFunction`; the first line of its docstring is the formula.
        name: of the metric, in snake case.
        unit: of its value.
        over_ranks: `mean`, `sum`, `max` or `min`.
        needs: without any of these a rank has no value.

    Raises:
        ArgumentError: the name is not in snake case, or the ranks are to be joined in another way.
    """
    if not name.isidentifier() or name != name.lower():
        raise ArgumentError(
            f"a metric is called {name!r}; give a name in snake case, such as tokens_per_step"
        )
    joined = next((way for way in _JOINED if over_ranks in (way, way.value)), None)
    if joined is None:
        have = ", ".join(way.value for way in _JOINED)
        raise ArgumentError(f"{name}: over_ranks is {over_ranks!r}; it can be: {have}")
    gather = _OfRank(function, tuple(needs))
    formula = (function.__doc__ or "").strip().partition("\n")[0] or function.__qualname__
    return Metric(name, unit, formula, joined, _Measure(gather, joined), (gather,), gather.needs)


def _number(value: object) -> float | None:
    """The value as a float; what is not finite is none.

    Raises:
        TypeError: it is no number.
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{value!r} is no number")
    return float(value) if math.isfinite(value) else None
