"""Buckets of gradients of which one is far larger than the rest, and not hidden."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.communication.exposed import exposed_events
from tracebraid.analysis.antipatterns.communication.small_collectives import SMALL_BYTES
from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["DETECTOR", "LEAST_BUCKETS", "MOST_OF_MEDIAN", "unbalanced_buckets"]

LEAST_BUCKETS = 3
"""Buckets of a step at least, so that there is a usual size."""

MOST_OF_MEDIAN = 4.0
"""Times the median of the step's buckets, from which on a bucket is far larger. DDP makes them of equal size, but for
the first, which is smaller (1 of 25 MiB), and for parameters that are larger than a bucket."""

_OPERATIONS = ["allreduce", "reducescatter", "reducescatterbase"]
"""Operations that reduce gradients."""


def unbalanced_buckets(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Reductions far larger than the median of those of their step, group, operation and type, as far as exposed.

    Of buckets of the usual size only the last is exposed. So a bucket saves at most its exposed time, and at most the
    part of its duration that is beyond a usual one's: duration x (1 - median size / its size). Reductions of
    `SMALL_BYTES` or less are no buckets.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    key = ["step", "device", "process_group", "operation", "dtype"]
    buckets = exposed_events(linked, annotation).filter(
        pl.col("operation").is_in(_OPERATIONS) & (pl.col("message_bytes") > SMALL_BYTES)
    )
    median = pl.col("message_bytes").median().over(key)
    large = (pl.len().over(key) >= LEAST_BUCKETS) & (pl.col("message_bytes") >= MOST_OF_MEDIAN * median)
    beyond = (pl.col("end_ns") - pl.col("ts_ns")) * (1 - median / pl.col("message_bytes"))
    found = buckets.with_columns(
        pl.min_horizontal(beyond.floor().cast(pl.Int64), "exposed_ns").alias("saving_ns"),
        pl.col("ts_ns").alias("start_ns"),
        pl.format("{} of {} bytes", "operation", "message_bytes").alias("subject"),
        large.alias("is_large"),
    ).filter("is_large")
    return evidence_of(linked, annotation, found)


DETECTOR = Detector(
    "unbalanced-buckets",
    "a bucket of gradients far larger than the others",
    "a smaller bucket_cap_mb of DDP, FSDP units of equal size, or shard the large parameter",
    unbalanced_buckets,
    (Need.COLLECTIVES,),
)
