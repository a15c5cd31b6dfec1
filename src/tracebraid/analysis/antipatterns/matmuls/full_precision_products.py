"""Matrix products and convolutions in full FP32 on a device whose tensor cores could do them."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.evidence.device_work import device_work
from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
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


def full_precision_products(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Kernels that multiply FP32 outside of tensor cores, by their names.

    At best a kernel takes the share of its time that the peaks allow: saving = time x (1 - FP32 / fastest of TF32,
    FP16 and BF16), and no kernel takes less than `LATENCY_NS`. Nothing is found on devices without such peaks, or
    with unknown ones.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    peaks = peak_flops_of(linked, None)
    faster = [Precision.TF32.value, Precision.FP16.value, Precision.BF16.value]
    own, best = (
        peaks.get(Precision.FP32.value, 0.0),
        max((peaks.get(name, 0.0) for name in faster), default=0.0),
    )
    work = device_work(linked, annotation)
    if own <= 0 or best <= own:
        work = work.clear()
    full = flags_by_name(
        work.get_column("name"),
        lambda name: name.str.contains(FP32_KERNEL) & ~name.str.contains(_TENSOR_CORES),
    )
    share = 1 - own / best if best > 0 else 0.0
    saving = pl.min_horizontal(pl.col("alone_ns") * share, pl.col("dur_ns") - float(LATENCY_NS))
    return evidence_of(
        linked,
        annotation,
        work.filter(pl.Series(full, dtype=pl.Boolean)).select(
            pl.col("ts_ns").alias("start_ns"),
            "end_ns",
            saving.floor().cast(pl.Int64).alias("saving_ns"),
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
