"""When did each step run?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.answers import STEPS
from tracebraid.model.category import Role
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["PROFILER_STEP", "step_of_moments", "steps"]

PROFILER_STEP = "ProfilerStep"
"""The annotation that `torch.profiler` puts around each step, with `#` and a number behind it."""


def steps(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The occurrences of an annotation on the host, in the order of their starts: `model.answers.STEPS`.

    Args:
        linked: one rank.
        annotation: its name, with or without the `#` and number behind it.
    """
    name = pl.col("name").cast(pl.String)
    marks = linked.timeline.of_role(Role.ANNOTATION, Role.OP).filter(
        (name == annotation) | name.str.starts_with(annotation + "#")
    )
    found = marks.sort("ts_ns", "event_id").select(
        pl.lit(linked.rank, dtype=pl.Int64).alias("rank"),
        name.alias("step"),
        pl.col("ts_ns").alias("start_ns"),
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
    )
    return found.cast(STEPS.polars_schema())  # type: ignore[arg-type]


def step_of_moments(moments: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """Add the column `step` to a frame: the latest window around its `ts_ns`; null outside of all."""
    return (
        moments.sort("ts_ns", maintain_order=True)
        .join_asof(
            windows.select("step", "start_ns", "end_ns"),
            left_on="ts_ns",
            right_on="start_ns",
            strategy="backward",
        )
        .with_columns(pl.when(pl.col("ts_ns") < pl.col("end_ns")).then("step").alias("step"))
        .drop("start_ns", "end_ns", strict=False)
    )
