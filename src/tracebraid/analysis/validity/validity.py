"""Can the figures of each step be trusted?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.time.step_windows import in_order_of_steps
from tracebraid.analysis.validity.dominating_event import dominating_events
from tracebraid.analysis.validity.durations import unusable_durations
from tracebraid.analysis.validity.missing_work import missing_work
from tracebraid.analysis.validity.stream_overlaps import impossible_overlaps
from tracebraid.analysis.validity.trace_bounds import beyond_trace, steps_beyond_trace
from tracebraid.model.answers import VALIDITY, Doubt
from tracebraid.model.answers.columns import RANK
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["validity"]

_RULES = (
    missing_work,
    unusable_durations,
    beyond_trace,
    steps_beyond_trace,
    dominating_events,
    impossible_overlaps,
)


def validity(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """What speaks against the figures of a step: `model.answers.VALIDITY`.

    Rows of no step come first, then the steps in the order of their starts, the doubts of each in the order of
    `Doubt`. A device event falsifies the step that launched it and every step while it runs.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_validity, annotation)


def _validity(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    order = pl.Enum([doubt.value for doubt in Doubt])
    found = pl.concat([rule(linked, annotation) for rule in _RULES])
    return (
        found.group_by("step", "doubt", maintain_order=True)
        .agg(
            pl.col("count").sum(),
            pl.col("event_id").drop_nulls().first(),
            pl.when(pl.col("time_ns").is_null().any())
            .then(None)
            .otherwise(pl.col("time_ns").sum())
            .alias("time_ns"),
        )
        .sort(pl.col("doubt").cast(order))
        .pipe(in_order_of_steps, linked, annotation)
        .with_columns(pl.lit(linked.rank, dtype=pl.Int64).alias(RANK.name))
        .pipe(VALIDITY.conform)
    )
