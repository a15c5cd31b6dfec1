"""The collectives of a rank, each with the time in which nothing computes, and its launch."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.device.device_events import device_events
from tracebraid.analysis.event_columns import event_columns, fetched, rows_of_events
from tracebraid.analysis.time.collective_events import collective_events
from tracebraid.analysis.time.intervals import owned
from tracebraid.analysis.time.step_windows import step_of_moments, step_windows
from tracebraid.analysis.time.work_events import HOST, compute_cover, work_events
from tracebraid.model.device_kind import COMPUTE
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["computed_between", "computing", "exposed_events"]

_Ints = NDArray[np.int64]
_BETWEEN_TWO = r"(?i)send|recv|barrier"


def exposed_events(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    """The collectives that count, by device and start; sends, receives and barriers are left out.

    Columns: those of `collective_events`; operation, its name in small letters without the backend, `_` and what is
    behind a dot; issued_ns, the start of its launch, and host_event, the op or call of the host; exposed_ns, its time
    in which nothing computes on its device and no collective runs that began before; step, in which it was issued.

    Args:
        linked: one rank.
        annotation: what marks a step.
    """
    return linked.derived(_exposed, annotation)


def _exposed(linked: LinkedTrace, annotation: str) -> pl.DataFrame:
    events = collective_events(linked).filter("counts").sort("device", "ts_ns", "event_id")
    exposed = np.zeros(events.height, dtype=np.int64)
    for device in events.get_column("device").unique().to_list():
        rows = (events.get_column("device") == device).to_numpy()
        starts, ends = (events.get_column(name).to_numpy()[rows] for name in ("ts_ns", "end_ns"))
        first, last = owned(starts, np.maximum(starts, ends))
        exposed[rows] = last - first - compute_cover(linked, device).within(first, last)
    work = device_events(linked)
    rows_of_work = rows_of_events(work.get_column("event_id"), events.get_column("event_id"))
    launch = fetched(work.select("call_event", "op_event"), rows_of_work)
    on_host = pl.when(pl.col("device") == HOST).then("event_id")
    found = events.with_columns(launch.get_columns()).with_columns(
        pl.coalesce("op_event", "call_event", on_host).alias("host_event"),
        pl.coalesce("call_event", "op_event", on_host).alias("issue_event"),
    )
    issued = event_columns(linked.timeline, found.get_column("issue_event"), issued_ns="ts_ns")
    found = found.with_columns(issued).with_columns(
        pl.col("issued_ns").fill_null(pl.col("ts_ns")),
        pl.Series("exposed_ns", exposed),
        pl.col("name")
        .str.replace(r"^\w+:{1,2}", "")
        .str.to_lowercase()
        .str.replace(r"\..*", "")
        .str.replace_all("_", "")
        .alias("operation"),
    )
    moments = found.select(pl.col("issued_ns").alias("ts_ns"))
    found = found.with_columns(step_of_moments(moments, step_windows(linked, annotation))["step"])
    return found.filter(~pl.col("name").str.contains(_BETWEEN_TWO))


def computing(linked: LinkedTrace, device: str) -> pl.DataFrame:
    """What computes on a device, in the order of starts: event_id, ts_ns, end_ns, call_event, op_event."""
    return linked.derived(_computing, device)


def _computing(linked: LinkedTrace, device: str) -> pl.DataFrame:
    work = work_events(linked).filter((pl.col("device") == device) & (pl.col("kind") == COMPUTE))
    events = device_events(linked)
    rows = rows_of_events(events.get_column("event_id"), work.get_column("event_id"))
    return (
        work.with_columns(
            fetched(events.select("call_event"), rows).to_series(),
            (pl.col("ts_ns") + pl.col("dur_ns")).alias("end_ns"),
        )
        .select("event_id", "ts_ns", "end_ns", "call_event", "op_event")
        .sort("ts_ns", "event_id")
    )


def computed_between(linked: LinkedTrace, device: str, starts: _Ints, ends: _Ints) -> _Ints:
    """How many events of a device begin to compute in each window [start, end)."""
    moments = computing(linked, device).get_column("ts_ns").to_numpy()
    found: _Ints = np.searchsorted(moments, ends, side="left") - np.searchsorted(moments, starts, side="left")
    return np.maximum(found, 0)
