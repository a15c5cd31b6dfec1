"""Windows of steps, and the step that contains a moment."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import InputError
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.rows import at_rows
from tracebraid.model.step import step_events

_Ints = NDArray[np.int64]

BEFORE_ALL_NS, _AFTER_ALL_NS = -(2**62), 2**62
"""Moments before and after all of a trace."""


_AT_ONCE_AT_MOST = 64
"""Steps at one moment: what lies there is counted in each. Steps of as many threads overlap; a loop's never do."""


def step_windows(linked: LinkedTrace) -> pl.DataFrame:
    """The occurrences of an annotation on the host, in the order of their starts: `step`, `start_ns`, `end_ns`."""
    return linked.derived(_step_windows)


def _step_windows(linked: LinkedTrace) -> pl.DataFrame:
    return step_events(linked.timeline, linked.annotation)


def windows_of(linked: LinkedTrace, per_step: bool) -> pl.DataFrame:
    """The `step_windows`, or one window without a step that holds the whole trace."""
    if per_step:
        return step_windows(linked)
    return pl.DataFrame(
        {"step": [None], "start_ns": [BEFORE_ALL_NS], "end_ns": [_AFTER_ALL_NS]},
        schema={"step": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64},
    )


def windows_apart(linked: LinkedTrace) -> pl.DataFrame:
    """Return `step_windows` for analyses with rows by step and for its content, and for graphs, with paths by step."""
    refusal = steps_refused(linked)
    if refusal is not None:
        raise refusal
    return step_windows(linked)


def steps_refused(linked: LinkedTrace) -> InputError | None:
    """Return the error of `windows_apart`; None where few enough steps run at once."""
    windows = step_windows(linked)
    starts, ends = (windows.get_column(name).sort().to_numpy() for name in ("start_ns", "end_ns"))
    at_once = np.arange(1, len(starts) + 1) - np.searchsorted(ends, starts, side="right")
    most = int(at_once.max(initial=0))
    if most <= _AT_ONCE_AT_MOST:
        return None
    problem = (
        f"{most:,} steps of {linked.annotation!r} run at once; rows for each need at most {_AT_ONCE_AT_MOST}"
    )
    advice = "Ask over all steps, or name another annotation that marks them: --annotation NAME"
    return InputError(linked.timeline.path, problem, advice)


def in_windows(rows: pl.DataFrame, moment: str, windows: pl.DataFrame) -> pl.DataFrame:
    """Each row once for each window that holds its moment, with the window's columns; by window and moment."""
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
    """Add the column `step` to a frame: of the windows that hold its `ts_ns` the last to start; null outside all."""
    starts, ends = (windows.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    row = _last_that_holds(starts, ends, moments.get_column("ts_ns").to_numpy())
    return moments.with_columns(at_rows(windows.get_column("step"), row))


def _last_that_holds(starts: _Ints, ends: _Ints, moments: _Ints) -> _Ints:
    """Last of the intervals sorted by start that contains each moment; -1 if there is none.

    From the last interval to start, each turn goes back over a power of two of them if all of these have ended.
    """
    row: _Ints = np.searchsorted(starts, moments, side="right") - 1
    latest = [np.r_[ends, 0]]
    while (width := 1 << len(latest) - 1) < len(ends) and (ends[:-1] > starts[1:]).any():
        wider = latest[-1].copy()
        np.maximum(wider[width:-1], latest[-1][: -width - 1], out=wider[width:-1])
        latest.append(wider)
    for level in reversed(range(len(latest))):
        has_ended = latest[level][row] <= moments
        row = np.maximum(np.where(has_ended, row - (1 << level), row), -1)
    return np.where((row >= 0) & (latest[0][row] > moments), row, -1)


def in_order_of_steps(answers: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Sort rows by step: rows outside steps first, then by start of the step."""
    names = step_windows(linked).get_column("step").unique(maintain_order=True)
    order = pl.DataFrame(
        {"step": names, "order": range(len(names))}, schema={"step": pl.String, "order": pl.Int64}
    )
    with_order = answers.join(order, on="step", how="left", maintain_order="left")
    return with_order.sort("order", nulls_last=False, maintain_order=True).drop("order")
