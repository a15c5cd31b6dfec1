"""Does allocated memory grow from step to step, and by how much?"""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.memory.blocks.blocks import blocks
from tracebraid.analysis.memory.blocks.peaks import usage_by_step
from tracebraid.analysis.time.step_windows import in_windows, step_windows
from tracebraid.model.answers import MEMORY_GROWTH
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP

__all__ = ["memory_growth"]

_FEWEST_STEPS = 3
"""Steps after the first that a slope needs: through two points there is a line without any trend."""


def memory_growth(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """What is allocated at each step's end, and its trend over the steps: `model.answers.MEMORY_GROWTH`.

    The slope is the least-squares line through (number of the step, bytes at its end), without the first step, in which
    optimizers make their state. `memory_kept` says what it is.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.

    Raises:
        InputError: the Execution Trace is needed and cannot be read.
    """
    changes = usage_by_step(linked, annotation, per_step=True)
    key = ["window", "step", "device"]
    ends = changes.group_by(key, maintain_order=True).agg(
        (pl.col("allocated_bytes").first() - pl.col("size_bytes").first()).alias("start_bytes"),
        pl.col("allocated_bytes").last().alias("end_bytes"),
    )
    growth = pl.col("end_bytes") - pl.col("end_bytes").shift(1).over("device")
    found = (
        ends.with_columns(growth.alias("growth_bytes"))
        .join(_kept(linked, annotation), on=["window", "device"], how="left", maintain_order="left")
        .join(_slopes(ends), on="device", how="left", maintain_order="left")
        .with_columns(pl.col("kept_bytes", "kept_allocations").fill_null(0))
    )
    return answer(MEMORY_GROWTH, found, linked, annotation)


def _kept(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """What was allocated in each step and is never released."""
    windows = step_windows(linked, annotation).with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("window")
    )
    never = blocks(linked, annotation).filter(pl.col("begin_ns").is_not_null() & pl.col("end_ns").is_null())
    inside = in_windows(never.drop("step", "end_ns"), "begin_ns", windows)
    return inside.group_by("window", "device").agg(
        pl.col("size_bytes").sum().alias("kept_bytes"), pl.len().cast(pl.Int64).alias("kept_allocations")
    )


def _slopes(ends: pl.DataFrame) -> pl.DataFrame:
    x, y = pl.col("window").cast(pl.Float64), pl.col("end_bytes").cast(pl.Float64)
    centred = x - x.mean()
    slope = (centred * (y - y.mean())).sum() / (centred * centred).sum()
    return (
        ends.filter(pl.col("window") > 0)
        .group_by("device")
        .agg(pl.when(pl.len() >= _FEWEST_STEPS).then(slope).alias("slope_bytes_per_step"))
    )
