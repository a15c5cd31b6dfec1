"""How many steps are there, and how many of them can be trusted?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.metrics.measured_steps import counted_steps, measured_steps
from tracebraid.analysis.metrics.values.over_ranks import values_over_ranks
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.metric import Metric, MetricOptions, OverRanks, Unit

__all__ = ["METRICS"]


def _steps(ranks: LinkedRanks) -> pl.DataFrame:
    return ranks.of(measured_steps).filter(pl.col("step").is_not_null())


def _counted(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    steps = _steps(ranks)
    counted = counted_steps(steps, options).select("rank", pl.lit(True).alias("counts"))
    counts = counted.group_by("rank").agg(pl.len().alias("value"))
    found = steps.select("rank").unique().join(counts, on="rank", how="left")
    return values_over_ranks(found.with_columns(pl.col("value").fill_null(0)), OverRanks.MIN)


def _doubtful(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    found = _steps(ranks).group_by("rank").agg(pl.col("doubtful").mean().alias("value"))
    return values_over_ranks(found, OverRanks.MAX)


METRICS = (
    Metric(
        "steps_counted",
        Unit.COUNT,
        "steps that are neither warm-up nor doubtful",
        OverRanks.MIN,
        _counted,
        (measured_steps,),
        (Need.STEPS,),
    ),
    Metric(
        "doubtful_share",
        Unit.SHARE,
        "steps about which `validity` has a doubt / all steps",
        OverRanks.MAX,
        _doubtful,
        (measured_steps,),
        (Need.STEPS,),
    ),
)
