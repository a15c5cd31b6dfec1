"""The work of devices in which detectors find anti-patterns, and how much of it could be saved."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.device.device_events import device_events_by_step
from tracebraid.analysis.time.intervals import Cover, cover_of
from tracebraid.model.device_kind import COMPUTE, WAIT
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["device_work"]

_Ints = NDArray[np.int64]


def device_work(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The device events that do not only wait, by device, lane and start.

    Columns: those of `device_events_by_step`, end_ns, and alone_ns: how much of the event's time nothing else
    computes on its device. What is computed meanwhile has to be computed anyway: only the rest can be saved.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_device_work, annotation)


def _device_work(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    work = device_events_by_step(linked, annotation).filter(pl.col("kind") != WAIT)
    work = work.with_columns((pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"))
    work = work.sort("device", "lane", "ts_ns", "event_id")
    alone = np.zeros(work.height, dtype=np.int64)
    for device in work.get_column("device").unique().to_list():
        rows = (work.get_column("device") == device).to_numpy()
        alone[rows] = _alone(work.filter(pl.Series(rows)))
    return work.with_columns(pl.Series("alone_ns", alone))


def _alone(work: pl.DataFrame) -> _Ints:
    starts, ends = (work.get_column(name).to_numpy() for name in ("ts_ns", "end_ns"))
    computes = (work.get_column("kind") == COMPUTE).to_numpy()
    any_compute = cover_of(starts[computes], ends[computes])
    several = _covered_twice(starts[computes], ends[computes])
    hidden = np.where(computes, several.within(starts, ends), any_compute.within(starts, ends))
    found: _Ints = ends - starts - hidden
    return found


def _covered_twice(starts: _Ints, ends: _Ints) -> Cover:
    """The moments in which two or more of the intervals run."""
    moments = np.r_[ends, starts]
    change = np.r_[np.full(len(ends), -1), np.ones(len(starts), dtype=np.int64)]
    order = np.argsort(moments, kind="stable")
    running, moments = np.cumsum(change[order]), moments[order]
    twice = np.flatnonzero(running[:-1] >= 2)
    return cover_of(moments[twice], moments[twice + 1])
