"""Costs of ops by name, shapes, types and precision, with their least time on the device."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracebraid.analysis.efficiency.counted_ops import counted_ops_by_step
from tracebraid.analysis.efficiency.peaks import peak_bandwidth_of, peak_flops_of
from tracebraid.model.answers.efficiency import Bound
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["LATENCY_NS", "Peaks", "costs_by_shape"]

LATENCY_NS = 2_000
"""Least time of a run below which latency limits it, in ns: an empty kernel takes 1 to 2 us on the devices of today."""

_NS = 1e9
_KEY = ["step", "name", "family", "input_dims", "input_types", "is_recompute", "precision"]


@dataclass(frozen=True)
class Peaks:
    """What counts as a device's peaks.

    Args:
        flops: FLOP/s, for each precision; None: those of the device.
        bandwidth: bytes/s; None: that of the device.
    """

    flops: float | None = None
    bandwidth: float | None = None


def costs_by_shape(linked: LinkedTrace, per_step: bool, annotation: str, peaks: Peaks) -> pl.DataFrame:
    """One row per name, shapes, types and precision, in no order.

    Adds to sums of costs: peak_flops_per_s, peak_bytes_per_s, bound and least_ns. With F FLOPs, B bytes and n runs,
    least_ns = max(F / peak_flops_per_s, B / peak_bytes_per_s), where each part that is not known is left out. The bound
    is `interconnect` for collectives and copies from and to the host, whose least time no peak here tells; `latency`
    where the least time of a run is below `LATENCY_NS`; else `compute` or `memory`, whichever takes longer.

    Args:
        linked: one rank.
        per_step: rows for each step in which the ops started.
        annotation: what marks a step.
        peaks: of the device.
    """
    ops = counted_ops_by_step(linked, per_step, annotation)
    sums = ops.group_by(_KEY).agg(
        pl.len().cast(pl.Int64).alias("count"),
        *(_known_sum(name) for name in ("flops", "causal_flops", "bytes")),
        pl.col("kernels", "device_ns").sum(),
        pl.col("moves_between_memories").any(),
    )
    flops_per_s = peak_flops_of(linked, peaks.flops)
    peak = pl.col("precision").replace_strict(flops_per_s, default=None, return_dtype=pl.Float64)
    bandwidth = peak_bandwidth_of(linked, peaks.bandwidth)
    found = sums.with_columns(
        (peak if flops_per_s else pl.lit(None, dtype=pl.Float64)).alias("peak_flops_per_s"),
        pl.lit(bandwidth, dtype=pl.Float64).alias("peak_bytes_per_s"),
    )
    return found.with_columns(*_times()).with_columns(*_bound()).drop("compute_ns", "memory_ns")


def _known_sum(name: str) -> pl.Expr:
    """A sum, null where any part of it is: less than all would look like all."""
    return pl.when(pl.col(name).is_null().any()).then(None).otherwise(pl.col(name).sum()).alias(name)


def _times() -> list[pl.Expr]:
    flops, size = pl.col("flops"), pl.col("bytes")
    compute = pl.when(flops == 0).then(0.0).otherwise(flops / pl.col("peak_flops_per_s") * _NS)
    memory = size / pl.col("peak_bytes_per_s") * _NS
    return [compute.alias("compute_ns"), memory.alias("memory_ns")]


def _bound() -> list[pl.Expr]:
    leaves = pl.col("moves_between_memories")
    compute, memory = pl.col("compute_ns"), pl.col("memory_ns")
    computes = (pl.col("flops") > 0).fill_null(value=False)
    is_known = ~leaves & memory.is_not_null() & (compute.is_not_null() | ~computes)
    least = pl.when(is_known).then(pl.max_horizontal(compute, memory))
    bound = (
        pl.when(leaves)
        .then(pl.lit(Bound.INTERCONNECT.value))
        .when(least.is_null())
        .then(None)
        .when(least < LATENCY_NS * pl.col("count"))
        .then(pl.lit(Bound.LATENCY.value))
        .when(compute.fill_null(0.0) > memory)
        .then(pl.lit(Bound.COMPUTE.value))
        .otherwise(pl.lit(Bound.MEMORY.value))
    )
    return [least.round().cast(pl.Int64, strict=False).alias("least_ns"), bound.alias("bound")]
