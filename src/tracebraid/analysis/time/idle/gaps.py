"""The gaps of each device: stretches in which nothing runs on any of its streams."""

from __future__ import annotations

import numpy as np
import polars as pl

from tracebraid.analysis.time.intervals import cover_of
from tracebraid.analysis.time.step_windows import step_windows
from tracebraid.analysis.time.work_events import work_events
from tracebraid.model.expressions import by_number
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["device_gaps", "device_spans"]

_GAPS: dict[str, type[pl.DataType]] = {
    "device": pl.String,
    "gap": pl.Int64,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "next_event": pl.Int64,
}


def device_spans(linked: LinkedTrace) -> pl.DataFrame:
    """From the first event to the last of each device, in the order of devices: `device`, `start_ns`, `end_ns`."""
    return linked.derived(_device_spans)


def device_gaps(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The gaps of each device in the order of time: `device`, `gap` (its number), `start_ns`, `end_ns`, `next_event`.

    They reach from the device's first event to its last, or further where steps do. `next_event` is the event that
    ended the gap, the first in the file of those that start then; null after the last.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_device_gaps, annotation)


def _device_spans(linked: LinkedTrace) -> pl.DataFrame:
    events = work_events(linked)
    spans = events.group_by("device").agg(
        pl.col("ts_ns").min().alias("start_ns"), (pl.col("ts_ns") + pl.col("dur_ns")).max().alias("end_ns")
    )
    return spans.sort(*by_number("device"))


def _device_gaps(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    steps = step_windows(linked, annotation)
    events = work_events(linked).sort("ts_ns", "event_id")
    found = [pl.DataFrame(schema=_GAPS)]
    for device, start, end in device_spans(linked).iter_rows():
        if not steps.is_empty():
            start = min(start, int(steps.get_column("start_ns").to_numpy().min()))
            end = max(end, int(steps.get_column("end_ns").to_numpy().max()))
        of_device = events.filter(pl.col("device") == device)
        found.append(_gaps(device, of_device, start, end))
    return pl.concat(found)


def _gaps(device: str, events: pl.DataFrame, start: int, end: int) -> pl.DataFrame:
    """The gaps in [start, end) of events of one device, in the order of their starts."""
    starts = events.get_column("ts_ns").to_numpy()
    busy = cover_of(starts, starts + events.get_column("dur_ns").to_numpy())
    begins = np.r_[start, busy.ends]
    ends = np.r_[busy.starts, end]
    following = np.searchsorted(starts, busy.starts)
    ids = events.get_column("event_id").to_numpy()
    next_event = pl.Series(np.r_[ids[following], -1])
    return (
        pl.DataFrame({"start_ns": begins, "end_ns": ends, "next_event": next_event})
        .filter(pl.col("end_ns") > pl.col("start_ns"))
        .with_row_index("gap")
        .select(
            pl.lit(device).alias("device"),
            pl.col("gap").cast(pl.Int64),
            "start_ns",
            "end_ns",
            pl.when(pl.col("next_event") >= 0).then("next_event").alias("next_event"),
        )
    )
