"""How much of a delay of the host the device felt: the idle time that begins with the delay."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.launches.syncs.sync_calls import sync_calls
from tracebraid.analysis.time.intervals import Cover, cover_of
from tracebraid.analysis.time.work_events import work_events
from tracebraid.model.answers import SyncKind
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["device_idle", "idle_after", "in_idle_stretches", "is_on_device"]

_Ints = NDArray[np.int64]


def is_on_device(linked: LinkedTrace) -> bool:
    """Whether the trace has device work; else all time is the host's."""
    return not device_events(linked).is_empty()


def device_idle(linked: LinkedTrace) -> Cover:
    """The moments from the first event of the trace to the last end of device work in which no device works."""
    return linked.derived(_device_idle)


def _device_idle(linked: LinkedTrace) -> Cover:
    work = work_events(linked)
    starts, durations = (work.get_column(name).to_numpy() for name in ("ts_ns", "dur_ns"))
    busy = cover_of(starts, starts + durations)
    first, _ = linked.timeline.span_ns or (0, 0)
    begins, ends = np.r_[first, busy.ends[:-1]], busy.starts
    idle = ends > begins
    return cover_of(begins[idle], ends[idle])


def idle_after(linked: LinkedTrace, annotation: str, delays: pl.DataFrame) -> pl.DataFrame:
    """The idle time that follows delays of the host: a row for each idle stretch of each delay.

    Without a delay of length d the host would be d earlier, until it waits for the device the next time. So the step
    is shorter by at most d, and by at most the time in which no device works from the delay's start to the start of
    the next wait, or to the last work: what ends a trace delays nothing. Of the stretches in which no device works the
    first ones count, up to d together. In a trace without device work it is the delay itself.

    Args:
        linked: one rank.
        annotation: what marks a step.
        delays: `start_ns`, `end_ns`, on any thread, in any order; `idle_from_ns`, if it is there: from when on idle
            time counts, where the host waited for what the device had not begun before.

    Returns:
        `start_ns`, `end_ns`, `saving_ns` of the stretches, and what else the delays have.
    """
    long = pl.max_horizontal(pl.col("end_ns") - pl.col("start_ns"), 0)
    if delays.is_empty() or not is_on_device(linked):
        return delays.with_columns(long.alias("saving_ns"))
    starts, ends = (delays.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    since = delays.get_column("idle_from_ns").to_numpy() if "idle_from_ns" in delays.columns else starts
    until = np.maximum(_next_wait(linked, annotation, ends), since)
    delayed = delays.with_columns(
        long.alias("saving_ns"), pl.Series("start_ns", since), pl.Series("end_ns", until)
    )
    return in_idle_stretches(linked, delayed)


def in_idle_stretches(linked: LinkedTrace, found: pl.DataFrame) -> pl.DataFrame:
    """Each row once for each stretch in it in which no device works, up to its saving; so each saves all of its length.

    Args:
        linked: one rank.
        found: `start_ns`, `end_ns`, `saving_ns`: at most so much of the idle time counts; other columns stay.
    """
    idle = device_idle(linked)
    starts, ends, most = (found.get_column(name).to_numpy() for name in ("start_ns", "end_ns", "saving_ns"))
    first = np.searchsorted(idle.ends, starts, side="right")
    # Rows overlap where they are long: no more stretches of each than its saving needs.
    last = _moment_of(idle, np.minimum(idle.up_to(starts) + most, idle.length))
    count = np.searchsorted(idle.starts, np.minimum(ends, last), side="left") - first
    count = np.where(most > 0, np.maximum(count, 0), 0)
    row = np.repeat(np.arange(len(count)), count)
    stretch = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    begin = np.maximum(idle.starts[stretch], starts[row])
    end = np.minimum(idle.ends[stretch], np.minimum(ends, last)[row])
    exploded: pl.DataFrame = found[row].with_columns(
        pl.Series("start_ns", begin), pl.Series("end_ns", end), pl.Series("saving_ns", end - begin)
    )
    return exploded.filter(pl.col("saving_ns") > 0)


def _next_wait(linked: LinkedTrace, annotation: str, ends: _Ints) -> _Ints:
    """The start of the first call at or after each moment that waited for the device; else the end of the trace."""
    calls = sync_calls(linked, annotation).filter(
        (pl.col("kind") != SyncKind.QUERY.value) & (pl.col("blocked_ns") > 0)
    )
    last = max(linked.timeline.span_ns or (0, 0))
    moments = np.r_[np.sort(calls.get_column("start_ns").to_numpy()), last]
    found: _Ints = moments[np.minimum(np.searchsorted(moments, ends), len(moments) - 1)]
    return np.maximum(found, ends)


def _moment_of(cover: Cover, length: _Ints) -> _Ints:
    """The first moment before which a cover has some length, at least 1."""
    if not len(cover.starts):
        return length
    upto = cover.before + cover.ends - cover.starts
    interval = np.minimum(np.searchsorted(upto, length), len(cover.starts) - 1)
    found: _Ints = cover.starts[interval] + np.clip(
        length - cover.before[interval], 0, cover.ends[interval] - cover.starts[interval]
    )
    return found
