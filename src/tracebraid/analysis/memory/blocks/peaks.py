"""The change at which the most is allocated, on each device and in each step."""

from __future__ import annotations

import polars as pl

from tracebraid.analysis.memory.blocks.pairing import CPU
from tracebraid.analysis.memory.blocks.usage import usage
from tracebraid.analysis.step_rows import NO_STEP
from tracebraid.analysis.time.step_windows import in_windows, step_windows
from tracebraid.model.expressions import by_number
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["peaks", "usage_by_step"]


def usage_by_step(linked: LinkedTrace, annotation: str, per_step: bool) -> pl.DataFrame:
    """`usage` with a column `step`: once over all, or the changes in each step after what it finds allocated.

    The row of what a step finds is the last change before it, with the step's start as its moment and size 0. A change
    counts in each of the steps that hold it. Column `window` numbers the steps.

    Args:
        linked: one rank.
        annotation: what marks a step.
        per_step: by step.
    """
    return linked.derived(_usage_by_step, annotation, per_step)


def _usage_by_step(linked: LinkedTrace, annotation: str, per_step: bool) -> pl.DataFrame:
    changes = usage(linked, annotation)
    if not per_step:
        return changes.with_columns(NO_STEP, pl.lit(0, dtype=pl.Int64).alias("window"))
    windows = step_windows(linked, annotation).with_columns(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("window")
    )
    inside = in_windows(changes, "ts_ns", windows).drop("start_ns", "end_ns")
    devices = changes.select("device").unique(maintain_order=True)
    found = (
        windows.join(devices, how="cross")
        .with_columns(pl.col("start_ns").alias("ts_ns"))
        .sort("ts_ns")
        .join_asof(
            changes.sort("ts_ns", "order"),
            on="ts_ns",
            by="device",
            strategy="backward",
            allow_exact_matches=False,
            check_sortedness=False,
        )
        .filter(pl.col("order").is_not_null())
        .with_columns(pl.lit(0, dtype=pl.Int64).alias("size_bytes"), pl.lit(-1, dtype=pl.Int64).alias("row"))
    )
    return pl.concat([found.select(inside.columns), inside]).sort(
        "window", "device", "order", maintain_order=True
    )


def peaks(linked: LinkedTrace, annotation: str, per_step: bool) -> pl.DataFrame:
    """The rows of `usage_by_step` that are the first peak of their device and step, by window and device; kept."""
    return linked.derived(_peaks, annotation, per_step)


def _peaks(linked: LinkedTrace, annotation: str, per_step: bool) -> pl.DataFrame:
    by_step = usage_by_step(linked, annotation, per_step)
    return (
        by_step.group_by("window", "step", "device", maintain_order=True)
        .agg(pl.exclude("window", "step", "device").get(pl.col("allocated_bytes").arg_max()))
        .sort("window", pl.col("device") == CPU, *by_number("device"))
    )
