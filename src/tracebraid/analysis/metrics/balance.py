"""How unequal is the work of the ranks, and how much do they wait for each other?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.collectives.transfers.waits import waits
from tracebraid.analysis.metrics.measured_steps import counted_steps, measured_steps
from tracebraid.analysis.metrics.values.ratios import SAMPLE, ratio_values
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.metric import VALUES, Metric, MetricOptions, OverRanks, Unit

__all__ = ["METRICS"]


def _load_imbalance(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    """Of the job max / mean, of a rank its own compute / mean; of steps that count on every rank that has steps."""
    steps = counted_steps(ranks.of(measured_steps), options)
    count = steps.get_column("rank").n_unique()
    if count < 2:
        return VALUES.empty()
    compute = pl.col("compute_ns")
    mean = compute.mean().over(*SAMPLE).alias("base")
    common = steps.filter(pl.len().over(*SAMPLE) == count).with_columns(mean)
    each = ratio_values(common.with_columns(compute.alias("amount")), OverRanks.POOLED)
    job = common.group_by(*SAMPLE, maintain_order=True).agg(
        pl.lit(0, dtype=pl.Int64).alias("rank"), compute.max().alias("amount"), pl.col("base").first()
    )
    of_job = ratio_values(job, OverRanks.POOLED, bounds=(1.0, None)).filter(pl.col("rank").is_null())
    of_job = of_job.with_columns(pl.lit(count, dtype=pl.Int64).alias("ranks"))
    return pl.concat([of_job, each.filter(pl.col("rank").is_not_null())])


def _wait_share(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    return ratio_values(_waiting(ranks, options).rename({"dur_ns": "base"}), OverRanks.POOLED, (0.0, 1.0))


def _wait_time(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    steps = _steps_by_name(ranks, options).filter(pl.col("step").is_not_null())
    with_waits = pl.col("rank").is_in(ranks.members.get_column("rank").implode())
    found = steps.filter(with_waits).join(
        _waiting(ranks, options).drop("occurrence"), on=["rank", "step"], how="left", maintain_order="left"
    )
    samples = found.with_columns(
        pl.col("amount").fill_null(0),
        pl.col("count").alias("base"),
        pl.lit(0, dtype=pl.Int64).alias("occurrence"),
    )
    return ratio_values(samples, OverRanks.POOLED)


def _waiting(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    """By rank and step: the waiting (`amount`) and the duration (`dur_ns`) of members whose waiting is known."""
    steps = _steps_by_name(ranks, options).select("rank", "step")
    return (
        waits(ranks)
        .filter(pl.col("waiting_ns").is_not_null())
        .join(steps, on=["rank", "step"], how="semi", nulls_equal=True)
        .group_by("rank", "step", maintain_order=True)
        .agg(pl.col("waiting_ns").sum().alias("amount"), pl.col("dur_ns").sum())
        .with_columns(pl.lit(0, dtype=pl.Int64).alias("occurrence"))
    )


def _steps_by_name(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    """The steps that count by rank and name, with the `count` of those that share it."""
    steps = counted_steps(ranks.of(measured_steps), options)
    return steps.group_by("rank", "step", maintain_order=True).agg(pl.len().alias("count"))


METRICS = (
    Metric(
        "load_imbalance",
        Unit.RATIO,
        "sum over steps of the greatest compute of a rank / sum over steps of the ranks' mean compute; of a rank its "
        "own compute instead of the greatest",
        OverRanks.BETWEEN,
        _load_imbalance,
        (measured_steps,),
        (Need.SEVERAL_RANKS,),
    ),
    Metric(
        "wait_time_per_step",
        Unit.NS,
        "sum of `waiting_ns` of members, the time until the last rank has arrived / steps; of a job the mean of a rank",
        OverRanks.POOLED,
        _wait_time,
        (measured_steps,),
        (Need.SEVERAL_RANKS, Need.COMMUNICATION, Need.STEPS),
    ),
    Metric(
        "wait_share",
        Unit.SHARE,
        "sum of `waiting_ns` / sum of durations, of members whose waiting is known",
        OverRanks.POOLED,
        _wait_share,
        (measured_steps,),
        (Need.SEVERAL_RANKS, Need.COMMUNICATION),
    ),
)
