"""The matrix products of a rank, each with its work and the least time that its device needs for it."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.evidence.work_of_ops import work_of_ops
from tracebraid.analysis.efficiency.counted_ops import counted_ops
from tracebraid.analysis.efficiency.peaks import peak_bandwidth_of, peak_flops_of
from tracebraid.model.answers.efficiency import OpFamily
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["products"]

_NS = 1e9


def products(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """One row per matrix product that counts, in the order of `work_of_ops`.

    Columns: those of `work_of_ops`; name, input_dims, input_types, input_strides, precision, flops and bytes of
    `counted_ops`; least_ns = max(FLOPs / peak FLOP/s, bytes / peak bandwidth), null where the peaks or the FLOPs are
    unknown.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_products, annotation)


def _products(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    ops = counted_ops(linked).filter(pl.col("is_op") & (pl.col("family") == OpFamily.MATMUL.value))
    work = work_of_ops(linked, annotation, ops.get_column("event_id"))
    columns = ["name", "input_dims", "input_types", "input_strides", "precision", "flops", "bytes"]
    found = work.join(
        ops.select(pl.col("event_id").alias("op_event"), *columns),
        on="op_event",
        how="inner",
        maintain_order="left",
    )
    peaks, bandwidth = peak_flops_of(linked, None), peak_bandwidth_of(linked, None)
    if not peaks or bandwidth is None:
        return found.with_columns(pl.lit(None, dtype=pl.Float64).alias("least_ns"))
    peak = pl.col("precision").replace_strict(peaks, default=None, return_dtype=pl.Float64)
    compute, memory = pl.col("flops") / peak * _NS, pl.col("bytes") / bandwidth * _NS
    known = compute.is_not_null() & memory.is_not_null()
    return found.with_columns(pl.when(known).then(pl.max_horizontal(compute, memory)).alias("least_ns"))
