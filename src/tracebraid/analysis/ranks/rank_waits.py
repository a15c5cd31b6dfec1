"""Which rank waits for which, and how long?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.ranks.lateness.arrivals import arrivals
from tracebraid.model.answers import RANK_WAITS
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.step import PROFILER_STEP

__all__ = ["rank_waits"]


def rank_waits(ranks: LinkedRanks, annotation: str = PROFILER_STEP, per_step: bool = False) -> pl.DataFrame:
    """Who waited for whom at collectives: `model.answers.RANK_WAITS`.

    Args:
        ranks: the ranks of a job.
        annotation: what marks a step.
        per_step: a row per step too.
    """
    step = pl.col("step") if per_step else pl.lit(None, dtype=pl.String).alias("step")
    keys = ["rank", "step", "waited_for"]
    waited = pl.col("waited_ns")
    found = (
        arrivals(ranks)
        .filter(pl.col("waited_for").is_not_null() & (waited > 0))
        .with_columns(step)
        .group_by(keys, maintain_order=True)
        .agg(
            waited.sum().alias("waiting_ns"),
            pl.len().cast(pl.Int64).alias("count"),
            waited.max().alias("longest_ns"),
            pl.col("arrival_ns").min().alias("first"),
        )
        .with_columns((pl.col("waiting_ns") / pl.col("waiting_ns").sum().over("rank", "step")).alias("share"))
    )
    order = pl.col("first").min().over("step")
    return RANK_WAITS.conform(found.sort("rank", order, "waited_for"))
