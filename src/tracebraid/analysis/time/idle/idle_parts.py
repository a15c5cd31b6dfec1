"""Idle time in parts with one cause, and what the host did in each."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.host.host_rows import NO_ROW, modules_of_rows, names_of_rows
from tracebraid.analysis.host.thread_timelines import innermost_at
from tracebraid.analysis.time.idle.blamed_threads import blamed_threads
from tracebraid.analysis.time.idle.host_context import host_context
from tracebraid.analysis.time.idle.idle_windows import segments_in_windows
from tracebraid.analysis.time.idle.launches import gap_launches
from tracebraid.model.answers import GapSize
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["CONTEXT", "MACRO_NS", "contexts_of_parts", "idle_parts"]

MACRO_NS = 100_000
"""A gap of this length is macro: HTA counts a delay of a launch over 100 µs (`launch_delay_cutoff`) as an outlier.
What is shorter is of the size of a few launches, each 5 to 10 µs of the host's time."""

CONTEXT = ("op", "top_op", "annotation", "module", "frame")
"""What the host was in."""


def idle_parts(linked: LinkedTrace, annotation: str, per_step: bool) -> pl.DataFrame:
    """The parts of all gaps, cut to windows, in the order of devices, windows and time.

    Columns: `device`, `step`, `window`, `start_ns`, `dur_ns`, `cause` (a number), `row` (of `gap_launches`), `gap`,
    `gap_ns`, `size`, `sync_call`.

    Args:
        linked: one rank.
        annotation: what marks a step.
        per_step: see `segments_in_windows`.
    """
    return linked.derived(_parts_and_contexts, annotation, per_step)[0]


def contexts_of_parts(linked: LinkedTrace, annotation: str, per_step: bool) -> pl.DataFrame:
    """What the host did in each part, and for how long.

    Columns: `index`, the part's row in `idle_parts`, rising; `activity` (a number); names as categoricals: those of
    `CONTEXT`; `dur_ns`.

    Args:
        linked: one rank.
        annotation: what marks a step.
        per_step: see `segments_in_windows`.
    """
    return linked.derived(_parts_and_contexts, annotation, per_step)[1]


def _numbered(linked: LinkedTrace, annotation: str, per_step: bool) -> pl.DataFrame:
    """The segments with the `index` of their part."""
    segments = segments_in_windows(linked, annotation, per_step)
    part, window = (segments.get_column(name).to_numpy() for name in ("part", "window"))
    changes = np.zeros(len(part), dtype=np.int64)
    changes[1:] = (part[1:] != part[:-1]) | (window[1:] != window[:-1])
    return segments.with_columns(pl.Series("index", np.cumsum(changes)))


def _parts_and_contexts(
    linked: LinkedTrace, annotation: str, per_step: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Both, for the segments that they are made of are many, and not kept."""
    segments = _numbered(linked, annotation, per_step)
    return _idle_parts(linked, annotation, segments), _contexts_of_parts(linked, segments)


def _idle_parts(linked: LinkedTrace, annotation: str, segments: pl.DataFrame) -> pl.DataFrame:
    first = np.flatnonzero(np.diff(segments.get_column("index").to_numpy(), prepend=-1))
    last = np.r_[first[1:], segments.height][: len(first)] - 1
    parts = segments[first].select("device", "step", "window", "start_ns", "cause", "row")
    ends = segments.get_column("end_ns").gather(last)
    gaps = linked.derived(_gaps, annotation)[parts.get_column("row").to_numpy()]
    return pl.concat([parts, gaps], how="horizontal").with_columns(
        (ends - parts.get_column("start_ns")).alias("dur_ns")
    )


def _contexts_of_parts(linked: LinkedTrace, segments: pl.DataFrame) -> pl.DataFrame:
    names = [
        (modules_of_rows if name == "module" else names_of_rows)(
            linked, segments.get_column(name).to_numpy()
        ).alias(name)
        for name in CONTEXT
    ]
    # Columns without any value, such as frames where there are no stacks, would only make the grouping slow.
    known = [column.name for column in names if column.null_count() < len(column)]
    return (
        segments.select("index", "activity", *names, (pl.col("end_ns") - pl.col("start_ns")).alias("dur_ns"))
        .group_by("index", "activity", *known, maintain_order=True)
        .agg(pl.col("dur_ns").sum(), *(pl.col(name).first() for name in CONTEXT if name not in known))
        .select("index", "activity", *CONTEXT, "dur_ns")
    )


def _gaps(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Of each row of `gap_launches`: `gap`, `gap_ns`, `size`, `sync_call`."""
    macro = pl.col("gap_ns") >= MACRO_NS
    return (
        gap_launches(linked, annotation)
        .select("gap", (pl.col("end_ns") - pl.col("start_ns")).alias("gap_ns"))
        .with_columns(
            pl.when(macro)
            .then(pl.lit(GapSize.MACRO.value))
            .otherwise(pl.lit(GapSize.MICRO.value))
            .alias("size"),
            _sync_calls(linked, annotation),
        )
    )


def _sync_calls(linked: LinkedTrace, annotation: str) -> pl.Series:
    """What synchronized the host with the device when each gap began: the call or op that the thread was in."""
    before = gap_launches(linked, annotation).get_column("start_ns").to_numpy() - 1
    threads = blamed_threads(linked, annotation)
    sync = host_context(linked).sync
    found = np.full(len(before), NO_ROW, dtype=np.int64)
    for column in ("partner", "thread"):
        rows = sync[innermost_at(linked, threads.get_column(column).to_numpy(), before)]
        found = np.where(rows >= 0, rows, found)
    return names_of_rows(linked, found).alias("sync_call")
