"""Where does the device wait for launches, and what would a graph or fusion gain there at most?"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.answering import answer
from tracebraid.analysis.launches.callers import callers
from tracebraid.analysis.launches.launched_work import STREAM, launched_work
from tracebraid.analysis.launches.syncs.synchronising import synchronising_calls
from tracebraid.analysis.time.intervals import cover_of
from tracebraid.model.answers import LAUNCH_BOUND, SyncKind
from tracebraid.model.expressions import by_number
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.step import PROFILER_STEP
from tracebraid.model.units import NS_PER_MS

__all__ = ["LEAST_LAUNCHES", "STALL_NS", "launch_bound", "launch_gaps"]

STALL_NS = NS_PER_MS
"""A gap from here on is no launch overhead: the host does something else. An op with its launch takes 5 to 100 µs."""

LEAST_LAUNCHES = 3
"""Launches of a stretch at least: two gaps between them, so that a single one makes none."""


def launch_bound(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """Stretches of a stream that is always ready before its work is, the most idle first: `model.answers.LAUNCH_BOUND`.

    A device event waited for its launch if all earlier work of its stream had ended before its call returned. A
    stretch is a longest run of such events, with the event before the first of them; events of one call (a graph)
    stay together. It ends where the stream is idle for `STALL_NS` or more, or where the host synchronised or made a
    copy that it waits for between two launches, since neither a graph nor fusion spans that. Stretches of fewer than
    `LEAST_LAUNCHES` launches are left out.

    `gain_ns` is a bound from above: launched as a graph or fused, the stretch cannot be shorter than its work.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
    """
    work = _in_large_stretches(linked, annotation)
    if work.is_empty():
        return LAUNCH_BOUND.empty()
    found = _summed(work.with_columns(_idle_of_device(launched_work(linked, annotation), work)))
    named = work.drop("op").join(
        callers(linked, annotation), on="call_event", how="left", maintain_order="left"
    )
    for column in ("op", "annotation"):
        found = found.join(_main(named, column), on="stretch", how="left", maintain_order="left")
    order = [pl.col("start_ns"), *by_number(*STREAM)]
    found = found.sort("idle_ns", *order, descending=[True, *[False] * len(order)])
    return answer(LAUNCH_BOUND, found, linked, annotation)


def launch_gaps(linked: LinkedTrace, annotation: str = PROFILER_STEP) -> pl.DataFrame:
    """The gaps of streams in these stretches: `device`, `start_ns`, `end_ns`; other streams may work meanwhile.

    Args:
        linked: one rank.
        annotation: what marks a step, see `steps`.
    """
    return (
        _in_large_stretches(linked, annotation)
        .filter(pl.col("gap_ns") > 0)
        .select("device", (pl.col("ts_ns") - pl.col("gap_ns")).alias("start_ns"), end_ns="ts_ns")
    )


def _in_large_stretches(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """`_in_stretches` without stretches of few launches."""
    large = pl.col("call_event").n_unique().over("stretch") >= LEAST_LAUNCHES
    return _in_stretches(linked, annotation).filter(large)


def _summed(work: pl.DataFrame) -> pl.DataFrame:
    """A row for each stretch."""
    first_of_call = pl.col("call_event").is_first_distinct().over("stretch").alias("first_of_call")
    host = (pl.col("returned_ns") - pl.col("called_ns")).filter("first_of_call")
    return (
        work.with_columns(first_of_call)
        .group_by("stretch", maintain_order=True)
        .agg(
            pl.col("step", *STREAM).first(),
            pl.col("ts_ns").first().alias("start_ns"),
            (pl.col("end_ns").max() - pl.col("ts_ns").first()).alias("span_ns"),
            pl.col("first_of_call").sum().alias("launches"),
            pl.len().alias("kernels"),
            pl.col("gap_ns").sum().alias("idle_ns"),
            pl.col("gain_ns").sum(),
            host.sum().alias("host_launch_ns"),
        )
        .with_columns((pl.col("span_ns") - pl.col("idle_ns")).alias("device_ns"))
    )


def _in_stretches(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Device events of known launches with their `stretch`, and `gap_ns`: the idle time of the stretch before each."""
    work = launched_work(linked, annotation)
    work = work.with_columns(pl.Series("synchronised", _syncs_before(linked, annotation, work)))
    gap = pl.max_horizontal(pl.col("ts_ns") - pl.col("busy_until_ns"), 0)
    same_call = pl.col("call_event").eq(pl.col("call_event").shift(1).over(STREAM))
    no_sync = pl.col("synchronised").eq(pl.col("synchronised").shift(1).over(STREAM))
    ran_dry = (pl.col("busy_until_ns") <= pl.col("returned_ns")) & (gap < STALL_NS) & no_sync
    known = pl.col("call_event").is_not_null() & pl.col("call_event").shift(1).over(STREAM).is_not_null()
    joined = (known & (same_call | ran_dry)).fill_null(False)
    return (
        work.with_columns(joined.alias("joined"), (~joined).cum_sum().alias("stretch"))
        .with_columns(pl.when("joined").then(gap).otherwise(0).alias("gap_ns"))
        .filter(pl.col("call_event").is_not_null())
    )


def _syncs_before(
    linked: LinkedTrace, annotation: str, work: pl.DataFrame
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How many calls that synchronise ended before each event's launch; queries and allocations do not count."""
    calls = synchronising_calls(linked, annotation)
    counted = [SyncKind.DEVICE.value, SyncKind.STREAM.value, SyncKind.EVENT.value, SyncKind.COPY.value]
    ends = np.sort(calls.filter(pl.col("kind").is_in(counted)).get_column("end_ns").to_numpy())
    called = work.get_column("called_ns").fill_null(0).to_numpy()
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = np.searchsorted(ends, called, side="right")
    return found


def _idle_of_device(all_work: pl.DataFrame, work: pl.DataFrame) -> pl.Series:
    """How much of the gap before each event all streams of its device were idle."""
    gain = np.zeros(work.height, dtype=np.int64)
    device = work.get_column("device").to_numpy()
    gap, start = (work.get_column(name).to_numpy() for name in ("gap_ns", "ts_ns"))
    for (name,), of_device in all_work.group_by("device"):
        busy = cover_of(of_device.get_column("ts_ns").to_numpy(), of_device.get_column("end_ns").to_numpy())
        rows = device == name
        gain[rows] = gap[rows] - busy.within(start[rows] - gap[rows], start[rows])
    return pl.Series("gain_ns", gain)


def _main(work: pl.DataFrame, column: str) -> pl.DataFrame:
    """Of each stretch the name with the most idle time before its work; of equals the first by name."""
    return (
        work.filter(pl.col(column).is_not_null())
        .group_by("stretch", column)
        .agg(pl.col("gap_ns").sum())
        .sort("stretch", "gap_ns", column, descending=[False, True, False])
        .unique("stretch", keep="first", maintain_order=True)
        .select("stretch", column)
    )
