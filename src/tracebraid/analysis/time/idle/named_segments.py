"""Segments of idle time with names for what the host was in, and what is known of their gap."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.time.idle.blamed_threads import blamed_threads
from tracebraid.analysis.time.idle.host_context import host_context
from tracebraid.analysis.time.idle.idle_windows import segments_in_windows
from tracebraid.analysis.time.idle.launches import gap_launches
from tracebraid.analysis.time.idle.thread_timelines import NO_ROW, host_rows, thread_timelines
from tracebraid.model.answers import GapSize
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["CONTEXT", "MACRO_NS", "named_segments"]

MACRO_NS = 100_000
"""A gap of this length is macro: HTA counts a delay of a launch over 100 µs (`launch_delay_cutoff`) as an outlier.
What is shorter is of the size of a few launches, each 5 to 10 µs of the host's time."""

CONTEXT = ("op", "annotation", "module", "frame")
"""What the host was in."""


def named_segments(linked: LinkedTrace, annotation: str, per_step: bool) -> pl.DataFrame:
    """The segments of `segments_in_windows`, in their order.

    Columns: `device`, `step`, `window`, `part`, `row`, `gap`, `gap_ns`, `size`, `sync_call`, `start_ns`, `dur_ns`,
    `cause` and `activity` (numbers), and names as categoricals: `op`, `annotation`, `module` and `frame`.

    Args:
        linked: one rank.
        annotation: what marks a step.
        per_step: see `segments_in_windows`.
    """
    return linked.derived(_named_segments, annotation, per_step)


def _named_segments(linked: LinkedTrace, annotation: str, per_step: bool) -> pl.DataFrame:
    segments = segments_in_windows(linked, annotation, per_step)
    gaps = linked.derived(_gaps, annotation)[segments.get_column("row").to_numpy()]
    return pl.concat([segments, gaps], how="horizontal").select(
        *("device", "step", "window", "part", "row", "gap", "gap_ns", "size", "sync_call", "start_ns"),
        (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"),
        *("cause", "activity"),
        *(_names(linked, segments.get_column(name)) for name in CONTEXT),
    )


def _gaps(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Of each row of `gap_launches`: `gap`, `gap_ns`, `size`, `sync_call`."""
    gaps = gap_launches(linked, annotation)
    macro = pl.col("gap_ns") >= MACRO_NS
    return gaps.select(
        "gap", (pl.col("end_ns") - pl.col("start_ns")).alias("gap_ns"), _sync_calls(linked, annotation)
    ).with_columns(
        pl.when(macro).then(pl.lit(GapSize.MACRO.value)).otherwise(pl.lit(GapSize.MICRO.value)).alias("size")
    )


def _sync_calls(linked: LinkedTrace, annotation: str) -> pl.Series:
    """What synchronized the host with the device when each gap began: the call or op that the thread was in."""
    before = gap_launches(linked, annotation).get_column("start_ns").to_numpy() - 1
    threads = blamed_threads(linked, annotation)
    sync = host_context(linked, annotation).sync
    found = np.full(len(before), NO_ROW, dtype=np.int64)
    for column in ("partner", "thread"):
        lanes = threads.get_column(column).to_numpy()
        for lane in np.unique(lanes).tolist():
            timeline = thread_timelines(linked).get(lane)
            if timeline is not None:
                members = np.flatnonzero(lanes == lane)
                rows = sync[timeline.at(before[members])]
                found[members] = np.where(rows >= 0, rows, found[members])
    return _names(linked, pl.Series("sync_call", found))


def _names(linked: LinkedTrace, rows: pl.Series) -> pl.Series:
    """The names of rows of `HostRows`; null for -1."""
    events = host_rows(linked).event_id
    known = rows.set(rows < 0, None)
    index = pl.Series(events).gather(known) if len(events) else known
    names = linked.timeline.events.get_column("name")
    return names.gather(index).alias(rows.name)
