"""How much does a step communicate?"""

from __future__ import annotations

from functools import partial

import polars as pl

from tracebraid.analysis.metrics.measured_steps import counted_steps, measured_steps
from tracebraid.analysis.metrics.values.ratios import ratio_values
from tracebraid.model.answers.job.metrics import MetricLack
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.metric import Metric, MetricOptions, OverRanks, Unit

__all__ = ["METRICS"]


def _per_step(ranks: LinkedRanks, options: MetricOptions, column: str) -> pl.DataFrame:
    """Of each rank, and summed over ranks; a rank with members of unknown size has none, and then the job neither."""
    steps = _steps(ranks, options)
    members = ranks.members.join(steps, on=["rank", "step"], how="semi")
    is_barrier = (pl.col("type") == CollectiveType.BARRIER.value).fill_null(value=False)
    size = pl.when(is_barrier).then(0).otherwise(pl.col("in_bytes"))
    amounts = members.group_by("rank", "step").agg(
        size.sum().alias("bytes"), pl.len().alias("members"), size.is_null().any().alias("unknown")
    )
    samples = steps.join(amounts, on=["rank", "step"], how="left", maintain_order="left").with_columns(
        pl.col(column).fill_null(0).alias("amount"),
        pl.lit(0, dtype=pl.Int64).alias("occurrence"),
        (pl.col("unknown").fill_null(value=False) & (column == "bytes")).any().over("rank").alias("unknown"),
    )
    known = samples.filter(
        ~pl.col("unknown") & pl.col("rank").is_in(ranks.members.get_column("rank").implode())
    )
    values = ratio_values(known, OverRanks.SUM)
    return values if not samples.get_column("unknown").any() else values.filter(pl.col("rank").is_not_null())


def _steps(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    """The steps that count, by name: `base` is how many have it."""
    return (
        counted_steps(ranks.of(measured_steps), options)
        .filter(pl.col("step").is_not_null())
        .group_by("rank", "step", maintain_order=True)
        .agg(pl.len().alias("base"))
    )


METRICS = (
    Metric(
        "communication_bytes_per_step",
        Unit.BYTES_PER_STEP,
        "sum of `in_bytes`, what a rank gives to collectives and sends / steps",
        OverRanks.SUM,
        partial(_per_step, column="bytes"),
        (measured_steps,),
        (Need.STEPS, Need.COMMUNICATION),
        MetricLack.SIZES_UNKNOWN,
    ),
    Metric(
        "collectives_per_step",
        Unit.PER_STEP,
        "collectives, sends and receives / steps; of a job those of each rank count",
        OverRanks.SUM,
        partial(_per_step, column="members"),
        (measured_steps,),
        (Need.STEPS, Need.COMMUNICATION),
    ),
)
