"""Waits of a stream for another that run on the device as work of their own, as MTIA has them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.graph.activities import RankActivities
from tracebraid.graph.devices.device_works import DeviceWorks
from tracebraid.model.graph.codes import EdgeKind, Point
from tracebraid.model.graph.rank_graph import EdgeList, moment
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["recorded_waits"]

_Ints = NDArray[np.int64]

_NO_STREAM = -1


def recorded_waits(linked: LinkedTrace, activities: RankActivities, works: DeviceWorks) -> EdgeList:
    """From the last work of the other stream to end before a wait does, to the end of the wait.

    Such a wait is device work with `wait_on_stream`. That of which the other stream's work had ended before it began
    waited for nothing.

    Args:
        linked: one rank.
        activities: of the same rank.
        works: of the same rank.
    """
    work = linked.timeline.device_work.select("event_id", "stream", "wait_on_stream")
    stream = np.full(len(works), _NO_STREAM, dtype=np.int64)
    other = stream.copy()
    rows = activities.of_event[work.get_column("event_id").to_numpy()]
    known = rows >= works.first
    for column, array in (("stream", stream), ("wait_on_stream", other)):
        array[rows[known] - works.first] = work.get_column(column).fill_null(_NO_STREAM).to_numpy()[known]
    before, after = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for number in np.unique(other[other != _NO_STREAM]).tolist():
        asked = np.flatnonzero(other == number)
        there = np.flatnonzero(stream == number)
        found = _last_to_end(works, there, works.end_ns[asked])
        waited = (found >= 0) & (works.end_ns[found] > works.start_ns[asked])
        before.append(found[waited])
        after.append(asked[waited])
    first, second = (moment(works.first + np.concatenate(part), Point.END) for part in (before, after))
    return EdgeList.of(first, second, EdgeKind.EVENT_WAIT, second // 2)


def _last_to_end(works: DeviceWorks, there: _Ints, until_ns: _Ints) -> _Ints:
    """The last of some works to end before each of some times; -1 where none has."""
    if not len(there):
        return np.full(len(until_ns), -1, dtype=np.int64)
    ordered = there[np.argsort(works.end_ns[there], kind="stable")]
    row = np.searchsorted(works.end_ns[ordered], until_ns, side="right") - 1
    return np.where(row < 0, -1, ordered[row])
