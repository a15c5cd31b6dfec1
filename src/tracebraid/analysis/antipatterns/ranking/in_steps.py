"""Occurrences cut at the bounds of steps, and the steps themselves."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.analysis.time.warm_up import warm_up
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["WINDOWS", "cut_at_steps", "windows_to_save_in"]

WINDOWS = {
    "rank": pl.Int64(),
    "step": pl.String(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
}
"""Columns of the steps of ranks."""


def windows_to_save_in(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The steps of a rank but for its warm-up; without steps one that holds the whole trace, without a name: `WINDOWS`.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    windows = step_windows(linked, annotation).filter(pl.col("end_ns") > pl.col("start_ns"))
    spans = (windows.get_column("end_ns") - windows.get_column("start_ns")).to_numpy()
    windows = windows.filter(pl.Series(~warm_up(spans)))
    if windows.is_empty():
        first, last = linked.timeline.span_ns or (0, 0)
        windows = pl.DataFrame({"step": [None], "start_ns": [first], "end_ns": [max(first, last)]})
    with_rank = windows.with_columns(pl.lit(linked.rank).alias("rank"))
    return with_rank.select(pl.col(name).cast(dtype) for name, dtype in WINDOWS.items())


def cut_at_steps(evidence: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    """Occurrences in parts, each in one step; what lies in no step is left out.

    A saving lies at the start of its occurrence: the parts share it out in their order, each as much as it is long.

    Args:
        evidence: `rank`, `start_ns`, `end_ns`, `saving_ns`; other columns stay.
        windows: the steps of all ranks: `WINDOWS`.
    """
    of_ranks, none = dict(_by_rank(windows)), windows.clear()
    found = [_of_rank(rows, of_ranks.get(rank, none)) for rank, rows in _by_rank(evidence)]
    empty = evidence.clear().with_columns(pl.lit(None, dtype=pl.String).alias("step"))
    return pl.concat([empty, *(part.select(empty.columns) for part in found)])


def _by_rank(frame: pl.DataFrame) -> list[tuple[object, pl.DataFrame]]:
    return [(rank, rows) for (rank,), rows in frame.group_by("rank", maintain_order=True)]


def _of_rank(evidence: pl.DataFrame, windows: pl.DataFrame) -> pl.DataFrame:
    windows = windows.sort("start_ns", maintain_order=True)
    bounds = np.unique(np.r_[tuple(windows.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))])
    starts, ends, saving = (
        evidence.get_column(name).to_numpy() for name in ("start_ns", "end_ns", "saving_ns")
    )
    first = np.searchsorted(bounds, starts, side="right") - 1
    count = np.maximum(np.searchsorted(bounds, ends, side="left") - first, 1)
    row = np.repeat(np.arange(len(count)), count)
    segment = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    edges = np.r_[np.iinfo(np.int64).min, bounds, np.iinfo(np.int64).max]
    begin = np.maximum(starts[row], edges[segment + 1])
    end = np.minimum(ends[row], edges[segment + 2])
    rest = saving[row] - (begin - starts[row])
    step = _step_of(begin, windows)
    parts: pl.DataFrame = evidence[row].with_columns(
        pl.Series("start_ns", begin),
        pl.Series("end_ns", end),
        pl.Series("saving_ns", np.clip(rest, 0, end - begin)),
        step.get_column("step"),
        step.get_column("inside"),
    )
    return parts.filter(pl.col("inside") & (pl.col("saving_ns") > 0)).drop("inside")


def _step_of(moments: np.ndarray[tuple[int], np.dtype[np.int64]], windows: pl.DataFrame) -> pl.DataFrame:
    """`step` of each moment, and whether it is `inside` of one: a step without a name has null for a name, too."""
    numbered = windows.select(pl.int_range(pl.len()).cast(pl.String).alias("step"), "start_ns", "end_ns")
    window = step_of_moments(pl.DataFrame({"ts_ns": moments}), numbered).get_column("step").cast(pl.Int64)
    step = windows.get_column("step").gather(window)
    return pl.DataFrame([step, window.is_not_null().alias("inside")])
