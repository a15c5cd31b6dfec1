"""Does the device wait for launches, kernel after kernel?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.evidence import evidence_of
from tracebraid.analysis.launches.launch_bound import launch_bound
from tracebraid.model.analysis import Need
from tracebraid.model.detector import Detector
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["LAUNCH_BOUND_STRETCH"]


def _detect(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    stretches = launch_bound(linked, annotation)
    found = stretches.select(
        "start_ns",
        (pl.col("start_ns") + pl.col("span_ns")).alias("end_ns"),
        pl.col("gain_ns").alias("saving_ns"),
        pl.lit(None, dtype=pl.Int64).alias("event_id"),
        pl.lit(None, dtype=pl.String).alias("op"),
    )
    return evidence_of(linked, annotation, found)


LAUNCH_BOUND_STRETCH = Detector(
    "launch-bound",
    "the device waits for launches: its kernels are shorter than the host takes to launch them",
    'Launch many kernels at once: torch.compile(mode="reduce-overhead"), CUDA graphs, foreach or fused optimizers; '
    "or give each kernel more work (larger batches)",
    _detect,
    (Need.DEVICE_WORK, Need.HOST_OPS),
)
