"""When did each step run, and which step holds a moment?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP, step_events

__all__ = [
    "BEFORE_ALL_NS",
    "in_order_of_steps",
    "in_windows",
    "step_of_moments",
    "step_windows",
    "windows_of",
]

BEFORE_ALL_NS, _AFTER_ALL_NS = -(2**62), 2**62
"""Moments before and after all of a trace."""


def step_windows(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The occurrences of an annotation on the host, in the order of their starts: `step`, `start_ns`, `end_ns`.

    Args:
        linked: one rank.
        annotation: its name, with or without the `#` and number behind it.
    """
    return linked.derived(_step_windows, annotation)


def _step_windows(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    return step_events(linked.timeline, annotation)


def windows_of(linked: LinkedTrace, annotation: str, per_step: bool) -> pl.DataFrame:
    """The `step_windows`, or one window without a step that holds the whole trace."""
    if per_step:
        return step_windows(linked, annotation)
    return pl.DataFrame(
        {"step": [None], "start_ns": [BEFORE_ALL_NS], "end_ns": [_AFTER_ALL_NS]},
        schema={"step": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64},
    )


def in_windows(rows: pl.DataFrame, moment: str, windows: pl.DataFrame) -> pl.DataFrame:
    """Each row once for each window that holds its moment, with the window's columns; by window and moment.

    Args:
        rows: any frame; rows whose moment is null are in no window.
        moment: its column of moments, in ns.
        windows: `start_ns`, `end_ns` and further columns, none of them in `rows`.
    """
    ordered = rows.filter(pl.col(moment).is_not_null()).sort(moment, maintain_order=True)
    moments = ordered.get_column(moment).to_numpy()
    first, stop = (
        np.searchsorted(moments, windows.get_column(name).to_numpy(), side="left")
        for name in ("start_ns", "end_ns")
    )
    count = np.maximum(stop - first, 0)
    window = np.repeat(np.arange(len(count)), count)
    within = np.arange(len(window)) - np.repeat(np.cumsum(count) - count, count)
    found: pl.DataFrame = ordered[first[window] + within].hstack(windows[window])
    return found


def step_of_moments(moments: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """Add the column `step` to a frame: of the windows that hold its `ts_ns` the last to start; null outside of all."""
    starts, ends = (windows.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    if not (ends[:-1] <= starts[1:]).all():
        return _step_where_they_overlap(moments, windows)
    moment = moments.get_column("ts_ns").to_numpy()
    last = np.searchsorted(starts, moment, side="right") - 1
    inside = (last >= 0) & (moment < np.r_[ends, 0][last])
    names = windows.get_column("step").gather(np.where(inside, last, 0)) if inside.any() else None
    step = pl.Series("step", [None] * len(moment), dtype=pl.String) if names is None else names
    return moments.with_columns(pl.when(pl.Series(inside)).then(step).alias("step"))


def _step_where_they_overlap(moments: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    found = moments.with_row_index("moment")
    enclosing = found.select("moment", "ts_ns").join_where(
        windows.with_row_index("window").select("window", "step", "start_ns", "end_ns"),
        pl.col("ts_ns") >= pl.col("start_ns"),
        pl.col("ts_ns") < pl.col("end_ns"),
    )
    last = enclosing.sort("window").unique("moment", keep="last").select("moment", "step")
    return found.join(last, on="moment", how="left", maintain_order="left").drop("moment")


def in_order_of_steps(answers: pl.DataFrame, linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Rows of an answer by step: those of no step first, then the steps in the order of their starts."""
    names = step_windows(linked, annotation).get_column("step").unique(maintain_order=True)
    order = pl.DataFrame(
        {"step": names, "order": range(len(names))}, schema={"step": pl.String, "order": pl.Int64}
    )
    with_order = answers.join(order, on="step", how="left", maintain_order="left")
    return with_order.sort("order", nulls_last=False, maintain_order=True).drop("order")
