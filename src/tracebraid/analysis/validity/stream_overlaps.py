"""Which work overlaps later work of its stream in a way that no device can run?"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.validity.doubts import about_events, device_work
from tracebraid.model.answers import Doubt
from tracebraid.model.category import Role
from tracebraid.model.device_kind import COMMUNICATION
from tracebraid.model.linked_trace import LinkedTrace
from tracebraid.model.timeline import Timeline
from tracebraid.model.units import NS_PER_US

__all__ = ["impossible_overlaps"]

_SERIAL_CATEGORIES = ("kernel", "gpu_memcpy", "gpu_memset")
"""What a stream of CUDA and ROCm runs after one another. Lanes of other devices may be no queues."""

_TOLERANCE_NS = 5 * NS_PER_US
"""Overlaps up to it come from rounding to whole microseconds, and from clocks of copy engines; healthy streams of
short kernels were reported with 4 microseconds (AMD-AGI/Hyperloom#1116)."""

_TIMES_ITS_NAME = 10
"""How many times as long as the median of its name a node of a graph lasts, at least, that runs over other nodes: a
branch of a graph does the same in every layer."""
_OF_NAME = 3
"""Events of that name, at least."""

_FIRST_MAJOR_WITH_DEPENDENT_LAUNCH = 9
"""Compute capability from which on a kernel may start before its predecessor of the stream ends
(CUDA C++ Programming Guide, programmatic dependent launch)."""


def impossible_overlaps(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """Events that run on while later work of their stream runs.

    Work of one launch (the nodes of a graph) may run in parallel, so that a node is doubted only if it computes for far
    longer than others of its name. Where a kernel may start early by a programmatic
    dependent launch, it still ends after its predecessor: there, and where the device is unknown, an event is
    doubted only when later work ends before it does. Streams of ROCm may share a queue, which is what the file has as
    the stream: there, communication and other work may overlap. Streams of two contexts may have the same number.
    """
    work = _serial(device_work(linked, annotation).filter(pl.col("dur_ns") > 0), linked)
    rocm = _is_rocm(linked.timeline)
    communicates = pl.lit(rocm) & (pl.col("kind") == COMMUNICATION)
    contexts = linked.timeline.device_work.select("event_id", "context")
    queue = pl.struct("lane", "context", communicates).rank("dense").cast(pl.Int64).alias("queue")
    columns = ["event_id", "ts_ns", "end_ns", "dur_ns", "step", "name", "kind"]
    work = work.join(contexts, on="event_id", how="left").select(queue, *columns)
    work = work.sort("queue", "ts_ns", "event_id")
    before, found = _running_before(work)
    ends = work.get_column("end_ns").to_numpy()
    starts = work.get_column("ts_ns").to_numpy()
    overlap = ends[before] - (ends if not rocm and _may_start_early(linked.timeline) else starts)
    found &= overlap > _TOLERANCE_NS
    if found.any():
        found &= _of_other_launch(work, before, linked) | _is_unlike_its_name(work)[before]
    longer = work[np.unique(before[found])]
    events = longer.select("event_id", "ts_ns", "end_ns", "step", pl.col("dur_ns").alias("time_ns"))
    return about_events(Doubt.STREAM_OVERLAPS, events, linked, annotation)


def _serial(work: pl.DataFrame, linked: LinkedTrace) -> pl.DataFrame:
    """Of some events those that a stream runs after one another."""
    events = linked.timeline.events
    serial = events.filter(pl.col("category").is_in(list(_SERIAL_CATEGORIES))).get_column("event_id")
    return work if serial.len() == work.height else work.filter(pl.col("event_id").is_in(serial.implode()))


def _running_before(work: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For each row the earlier row of its queue that ends last, and whether there is any.

    Args:
        work: in the order of queues and starts.
    """
    queues, ends = (work.get_column(name).to_numpy() for name in ("queue", "end_ns"))
    before = np.zeros(len(queues), dtype=np.int64)
    found = np.zeros(len(queues), dtype=np.bool_)
    bounds = [0, *(np.flatnonzero(queues[1:] != queues[:-1]) + 1).tolist(), len(queues)]
    for start, stop in pairwise(bounds):
        reach = np.maximum.accumulate(ends[start:stop])
        raised = np.where(ends[start:stop] == reach, np.arange(start, stop), start)
        before[start + 1 : stop] = np.maximum.accumulate(raised)[:-1]
        found[start + 1 : stop] = True
    return before, found


def _of_other_launch(work: pl.DataFrame, before: NDArray[np.int64], linked: LinkedTrace) -> NDArray[np.bool_]:
    """Whether each row has another launch than the row before it."""
    launches = linked.timeline.device_work.select("event_id", "correlation")
    launch = work.select("event_id").join(launches, on="event_id", how="left", maintain_order="left")
    correlation = launch.get_column("correlation").fill_null(-1).to_numpy()
    other: NDArray[np.bool_] = (correlation != correlation[before]) | (correlation < 0)
    return other


def _is_unlike_its_name(work: pl.DataFrame) -> NDArray[np.bool_]:
    """Whether each row is far longer than others of its name; communication may wait for other ranks."""
    usual = pl.col("dur_ns").median().over("name")
    alike = pl.len().over("name") >= _OF_NAME
    longer = alike & (pl.col("dur_ns") >= _TIMES_ITS_NAME * usual) & (pl.col("kind") != COMMUNICATION)
    unlike: NDArray[np.bool_] = work.select(longer).to_series().to_numpy()
    return unlike


def _is_rocm(timeline: Timeline) -> bool:
    """Whether calls or devices are those of ROCm; the majors of its devices look like those of CUDA."""
    calls = timeline.of_role(Role.CALL).get_column("name").unique().cast(pl.String)
    return bool(calls.str.starts_with("hip").any()) or any("AMD" in name for name in timeline.device_names)


def _may_start_early(timeline: Timeline) -> bool:
    """Whether a kernel may start before its predecessor ends; true where the device is unknown."""
    properties = timeline.header.get("deviceProperties")
    rows = properties if isinstance(properties, list) else []
    majors = [row.get("computeMajor") for row in rows if isinstance(row, dict)]
    known = [major for major in majors if isinstance(major, int)]
    return not known or max(known) >= _FIRST_MAJOR_WITH_DEPENDENT_LAUNCH
