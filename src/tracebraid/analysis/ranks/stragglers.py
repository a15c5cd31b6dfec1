"""Which ranks hold the others up again and again, and why?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.distributions.binomial import at_least
from tracebraid.analysis.ranks.late_arrivals import LEAST_LATENESS_NS, late_arrivals
from tracebraid.analysis.ranks.lateness.chance import blocks_for
from tracebraid.model.answers import STRAGGLERS, LateCause
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.step import PROFILER_STEP

__all__ = ["stragglers"]

_LEVEL = 0.01
"""Probability below which it is not by chance that a rank is the latest, corrected for the number of ranks."""

_LEAST_TIME_SHARE = 0.005
"""Share of the job's time that a systematic straggler's lateness takes at least; what takes less is no matter."""

_NORMAL_95 = 1.96
"""Standard errors on either hand of a mean in its 95 % interval."""

_NOT_OWN = [
    cause.value for cause in (LateCause.INHERITED, LateCause.BEFORE_RECORDING, LateCause.PIPELINE_ORDER)
]
"""Causes that say nothing against the late rank itself."""


def stragglers(
    ranks: LinkedRanks, annotation: str = PROFILER_STEP, least_ns: int = LEAST_LATENESS_NS
) -> pl.DataFrame:
    """The ranks that were late by a cause of their own, told from chance: `model.answers.STRAGGLERS`.

    If no rank were slower than others, each would be equally likely to be the latest of a step, by the sum of its
    lateness. So of the steps in which a rank was late by its own cause, the number in which it is a given rank has a
    binomial distribution; its upper tail, times the number of ranks (Bonferroni), is `p_value`. Where there are too
    few steps to rule out chance, collectives take their place: less certain, since those of a step have much in common.

    Args:
        ranks: the ranks of a job.
        annotation: what marks a step.
        least_ns: lateness and waiting below which a late arrival does not count, in ns.
    """
    late = late_arrivals(ranks, annotation, least_ns)
    own = late.filter(~pl.col("cause").is_in(_NOT_OWN))
    if own.is_empty():
        return STRAGGLERS.empty()
    count = ranks.members.filter(pl.col("collective").is_not_null()).get_column("rank").n_unique()
    found = (
        _lateness(own)
        .join(_worst(own, count), on="rank", how="left")
        .join(_caused(late, own), on="rank", how="left")
        .join(_main_cause(own), on="rank", how="left")
        .join(_late_time(own), on="rank", how="left")
        .with_columns((pl.col("late_time_ns") / max(_span(ranks), 1)).alias("time_share"))
        .with_columns(
            ((pl.col("p_value") < _LEVEL) & (pl.col("time_share") >= _LEAST_TIME_SHARE)).alias("systematic")
        )
    )
    return STRAGGLERS.conform(found.sort("caused_ns", "rank", descending=[True, False]))


def _lateness(own: pl.DataFrame) -> pl.DataFrame:
    lateness = pl.col("lateness_ns")
    error = _NORMAL_95 * lateness.std(ddof=1) / pl.len().sqrt()
    return own.group_by("rank").agg(
        pl.len().cast(pl.Int64).alias("late_count"),
        lateness.sum(),
        lateness.mean().alias("mean_ns"),
        (lateness.mean() - error).alias("mean_low_ns"),
        (lateness.mean() + error).alias("mean_high_ns"),
    )


def _late_time(own: pl.DataFrame) -> pl.DataFrame:
    """How much time each rank was late: a sleep may make it late at collectives of several groups at once."""
    end = pl.col("start_ns")
    begin = end - pl.col("lateness_ns")
    reach = end.cum_max().shift(1).over("rank")
    return (
        own.sort("rank", "start_ns")
        .with_columns((end - pl.max_horizontal(begin, reach)).clip(lower_bound=0).alias("late_time_ns"))
        .group_by("rank")
        .agg(pl.col("late_time_ns").sum())
    )


def _worst(own: pl.DataFrame, count: int) -> pl.DataFrame:
    """Of each rank in how many blocks it was the latest, and how probable that is by chance."""
    in_steps = own.filter(pl.col("step").is_not_null())
    by_steps = in_steps.get_column("step").n_unique() >= blocks_for(count, _LEVEL)
    rows, block = (in_steps, "step") if by_steps else (own, "collective")
    sums = rows.group_by(block, "rank").agg(pl.col("lateness_ns").sum())
    worst = sums.sort("lateness_ns", "rank", descending=[True, False]).unique(
        block, keep="first", maintain_order=True
    )
    counts = dict(worst.group_by("rank").len().iter_rows())
    of_ranks = own.get_column("rank").unique(maintain_order=True).to_list()
    worst_counts = [counts.get(rank, 0) for rank in of_ranks]
    probable = [at_least(times, worst.height, 1 / count) for times in worst_counts]
    return pl.DataFrame(
        {
            "rank": of_ranks,
            "blocks": worst.height,
            "worst_count": worst_counts,
            "share": [times / worst.height for times in worst_counts],
            "p_value": [min(1.0, count * value) for value in probable],
        }
    )


def _caused(late: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """How long others waited for a rank, or for those who inherited its lateness."""
    key = ["origin_rank", "origin_collective"]
    first = own.select(pl.col("rank").alias(key[0]), pl.col("collective").alias(key[1]))
    caused = late.with_columns(pl.coalesce(key[0], "rank"), pl.coalesce(key[1], "collective"))
    return (
        caused.join(first, on=key, how="semi")
        .group_by(pl.col("origin_rank").alias("rank"))
        .agg(pl.col("caused_ns").sum())
    )


def _main_cause(own: pl.DataFrame) -> pl.DataFrame:
    explained = pl.col("explained_ns").fill_null(0)
    by_name = own.group_by("rank", "cause", "name").agg(explained.sum())
    total = own.group_by("rank").agg(pl.col("lateness_ns").sum().alias("total_ns"))
    first = by_name.sort(
        "explained_ns", "cause", "name", descending=[True, False, False], nulls_last=True
    ).unique(["rank", "cause"], keep="first", maintain_order=True)
    return (
        own.group_by("rank", "cause")
        .agg(explained.sum().alias("cause_ns"))
        .sort("cause_ns", "cause", descending=[True, False])
        .unique("rank", keep="first", maintain_order=True)
        .join(first.select("rank", "cause", "name"), on=["rank", "cause"], how="left")
        .join(total, on="rank")
        .with_columns((pl.col("cause_ns") / pl.col("total_ns")).alias("cause_share"))
        .select("rank", "cause", "name", "cause_share")
    )


def _span(ranks: LinkedRanks) -> int:
    """From the first collective to the end of the last, of the rank where that is longest: clocks may be unknown."""
    length = pl.col("end_ns").max() - pl.col("start_ns").min()
    longest = ranks.members.group_by("rank").agg(length.alias("span_ns")).get_column("span_ns").max()
    return longest if isinstance(longest, int) else 0
