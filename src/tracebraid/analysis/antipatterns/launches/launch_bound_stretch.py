"""Does the device wait for launches, kernel after kernel?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.idle_after import in_idle_stretches
from tracebraid.analysis.launches.launch_bound import launch_bound
from tracebraid.analysis.time.work_events import work_events
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["LAUNCH_BOUND_STRETCH"]


def _detect(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    stretches = launch_bound(linked, annotation)
    work = work_events(linked).select("device", pl.col("ts_ns").alias("start_ns"), "event_id")
    first = work.sort("event_id").unique(["device", "start_ns"], keep="first", maintain_order=True)
    found = stretches.join(first, on=["device", "start_ns"], how="left", maintain_order="left").select(
        "start_ns",
        (pl.col("start_ns") + pl.col("span_ns")).alias("end_ns"),
        pl.col("gain_ns").alias("saving_ns"),
        "event_id",
        pl.lit(None, dtype=pl.Int64).alias("host_event"),
        pl.lit(None, dtype=pl.String).alias("op"),
    )
    return evidence_of(linked, annotation, in_idle_stretches(linked, found))


LAUNCH_BOUND_STRETCH = Detector(
    "launch-bound",
    "the device waits for launches: its kernels are shorter than the host takes to launch them",
    'Launch many kernels at once: torch.compile(mode="reduce-overhead"), CUDA graphs, foreach or fused optimizers; '
    "or give each kernel more work (larger batches)",
    _detect,
    (Need.DEVICE_WORK, Need.HOST_OPS),
)
