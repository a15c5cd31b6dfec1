"""How much do the steps differ in length, and in which part?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.statistics import max_of, mean_of, median_of, min_of, p95_of, std_of
from tracebraid.analysis.time.step_times import step_times
from tracebraid.model.answers import STEP_SPREAD, StepPart
from tracebraid.model.expressions import by_number
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["step_spread"]


def step_spread(
    linked: LinkedTrace,
    annotation: str = PROFILER_STEP,
    with_warmup: bool = False,
    with_doubtful: bool = False,
) -> pl.DataFrame:
    """A row for each device and part of the step, in the order of `StepPart`: `model.answers.STEP_SPREAD`.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
        with_warmup: count warm-up steps, too.
        with_doubtful: count steps about which `validity` has a doubt, too.
    """
    times = step_times(linked, annotation)
    counted = (pl.lit(with_warmup) | ~pl.col("warmup")) & (pl.lit(with_doubtful) | ~pl.col("doubtful"))
    left_out = times.group_by("device").agg(
        (pl.col("warmup") & (not with_warmup)).sum().cast(pl.Int64).alias("warmup_left_out"),
        (pl.col("doubtful") & (not with_doubtful)).sum().cast(pl.Int64).alias("doubtful_left_out"),
    )
    order = [part.value for part in StepPart]
    value = pl.col("value")
    mean, std = mean_of(value), std_of(value)
    return (
        times.filter(counted)
        .rename({f"{part}_ns": part for part in order})
        .unpivot(on=order, index="device", variable_name="part")
        .filter(value.is_not_null())
        .group_by("device", "part", maintain_order=True)
        .agg(
            pl.len().alias("count"),
            mean,
            median_of(value),
            std,
            p95_of(value),
            min_of(value),
            max_of(value),
            pl.when(mean != 0).then(std / mean).alias("variation"),
        )
        .join(left_out, on="device", how="left", maintain_order="left")
        .sort(*by_number("device"), pl.col("part").cast(pl.Enum(order)))
        .pipe(lambda frame: answer(STEP_SPREAD, frame, linked, annotation))
    )
