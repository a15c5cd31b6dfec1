"""How unequal is the work of the ranks?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.metrics.measured_steps import counted_steps, measured_steps
from tracebraid.analysis.metrics.ratios import SAMPLE, ratio_values
from tracebraid.model.analysis import Need
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.metric import VALUES, Metric, MetricOptions, OverRanks, Unit

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
    of_job = ratio_values(job, OverRanks.POOLED).filter(pl.col("rank").is_null())
    of_job = of_job.with_columns(pl.lit(count, dtype=pl.Int64).alias("ranks"))
    return pl.concat([of_job, each.filter(pl.col("rank").is_not_null())])


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
)
