"""Matrix products and convolutions in full FP32 on a device whose tensor cores could do them."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.evidence.device_work import device_work
from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.work_of_ops import owners_of
from tracebraid.analysis.antipatterns.matmuls.products import products
from tracebraid.analysis.efficiency.costs_by_shape import LATENCY_NS
from tracebraid.analysis.efficiency.peaks import peak_flops_of
from tracebraid.model.device_peaks import Precision
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.name_rules import flags_by_name
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["DETECTOR", "FP32_KERNEL", "full_precision_products"]

FP32_KERNEL = (
    r"(?i)sgemm|_simt_s|scudnn|convolve_sgemm|_f32f32_f32f32_f32_|"
    r"winograd\w*_fp32_fp32|gemmsn_\w+<float"
)
"""Names of kernels of cuBLAS, CUTLASS and cuDNN that multiply FP32 outside of tensor cores."""

_TENSOR_CORES = r"(?i)tf32|tensorop|s1688|s884|h884|s16816|hmma|half|bf16|f16f16"
"""Names of kernels that multiply on tensor cores, or nothing in FP32."""

_FASTER = (Precision.TF32.value, Precision.FP16.value, Precision.BF16.value)
_NS = 1e9


def full_precision_products(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Kernels that multiply FP32 outside of tensor cores, by their names.

    In lower precision the kernels of an op take at least FLOPs / the fastest peak of TF32, FP16 and BF16, and at least
    `LATENCY_NS`, however efficient they are. So the op saves at most the time of these kernels less that, and the time
    of them that no other compute hides; its kernels share that out. Of convolutions only `LATENCY_NS` counts:
    Winograd's and Fourier's methods need fewer FLOPs than are counted, and one op has several kinds of kernels. Nothing
    is found on devices without such peaks, or with unknown ones.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    peaks = peak_flops_of(linked, None)
    own = peaks.get(Precision.FP32.value, 0.0)
    best = max((peaks.get(name, 0.0) for name in _FASTER), default=0.0)
    work = device_work(linked, annotation)
    if own <= 0 or best <= own:
        work = work.clear()
    full = flags_by_name(
        work.get_column("name"),
        lambda name: name.str.contains(FP32_KERNEL) & ~name.str.contains(_TENSOR_CORES),
    )
    found = work.filter(pl.Series(full, dtype=pl.Boolean))
    ops = products(linked, annotation).select(pl.col("op_event").alias("owner"), "flops")
    owner = pl.Series("owner", owners_of(linked, found.get_column("op_event"), ops.get_column("owner")))
    # Outside of products, as in a convolution, the kernels of an op belong together.
    launcher = found.select(pl.coalesce("op_event", "event_id")).to_series()
    owner = owner.zip_with(owner >= 0, -2 - launcher)
    found = found.with_columns(owner).join(ops, on="owner", how="left", maintain_order="left")
    needed = (pl.col("flops") / best * _NS) if best > 0 else pl.col("flops")
    least = pl.max_horizontal(needed.fill_null(0.0), float(LATENCY_NS))
    alone = pl.col("alone_ns").sum().over("owner")
    saved = pl.min_horizontal(alone, pl.col("dur_ns").sum().over("owner") - least)
    share = pl.when(alone > 0).then(pl.col("alone_ns") / alone).otherwise(0.0)
    return evidence_of(
        linked,
        annotation,
        found.select(
            pl.col("ts_ns").alias("start_ns"),
            "end_ns",
            (saved * share).ceil().cast(pl.Int64).alias("saving_ns"),
            "event_id",
            pl.col("op_event").alias("host_event"),
            pl.col("name").alias("subject"),
        ),
    )


DETECTOR = Detector(
    "full-precision-products",
    "FP32 matrix products outside of the tensor cores",
    'torch.autocast in bfloat16, or torch.set_float32_matmul_precision("high") for TF32',
    full_precision_products,
    (Need.DEVICE_WORK,),
)
