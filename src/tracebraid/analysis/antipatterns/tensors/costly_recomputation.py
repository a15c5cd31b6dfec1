"""Recomputation of what is slow to compute and cheap to keep, while the device had memory to spare."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.antipatterns.evidence.evidence import evidence_of
from tracebraid.analysis.antipatterns.evidence.work_of_ops import work_of_ops
from tracebraid.analysis.efficiency.counted_ops import counted_ops
from tracebraid.model.answers.efficiency import OpFamily
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.questions.analysis import Need
from tracebraid.model.questions.detector import Detector

__all__ = ["DETECTOR", "LEAST_FREE", "costly_recomputation", "free_memory_share"]

LEAST_FREE = 0.1
"""Share of a device's memory that was free at all times, below which keeping more is no advice."""

_COSTLY = [OpFamily.MATMUL.value, OpFamily.CONVOLUTION.value, OpFamily.ATTENTION.value]
"""What computes much for each byte of its result: what selective checkpointing keeps."""


def costly_recomputation(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Products, convolutions and attention that a checkpoint computes again in the backward pass.

    Kept, each saves at most its own time. Where the trace has allocations and the device's memory, and less than
    `LEAST_FREE` of it was free at the peak, nothing is found: then recomputation pays for itself.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    ops = counted_ops(linked).filter(pl.col("is_recompute") & pl.col("family").is_in(_COSTLY))
    free = free_memory_share(linked)
    if free is not None and free < LEAST_FREE:
        ops = ops.clear()
    work = work_of_ops(linked, annotation, ops.get_column("event_id"))
    return evidence_of(
        linked,
        annotation,
        work.with_columns(
            pl.col("alone_ns").alias("saving_ns"),
            pl.col("op_event").alias("host_event"),
            pl.col("kernel").alias("subject"),
        ),
    )


def free_memory_share(linked: LinkedTrace) -> float | None:
    """The share of the device's memory that the allocator never reserved; None where the trace does not say."""
    reserved = linked.timeline.tables["memory"].filter(pl.col("device_type") != 0)
    peak = reserved.get_column("total_reserved_bytes").max()
    properties = linked.timeline.header.get("deviceProperties")
    rows = [row for row in properties if isinstance(row, dict)] if isinstance(properties, list) else []
    sizes = [row.get("totalGlobalMem") for row in rows]
    known = [size for size in sizes if isinstance(size, int) and size > 0]
    if not isinstance(peak, int) or not known:
        return None
    return max(0.0, 1 - peak / min(known))


DETECTOR = Detector(
    "costly-recomputation",
    "products and attention computed again for the backward pass",
    "checkpoint selectively: keep products and attention, recompute elementwise ops; or checkpoint fewer layers",
    costly_recomputation,
    (Need.HOST_OPS,),
)
