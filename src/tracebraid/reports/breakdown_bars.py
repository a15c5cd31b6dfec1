"""Where the time of each rank goes as bars, and how long its steps are as sparklines."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from tracebraid.reports.bars import FILLS, sparkline, stacked_bar
from tracebraid.reports.text import printable
from tracebraid.reports.units import duration

__all__ = ["breakdown_bars", "step_sparklines"]

_PARTS = {
    "compute": "compute_ns",
    "exposed comm": "exposed_communication_ns",
    "exposed memory": "exposed_memory_ns",
    "idle": "idle_ns",
}
"""Parts of a breakdown that add up to its span, in the order of `FILLS`."""
_BAR_WIDTH = 48
"""Characters: with its label and time a line fits into 80."""
_RANKS_SHOWN = 8
"""Bars and sparklines; the tables have all ranks."""


def breakdown_bars(frame: pl.DataFrame) -> list[str]:
    """A bar for the whole of each rank and device, and what its parts are; nothing where there are no times.

    Args:
        frame: the answer, see `model.answers.BREAKDOWN`.
    """
    whole = frame.filter(pl.col("step").is_null(), pl.col("span_ns") > 0)
    devices = whole.get_column("device").n_unique() > 1
    rows = list(whole.head(_RANKS_SHOWN).iter_rows(named=True))
    labels = [f"rank {row['rank']}{', ' + printable(row['device']) if devices else ''}"[:16] for row in rows]
    width = max(map(len, labels), default=0)
    lines = [
        f"{label.ljust(width)}  {stacked_bar([row[column] for column in _PARTS.values()], _BAR_WIDTH)}"
        f"  {duration(row['span_ns'])}"
        for row, label in zip(rows, labels, strict=True)
    ]
    if not lines:
        return []
    present = [
        f"{fill} {name}"
        for fill, (name, column) in zip(FILLS, _PARTS.items(), strict=True)
        if (whole.get_column(column) > 0).any()
    ]
    legend = " " * width + "  " + "  ".join(present)
    more = [f"{whole.height - len(rows):,} more"] if whole.height > len(rows) else []
    return [*lines, legend, *more]


def step_sparklines(frame: pl.DataFrame, time: str = "span_ns") -> list[str]:
    """A line for the step times of each rank: a mark for each step, from 0; nothing where no rank has several steps.

    Args:
        frame: has `rank`, `step` and the time; rows of a rank are in the order of its steps.
        time: the column of times, in ns.
    """
    steps = frame.filter(pl.col("step").is_not_null(), pl.col(time).is_not_null())
    if "device" in steps.columns:
        steps = steps.unique(["rank", "step"], keep="first", maintain_order=True)
    ranks = steps.partition_by("rank", maintain_order=True)
    lines = list(_lines([rank for rank in ranks if rank.height > 1], time))
    return ["Step times, each from 0:", *lines] if lines else []


def _lines(ranks: list[pl.DataFrame], time: str) -> Iterator[str]:
    for rank in ranks[:_RANKS_SHOWN]:
        times = rank.get_column(time).to_list()
        marks = sparkline(times, _BAR_WIDTH)
        yield f"rank {rank.item(0, 'rank')}  {marks}  {duration(min(times))} to {duration(max(times))}"
    if len(ranks) > _RANKS_SHOWN:
        yield f"{len(ranks) - _RANKS_SHOWN:,} more ranks"
