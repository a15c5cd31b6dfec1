"""When did each step run?"""

from __future__ import annotations

import polars as pl

from tracebraid.model.answers import STEPS
from tracebraid.model.category import Role
from tracebraid.model.expressions import as_text
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["PROFILER_STEP", "in_order_of_steps", "step_of_moments", "steps"]

PROFILER_STEP = "ProfilerStep"
"""The annotation that `torch.profiler` puts around each step, with `#` and a number behind it."""


def steps(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The occurrences of an annotation on the host, in the order of their starts: `model.answers.STEPS`.

    Args:
        linked: one rank.
        annotation: its name, with or without the `#` and number behind it.
    """
    name = as_text("name")
    marks = linked.timeline.of_role(Role.ANNOTATION, Role.OP).filter(
        (name == annotation) | name.str.starts_with(annotation + "#")
    )
    found = marks.sort("ts_ns", "event_id").select(
        pl.lit(linked.rank, dtype=pl.Int64).alias("rank"),
        name.alias("step"),
        pl.col("ts_ns").alias("start_ns"),
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
    )
    return STEPS.conform(found)


def step_of_moments(moments: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """Add the column `step` to a frame: of the windows around its `ts_ns` the last to start; null outside of all."""
    found = moments.with_row_index("moment")
    around = found.select("moment", "ts_ns").join_where(
        windows.with_row_index("window").select("window", "step", "start_ns", "end_ns"),
        pl.col("ts_ns") >= pl.col("start_ns"),
        pl.col("ts_ns") < pl.col("end_ns"),
    )
    last = around.sort("window").unique("moment", keep="last").select("moment", "step")
    return found.join(last, on="moment", how="left", maintain_order="left").drop("moment")


def in_order_of_steps(answers: pl.DataFrame, linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Rows of an answer by step: those of no step first, then the steps in the order of their starts."""
    names = steps(linked, annotation).get_column("step").unique(maintain_order=True)
    order = pl.DataFrame(
        {"step": names, "order": range(len(names))}, schema={"step": pl.String, "order": pl.Int64}
    )
    with_order = answers.join(order, on="step", how="left", maintain_order="left")
    return with_order.sort("order", nulls_last=False, maintain_order=True).drop("order")
