"""Launches that blocked because their stream's queue was full: they returned when the device took work from it."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.launches.queues.full_queue import MAX_QUEUE_LENGTH, NEARLY_FULL, SLOW
from tracebraid.graph.devices.device_works import DeviceWorks
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import EdgeKind, Point
from tracebraid.model.graph.rank_graph import EdgeList, moment

__all__ = ["queue_edges"]

_Ints = NDArray[np.int64]


def queue_edges(works: DeviceWorks, activities: pl.DataFrame, times_ns: _Ints) -> EdgeList:
    """From the start of the work that made room in a full queue to the end of the call that waited for it.

    As in the analysis `full_queue`: when the call began, nearly 1,024 launches of its stream had not started; it
    took four times the median of the calls of its name that met no full queue; and work of the stream started
    before it returned.

    Args:
        works: of one rank.
        activities: `ACTIVITIES`.
        times_ns: of each moment.
    """
    calls, room = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for lane in np.unique(works.lane).tolist():
        found = _in_full_queue(works, np.flatnonzero((works.lane == lane) & (works.call >= 0)), times_ns)
        calls.append(found[0])
        room.append(found[1])
    call, work = np.concatenate(calls), np.concatenate(room)
    slow = _slow(call, works, activities, times_ns)
    before, after = moment(works.first + work[slow], Point.START), moment(call[slow], Point.END)
    return EdgeList.of(before, after, EdgeKind.QUEUE, call[slow])


def _in_full_queue(works: DeviceWorks, launched: _Ints, times_ns: _Ints) -> tuple[_Ints, _Ints]:
    """Calls that met a nearly full queue, and the last work of the stream to start before each returned."""
    if len(launched) < NEARLY_FULL * MAX_QUEUE_LENGTH:
        return launched[:0], launched[:0]
    by_start = launched[np.argsort(works.start_ns[launched], kind="stable")]
    calls, first = np.unique(works.call[by_start], return_index=True)
    starts = works.start_ns[by_start]
    began, returned = times_ns[2 * calls], times_ns[2 * calls + 1]
    order = np.argsort(began, kind="stable")
    waiting = np.empty(len(calls), dtype=np.int64)
    waiting[order] = np.arange(len(calls)) - np.searchsorted(
        np.sort(starts[first]), began[order], side="right"
    )
    last = np.searchsorted(starts, returned, side="right") - 1
    met = (waiting >= NEARLY_FULL * MAX_QUEUE_LENGTH) & (last >= 0) & (starts[last] > began)
    return calls[met], by_start[last[met]]


def _slow(call: _Ints, works: DeviceWorks, activities: pl.DataFrame, times_ns: _Ints) -> NDArray[np.bool_]:
    if not len(call):
        return np.zeros(0, dtype=np.bool_)
    every = np.unique(works.call[works.call >= 0])
    rows = pl.DataFrame(
        {
            "name": activities.select(as_text("name")).to_series().gather(every),
            "lasted_ns": times_ns[2 * every + 1] - times_ns[2 * every],
            "met": np.isin(every, call),
        }
    )
    usual = pl.col("lasted_ns").filter(~pl.col("met")).median().over("name")
    slow = rows.select((pl.col("lasted_ns") >= SLOW * usual).fill_null(False)).to_series().to_numpy()
    found: NDArray[np.bool_] = slow[np.searchsorted(every, call)]
    return found
