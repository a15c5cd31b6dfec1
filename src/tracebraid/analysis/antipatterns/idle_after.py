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

__all__ = ["device_idle", "idle_after", "is_on_device"]

_Ints = NDArray[np.int64]


def is_on_device(linked: LinkedTrace) -> bool:
    """Whether the trace has device work; else all time is the host's."""
    return not device_events(linked).is_empty()


def device_idle(linked: LinkedTrace) -> Cover:
    """The moments between the first and the last event of the trace in which no device works."""
    return linked.derived(_device_idle)


def _device_idle(linked: LinkedTrace) -> Cover:
    work = work_events(linked)
    starts, durations = (work.get_column(name).to_numpy() for name in ("ts_ns", "dur_ns"))
    busy = cover_of(starts, starts + durations)
    first, last = linked.timeline.span_ns or (0, 0)
    begins, ends = np.r_[min(first, last), busy.ends], np.r_[busy.starts, max(first, last)]
    idle = ends > begins
    return cover_of(begins[idle], ends[idle])


def idle_after(linked: LinkedTrace, annotation: str, delays: pl.DataFrame) -> pl.DataFrame:
    """Delays of the host as occurrences: `start_ns`, `end_ns` and `saving_ns` are set, what else they have stays.

    Without a delay of length d the host would be d earlier, until it waits for the device the next time. So the step
    is shorter by at most d, and by at most the time in which no device works from the delay's start to the start of
    the next wait. The occurrence is the stretch in which that time lies. In a trace without device work it is the
    delay itself.

    Args:
        linked: one rank.
        annotation: what marks a step.
        delays: `start_ns`, `end_ns`, on any thread, in any order.
    """
    if delays.is_empty() or not is_on_device(linked):
        long = pl.max_horizontal(pl.col("end_ns") - pl.col("start_ns"), 0)
        return delays.with_columns(long.alias("saving_ns"))
    starts, ends = (delays.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    idle = device_idle(linked)
    saving = np.minimum(
        np.maximum(ends - starts, 0), idle.within(starts, _next_wait(linked, annotation, ends))
    )
    before = idle.up_to(starts)
    return delays.with_columns(
        pl.Series("start_ns", _moment_of(idle, before + 1) - 1),
        pl.Series("end_ns", _moment_of(idle, before + saving)),
        pl.Series("saving_ns", saving),
    )


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
