"""Idle time of the whole trace, or of each step: segments cut to the windows in which they lie."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.time.idle.gaps import device_spans
from tracebraid.analysis.time.idle.idle_segments import idle_segments
from tracebraid.analysis.time.idle.launches import gap_launches
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["segments_in_windows"]


def segments_in_windows(linked: LinkedTrace, annotation: str, per_step: bool) -> pl.DataFrame:
    """The segments of `idle_segments`, cut to each device's span or to the steps: with `device`, `step`, `window`.

    They are in the order of devices, windows and time. A segment lies in each of several steps that overlap.

    Args:
        linked: one rank.
        annotation: what marks a step.
        per_step: whether windows are steps, or the whole span of the device, whose `step` is null.
    """
    segments = idle_segments(linked, annotation)
    devices = gap_launches(linked, annotation).get_column("device")
    of_segments = devices.gather(segments.get_column("row"))
    found = [_cut(segments.clear(), "", _windows_of(0, 0))]
    steps = step_windows(linked, annotation)
    for device, start, end in device_spans(linked).iter_rows():
        windows = steps if per_step else _windows_of(start, end)
        of_device = segments.filter(of_segments == device)
        found.append(_cut(of_device, device, windows))
    return pl.concat(found)


def _windows_of(start: int, end: int) -> pl.DataFrame:
    schema = {"step": pl.String, "start_ns": pl.Int64, "end_ns": pl.Int64}
    return pl.DataFrame([(None, start, end)], schema=schema, orient="row")


def _cut(segments: pl.DataFrame, device: str, windows: pl.DataFrame) -> pl.DataFrame:
    """Segments that are in order and do not overlap, cut to each window."""
    start, end = (segments.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    begin, stop = (windows.get_column(name).to_numpy() for name in ("start_ns", "end_ns"))
    first = np.searchsorted(end, begin, side="right")
    count = np.maximum(np.searchsorted(start, stop, side="left") - first, 0)
    window = np.repeat(np.arange(len(begin)), count)
    index = first[window] + np.arange(len(window)) - np.repeat(np.cumsum(count) - count, count)
    names = windows.get_column("step")
    found: pl.DataFrame = segments[index]
    return found.with_columns(
        pl.Series("start_ns", np.maximum(start[index], begin[window])),
        pl.Series("end_ns", np.minimum(end[index], stop[window])),
        pl.lit(device).alias("device"),
        names.gather(window).alias("step"),
        pl.Series("window", window, dtype=pl.Int64),
    ).filter(pl.col("end_ns") > pl.col("start_ns"))
