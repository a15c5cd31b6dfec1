"""On which line of its track is a slice drawn, so that none hides another?"""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = ["MOST_OVERLAPPING", "levels_of"]

_Ints = NDArray[np.int64]

MOST_OVERLAPPING = 200
"""Lines that slices which overlap without nesting can take; more share the last one. Queues of 100 streams fit."""


def levels_of(slices: pl.DataFrame) -> pl.Series:
    """The line of each slice, from 0: below what it lies in, and free at its time.

    Nesting that is known is kept where no two slices overlap by it. Otherwise each slice takes the first free line
    below the innermost slice that holds it, in the order of starts, long ones first.

    Args:
        slices: lane, ts_ns, dur_ns, and `depth`, the nesting of host events, null where it is unknown; sorted by lane,
            start and falling duration.
    """
    found = slices.select(
        "lane",
        pl.col("depth").fill_null(0).alias("level"),
        "ts_ns",
        (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
    )
    before = pl.col("end_ns").cum_max().shift(1).over("lane", "level")
    clashing = found.filter(pl.col("ts_ns") < before).get_column("lane").unique().to_list()
    levels = found.get_column("level").to_numpy().copy()
    lanes = found.get_column("lane").to_numpy()
    starts, ends = (found.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    for lane in clashing:
        rows = np.flatnonzero(lanes == lane)
        levels[rows] = _first_free(starts[rows], ends[rows])
    return pl.Series("level", levels, dtype=pl.Int64)


def _first_free(starts: _Ints, ends: _Ints) -> list[int]:
    busy_until: list[int] = []
    levels = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        level = len(busy_until)
        while level and not (busy_until[level - 1] > start and busy_until[level - 1] >= end):
            level -= 1
        while level < len(busy_until) and busy_until[level] > start:
            level += 1
        if level == len(busy_until):
            busy_until.append(end)
        level = min(level, MOST_OVERLAPPING - 1)
        del busy_until[MOST_OVERLAPPING:]
        busy_until[level] = max(busy_until[level], end) if busy_until[level] > start else end
        levels.append(level)
    return levels
