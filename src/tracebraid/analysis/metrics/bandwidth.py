"""What bandwidth do the collectives of a type reach, without waiting?"""

from __future__ import annotations

from functools import partial

import polars as pl

from tracebraid.analysis.collectives.transfers.transfers import transfers
from tracebraid.analysis.metrics.measured_steps import counted_steps, measured_steps
from tracebraid.analysis.metrics.values.ratios import ratio_values
from tracebraid.model.answers.job.metrics import MetricLack
from tracebraid.model.collectives.codes import CollectiveType
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.metric import VALUES, Metric, MetricOptions, OverRanks, Unit
from tracebraid.model.units import NS_PER_S

__all__ = ["METRICS"]

_TYPES = (
    CollectiveType.ALL_REDUCE,
    CollectiveType.ALL_GATHER,
    CollectiveType.REDUCE_SCATTER,
    CollectiveType.ALL_TO_ALL,
    CollectiveType.BROADCAST,
    CollectiveType.SEND_RECEIVE,
)
_FORMULA = (
    "sum of bus bandwidth x transfer / sum of transfers, of collectives of that type whose transfer is no bound (see "
    "`collectives`); of a rank those in which it takes part"
)


def _bandwidth(ranks: LinkedRanks, options: MetricOptions, kind: CollectiveType) -> pl.DataFrame:
    return _values(_known(ranks, options).filter(pl.col("type") == kind.value), NS_PER_S)


def _peak_share(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    if options.peak_bandwidth is None:
        return VALUES.empty()
    return _values(_known(ranks, options), NS_PER_S / options.peak_bandwidth)


def _known(ranks: LinkedRanks, options: MetricOptions) -> pl.DataFrame:
    """The collectives of steps that count of which size and transfer are known."""
    steps = counted_steps(ranks.of(measured_steps), options).select("step").unique()
    is_bound = pl.col("is_bound").fill_null(value=True)
    return (
        transfers(ranks)
        .join(steps, on="step", how="semi", nulls_equal=True, maintain_order="left")
        .filter(~is_bound & (pl.col("transfer_ns") > 0) & pl.col("bus_bytes_per_s").is_not_null())
    )


def _values(found: pl.DataFrame, factor: float) -> pl.DataFrame:
    """Of the collectives of each rank, and of all, each collective once."""
    amount = pl.col("bus_bytes_per_s") * pl.col("transfer_ns") / NS_PER_S * factor
    counted = found.select(
        "ranks",
        "step",
        pl.lit(0, dtype=pl.Int64).alias("occurrence"),
        amount.alias("amount"),
        pl.col("transfer_ns").alias("base"),
    )
    of_ranks = counted.explode("ranks").rename({"ranks": "rank"})
    count = of_ranks.get_column("rank").n_unique()
    job = ratio_values(_by_step(counted.with_columns(rank=pl.lit(0, dtype=pl.Int64))), OverRanks.POOLED)
    job = job.filter(pl.col("rank").is_null()).with_columns(pl.lit(count, dtype=pl.Int64).alias("ranks"))
    each = ratio_values(_by_step(of_ranks), OverRanks.POOLED)
    return pl.concat([job, each.filter(pl.col("rank").is_not_null())])


def _by_step(rows: pl.DataFrame) -> pl.DataFrame:
    key = ["rank", "step", "occurrence"]
    return rows.group_by(key, maintain_order=True).agg(pl.col("amount", "base").sum())


def _metric(kind: CollectiveType) -> Metric:
    return Metric(
        f"{kind.value}_bus_bandwidth",
        Unit.BYTES_PER_S,
        _FORMULA,
        OverRanks.BETWEEN,
        partial(_bandwidth, kind=kind),
        (measured_steps,),
        (Need.SEVERAL_RANKS, Need.COMMUNICATION),
        MetricLack.RANKS_MISSING,
    )


METRICS = (
    *map(_metric, _TYPES),
    Metric(
        "bus_bandwidth_peak_share",
        Unit.RATIO,
        "the same of collectives of all types / the stated peak bandwidth",
        OverRanks.BETWEEN,
        _peak_share,
        (measured_steps,),
        (Need.SEVERAL_RANKS, Need.COMMUNICATION),
        MetricLack.PEAK_NOT_STATED,
    ),
)
"""GB = 10^9 bytes, as in nccl-tests."""
