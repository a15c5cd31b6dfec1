"""The device events with what the analyses of kernels ask of them: launching op, family, step, and whether they count.

Kept per linked trace, and shared by the analyses of this family.
"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.step_rows import StepOptions, by_launch
from tracebraid.model.expressions import as_text
from tracebraid.model.kernel_family import kernel_families_of
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["device_work", "device_work_of"]


def device_work(linked: LinkedTrace) -> pl.DataFrame:
    """`device_events` and: op_name, op_category (of the launching op or annotation), family, family_by."""
    return linked.derived(_device_work)


def _device_work(linked: LinkedTrace) -> pl.DataFrame:
    events = device_events(linked)
    ops = linked.timeline.events.select(
        pl.col("event_id").alias("op_event"),
        as_text("name").alias("op_name"),
        as_text("category").alias("op_category"),
    )
    work = events.join(ops, on="op_event", how="left", maintain_order="left")
    return work.hstack(kernel_families_of(work))


def device_work_of(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """The same with `step`, that of the launch, and `in_means`: see `step_rows`."""
    return linked.derived(_device_work_of, options)


def _device_work_of(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    return by_launch(device_work(linked), linked, options)
