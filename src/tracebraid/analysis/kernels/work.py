"""The device events with what the analyses of kernels ask of them: launching op, family, step, and whether they count.

Kept per linked trace, and shared by the analyses of this family.
"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.event_columns import event_columns
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
    op = events.get_column("op_event")
    names = event_columns(linked.timeline, op, op_name="name", op_category="category")
    work = events.with_columns(names).with_columns(as_text("op_name", "op_category"))
    return work.hstack(kernel_families_of(work))


def device_work_of(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    """The same with `step`, that of the launch, and `in_means`: see `step_rows`."""
    return linked.derived(_device_work_of, options)


def _device_work_of(linked: LinkedTrace, options: StepOptions) -> pl.DataFrame:
    return by_launch(device_work(linked), linked, options)
