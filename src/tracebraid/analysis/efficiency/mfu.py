"""How much of the device's peak do the model's FLOPs reach, step by step?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.efficiency.calls import has_shapes
from tracebraid.analysis.efficiency.counted_ops import counted_ops, counted_ops_by_step
from tracebraid.analysis.efficiency.peaks import peak_flops_of
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.answers import MFU
from tracebraid.model.answers.efficiency import OpFamily
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["mfu"]

_COUNTED = [family.value for family in (OpFamily.MATMUL, OpFamily.CONVOLUTION, OpFamily.ATTENTION)]
"""Families whose FLOPs count: those that `torch.utils.flop_counter.FlopCounterMode` counts."""
_NS = 1e9


def mfu(
    linked: LinkedTrace, annotation: str = PROFILER_STEP, peak_flops: float | None = None
) -> pl.DataFrame:
    """Model and hardware FLOPs utilisation, over the trace and for each step: `model.answers.MFU`.

    MFU = model FLOPs / (span x peak), HFU = hardware FLOPs / (span x peak) (Chowdhery et al.: "PaLM", appendix B).
    FLOPs are those of matmul, convolution and attention; hardware FLOPs, as in `torch.utils.flop_counter`, count what
    activation checkpointing and a fused backward of attention compute again, model FLOPs do not. Pairs that a causal
    mask leaves out count in both. The peak is that of the
    precision in which most of these FLOPs are computed. The span of a step is its annotation's time on
    the host, summed where steps share a name. Empty where neither trace has shapes.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
        peak_flops: of the device, in FLOP/s; None: as `model.device_peaks` has it.
    """
    if not has_shapes(linked) or counted_ops(linked).is_empty():
        return MFU.empty()
    peaks = peak_flops_of(linked, peak_flops)
    span = linked.timeline.span_ns or (0, 0)
    whole = _sums(counted_ops_by_step(linked, False, annotation)).with_columns(
        pl.lit(span[1] - span[0], dtype=pl.Int64).alias("span_ns")
    )
    steps = (
        step_windows(linked, annotation)
        .group_by("step", maintain_order=True)
        .agg((pl.col("end_ns") - pl.col("start_ns")).sum().alias("span_ns"))
    )
    by_step = _sums(counted_ops_by_step(linked, True, annotation))
    found = steps.join(by_step, on="step", how="left", maintain_order="left")
    rows = pl.concat([whole, found.select(whole.columns)]).with_columns(
        (
            pl.col("precision").replace_strict(peaks, default=None, return_dtype=pl.Float64)
            if peaks
            else pl.lit(None, dtype=pl.Float64)
        ).alias("peak_flops_per_s"),
    )
    return answer(MFU, rows.with_columns(*_rates()).with_columns(*_shares()), linked, annotation)


def _sums(ops: pl.DataFrame) -> pl.DataFrame:
    """By step: FLOPs, the precision of most of them, and the share of time of ops whose FLOPs are known."""
    counts, repeated = pl.col("family").is_in(_COUNTED), pl.col("repeated_flops").fill_null(0)
    flops, time = pl.col("flops"), pl.col("device_ns")
    matrices = ops.filter(counts & (flops > 0))
    precision = (
        matrices.group_by("step", "precision")
        .agg(flops.sum())
        .sort("flops", "precision", descending=[True, False])
        .unique("step", keep="first", maintain_order=True)
        .select("step", "precision")
    )
    all_time = time.sum()
    asked = pl.when((counts & flops.is_null()).any()).then(counts).otherwise(pl.lit(value=True))
    is_known = (asked & flops.is_not_null()).any()
    sums = ops.group_by("step").agg(
        pl.when(is_known)
        .then((flops - repeated).filter(counts & ~pl.col("is_recompute")).sum())
        .alias("model_flops"),
        pl.when(is_known).then(flops.filter(counts).sum()).alias("hardware_flops"),
        pl.when(all_time > 0).then(time.filter(flops.is_not_null()).sum() / all_time).alias("known_share"),
    )
    return sums.join(precision, on="step", how="left", nulls_equal=True)


def _rates() -> list[pl.Expr]:
    span = pl.col("span_ns")
    return [
        pl.when(span > 0).then(pl.col(f"{name}_flops") / span * _NS).alias(f"{name}_flops_per_s")
        for name in ("model", "hardware")
    ]


def _shares() -> list[pl.Expr]:
    peak = pl.col("peak_flops_per_s")
    return [
        (pl.col("model_flops_per_s") / peak).alias("mfu"),
        (pl.col("hardware_flops_per_s") / peak).alias("hfu"),
    ]
