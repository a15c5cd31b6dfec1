"""Waits of a stream for another that run on the device as work of their own, as MTIA has them."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.graph.activities import RankActivities
from tracebraid.graph.devices.device_works import DeviceWorks
from tracebraid.model.graph.codes import EdgeKind, Point
from tracebraid.model.graph.rank_graph import EdgeList, moment
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["recorded_waits"]

_Ints = NDArray[np.int64]


def recorded_waits(linked: LinkedTrace, activities: RankActivities, works: DeviceWorks) -> EdgeList:
    """From the last work of the other stream to end before a wait does, to the end of the wait.

    Such a wait is device work with `wait_on_stream`. That of which the other stream's work had ended before it began
    waited for nothing.

    Args:
        linked: one rank.
        activities: of the same rank.
        works: of the same rank.
    """
    work = linked.timeline.device_work.filter(pl.col("wait_on_stream").is_not_null())
    waits = activities.of_event[work.get_column("event_id").to_numpy()]
    other = work.get_column("wait_on_stream").to_numpy()
    stream = activities.table.get_column("stream").slice(works.first).fill_null(-1).to_numpy()
    before, after = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for number in np.unique(other[waits >= 0]).tolist():
        asked = waits[(waits >= 0) & (other == number)] - works.first
        there = np.flatnonzero(stream == number)
        found = _last_to_end(works, there, works.end_ns[asked])
        waited = (found >= 0) & (works.end_ns[found] > works.start_ns[asked])
        before.append(found[waited])
        after.append(asked[waited])
    ends = (moment(works.first + np.concatenate(rows), Point.END) for rows in (before, after))
    first, second = ends
    return EdgeList.of(first, second, EdgeKind.EVENT_WAIT, second // 2)


def _last_to_end(works: DeviceWorks, there: _Ints, until_ns: _Ints) -> _Ints:
    """The last of some works to end before each of some times; -1 where none has."""
    if not len(there):
        return np.full(len(until_ns), -1, dtype=np.int64)
    ordered = there[np.argsort(works.end_ns[there], kind="stable")]
    row = np.searchsorted(works.end_ns[ordered], until_ns, side="right") - 1
    return np.where(row < 0, -1, ordered[row])
