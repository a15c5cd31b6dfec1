"""What bandwidth do collectives reach, by group, type and size?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.collectives.bandwidth.bus_factors import algorithm_rate, bus_rate
from tracebraid.analysis.collectives.transfers.transfers import transfers
from tracebraid.analysis.statistics import max_of, mean_of, median_of, min_of, p95_of, std_of
from tracebraid.model.answers import COLLECTIVE_BANDWIDTH
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.step import PROFILER_STEP

__all__ = ["collective_bandwidth"]

_KEY = ("group", "type", "dtype", "group_size", "size_bytes", "library", "algorithm", "protocol")
_TRANSFER = pl.col("transfer_ns")


def collective_bandwidth(
    ranks: LinkedRanks,
    *,
    per_step: bool = False,
    peak_bandwidth: float | None = None,
    annotation: str = PROFILER_STEP,
) -> pl.DataFrame:
    """Transfers and bandwidths of alike collectives: `COLLECTIVE_BANDWIDTH`.

    Args:
        ranks: the ranks of a job.
        per_step: rows per step instead of over all.
        peak_bandwidth: of the interconnect, in bytes/s, with which bus bandwidth is compared.
        annotation: what marks a step.

    The source of the formulas is nccl-tests' `doc/PERFORMANCE.md`.
    """
    del annotation  # It was asked for when members were taken of each rank.
    found = transfers(ranks)
    if not per_step:
        found = found.with_columns(pl.lit(None, dtype=pl.String).alias("step"))
    peak = peak_bandwidth if peak_bandwidth is not None and peak_bandwidth > 0 else None
    durations = pl.col("dur_ns").filter(pl.col("waiting_ns").is_not_null()).sum()
    rows = (
        found.group_by("step", *_KEY, maintain_order=True)
        .agg(
            pl.col("description").drop_nulls().first(),
            pl.col("first_arrival_ns").first(),
            pl.len().alias("count"),
            pl.col("is_bound").fill_null(value=True).sum().alias("bounds"),
            _TRANSFER.sum(),
            mean_of(_TRANSFER, "transfer_mean_ns"),
            median_of(_TRANSFER, "transfer_median_ns"),
            p95_of(_TRANSFER, "transfer_p95_ns"),
            min_of(_TRANSFER, "transfer_min_ns"),
            max_of(_TRANSFER, "transfer_max_ns"),
            std_of(_TRANSFER, "transfer_std_ns"),
            pl.when(durations > 0).then(pl.col("waiting_ns").sum() / durations).alias("waiting_share"),
        )
        .with_columns(algorithm_rate(pl.col("transfer_median_ns")).alias("algorithm_bytes_per_s"))
        .with_columns(bus_rate().alias("bus_bytes_per_s"))
        .with_columns((pl.col("bus_bytes_per_s") / pl.lit(peak, dtype=pl.Float64)).alias("peak_share"))
    )
    # Rows of a step stand together, steps in the order of their first collective.
    begun = pl.col("first_arrival_ns").min().over("step")
    ordered = rows.sort(
        begun, "step", "transfer_ns", "first_arrival_ns", *_KEY, descending=[False, False, True, *[False] * 9]
    )
    return COLLECTIVE_BANDWIDTH.conform(ordered)
