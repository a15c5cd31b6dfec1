"""The device events with what the analyses of kernels ask of them: launching op, family, step, and whether they count.

Kept per linked trace, and shared by the analyses of this family.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracebraid.analysis.answering import doubtful_steps
from tracebraid.analysis.device_events import device_events, device_events_by_step
from tracebraid.analysis.event_columns import event_columns
from tracebraid.model.expressions import as_text
from tracebraid.model.kernel_family import kernel_families_of
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["Steps", "device_work", "device_work_of", "share_of"]


@dataclass(frozen=True)
class Steps:
    """The usual options of an analysis about steps.

    Args:
        annotation: what marks a step.
        per_step: rows for each step, instead of over all.
        with_doubtful: count the work of doubtful steps in means.
    """

    annotation: str = PROFILER_STEP
    per_step: bool = False
    with_doubtful: bool = False


def device_work(linked: LinkedTrace) -> pl.DataFrame:
    """`device_events` and: op_name, op_category (of the launching op or annotation), family, family_by."""
    return linked.derived(_device_work)


def _device_work(linked: LinkedTrace) -> pl.DataFrame:
    events = device_events(linked)
    op = events.get_column("op_event")
    names = event_columns(linked.timeline, op, op_name="name", op_category="category")
    work = events.with_columns(names).with_columns(as_text("op_name", "op_category"))
    return work.hstack(kernel_families_of(work))


def device_work_of(linked: LinkedTrace, steps: Steps) -> pl.DataFrame:
    """The same and: `step` (null: over all, or launched in none) and `in_means`, false for work of a doubtful step.

    A row about a doubtful step is marked as such, and its means are that step's: there all work counts.
    """
    return linked.derived(_device_work_of, steps)


def _device_work_of(linked: LinkedTrace, steps: Steps) -> pl.DataFrame:
    work = device_work(linked)
    doubtful = doubtful_steps(linked, steps.annotation)
    none = pl.lit(None, dtype=pl.String).alias("step")
    if steps.per_step:
        return work.with_columns(_step(linked, steps), pl.lit(value=True).alias("in_means"))
    if steps.with_doubtful or doubtful.is_empty():
        return work.with_columns(none, pl.lit(value=True).alias("in_means"))
    in_doubt = _step(linked, steps).is_in(doubtful.implode(), nulls_equal=True)
    return work.with_columns(none, (~in_doubt).alias("in_means"))


def _step(linked: LinkedTrace, steps: Steps) -> pl.Series:
    return device_events_by_step(linked, steps.annotation).get_column("step")


def share_of(column: str) -> pl.Expr:
    """What each row has of a column's sum over the rows of its step; 0 where that is 0."""
    return (pl.col(column) / pl.col(column).sum().over("step")).fill_nan(0.0)
