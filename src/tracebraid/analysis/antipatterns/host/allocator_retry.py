"""Does the allocator call the device behind the first step?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.idle_after import idle_after
from tracebraid.analysis.antipatterns.host.ranges import all_ranges
from tracebraid.analysis.memory.host.device_calls import device_calls
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["ALLOCATOR_RETRY"]


def _detect(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    calls = device_calls(linked, annotation).filter("is_steady")
    found = calls.select(
        pl.col("ts_ns").alias("start_ns"),
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
        "event_id",
        pl.col("call").alias("subject"),
    )
    starts = found.get_column("start_ns").to_numpy()
    apart = found.filter(pl.Series(all_ranges(linked).within(starts, starts + 1) == 0))
    return evidence_of(linked, annotation, idle_after(linked, annotation, apart))


ALLOCATOR_RETRY = Detector(
    "allocator-retry",
    "memory is taken from the device, or given back, in a later step",
    "Keep sizes of tensors the same from step to step, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; do not "
    "call torch.cuda.empty_cache() in the step; use less memory",
    _detect,
    (Need.DEVICE_WORK, Need.STEPS),
)
