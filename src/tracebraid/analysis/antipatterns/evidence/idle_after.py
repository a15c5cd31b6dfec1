"""How much of a delay of the host the device felt: the idle time that begins with the delay."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.antipatterns.idle_on_path import device_waits, idle_on_path
from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.time.intervals import Cover
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["idle_after", "in_idle_stretches", "in_stretches", "is_on_device"]

_Ints = NDArray[np.int64]
_NEVER = 2**62


def is_on_device(linked: LinkedTrace) -> bool:
    """Whether the trace has device work; else all time is the host's."""
    return not device_events(linked).is_empty()


def idle_after(
    linked: LinkedTrace, annotation: str, delays: pl.DataFrame, are_waits: bool = False
) -> pl.DataFrame:
    """The idle time that follows delays of the host: a row for each idle stretch of each delay.

    Without a delay of length d the host would be d earlier, until it waits for the device the next time. So the step
    is shorter by at most d, and by at most the idle time (see `idle_on_path`) from the delay's start to the start of
    the next wait, or to the last work: what ends a trace delays nothing. Of the idle stretches the first ones count,
    up to d together; what a delay does not use counts for the next, if the host does not wait before. In a trace
    without device work it is the delay itself.

    Args:
        linked: one rank.
        annotation: what marks a step.
        delays: `start_ns`, `end_ns`, on any thread, in any order.
        are_waits: whether the delays themselves are waits for the device; all of them fall away together.

    Returns:
        `start_ns`, `end_ns`, `saving_ns` of the stretches, and what else the delays have.
    """
    long = pl.max_horizontal(pl.col("end_ns") - pl.col("start_ns"), 0)
    if delays.is_empty() or not is_on_device(linked):
        return delays.with_columns(long.alias("saving_ns"))
    delays = delays.sort("start_ns", "end_ns", maintain_order=True)
    starts, ends = (delays.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    idle = idle_on_path(linked, annotation, starts.tolist() if are_waits else ())
    until = _next_wait(linked, annotation, ends, starts if are_waits else None)
    limits = np.minimum(until, np.r_[starts[1:], until[-1:]])
    saving = _ahead(
        idle.within(starts, limits), np.maximum(ends - starts, 0), until >= np.r_[starts[1:], _NEVER]
    )
    return in_stretches(
        idle, delays.with_columns(pl.Series("saving_ns", saving), pl.Series("end_ns", limits))
    )


def _ahead(idle: _Ints, long: _Ints, goes_on: NDArray[np.bool_]) -> _Ints:
    """What each delay saves of the idle time behind it; what it does not use the host is ahead at the next.

    Args:
        idle: idle time from each delay to the next, or to the next wait.
        long: length of each.
        goes_on: whether the host does not wait before the next.
    """
    found, ahead = [], 0
    for room, own, more in zip(idle.tolist(), long.tolist(), goes_on.tolist(), strict=True):
        found.append(min(room, ahead + own))
        ahead = ahead + own - found[-1] if more else 0
    return np.array(found, dtype=np.int64)


def in_idle_stretches(linked: LinkedTrace, annotation: str, found: pl.DataFrame) -> pl.DataFrame:
    """Each row once for each idle stretch in it (`idle_on_path`), up to its saving; so each saves all of its length.

    Args:
        linked: one rank.
        annotation: what marks a step.
        found: `start_ns`, `end_ns`, `saving_ns`: at most so much of the idle time counts; other columns stay.
    """
    return in_stretches(idle_on_path(linked, annotation), found)


def in_stretches(idle: Cover, found: pl.DataFrame) -> pl.DataFrame:
    """The same for the stretches of any cover."""
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


def _next_wait(linked: LinkedTrace, annotation: str, ends: _Ints, but: _Ints | None) -> _Ints:
    """The start of the first call at or after each moment that waited for the device; else the end of the trace.

    Calls that start at a moment of `but` do not count.
    """
    calls = device_waits(linked, annotation).get_column("start_ns").to_numpy()
    if but is not None:
        calls = calls[~np.isin(calls, but)]
    last = max(linked.timeline.span_ns or (0, 0))
    moments = np.r_[calls, last]
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
