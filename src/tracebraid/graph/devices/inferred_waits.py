"""Waits of a stream for another that the device did not record: proven by a call, and by when the work started."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.analysis.time.idle.stream_waits import stream_waits
from tracebraid.graph.activities import RankActivities
from tracebraid.graph.devices.device_works import DeviceWorks
from tracebraid.model.graph.codes import EdgeKind, Point
from tracebraid.model.graph.rank_graph import EdgeList, moment
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["inferred_waits"]

_Ints = NDArray[np.int64]

_SOON_NS = 10_000
"""Work that waited for an event starts within this after it: recorded waits take 1 to 5 µs, V100 to MI300X."""

_LATE_NS = 50_000
"""From when on a start is too late for its launch alone: launches take 5 to 35 µs, V100 to MI300X."""


def inferred_waits(
    linked: LinkedTrace, activities: RankActivities, works: DeviceWorks, times_ns: _Ints
) -> EdgeList:
    """From the end of work to the start of work of another stream, where all of the following hold.

    The host told the stream to wait for an event, right before this launch, and the trace has no record of which; the
    work started later than its launch and its stream explain; the last work of another stream to end before that, of
    what was launched before, ended at most 10 µs ahead, and after the stream's own last work.

    Args:
        linked: one rank.
        activities: of the same rank.
        works: of the same rank.
        times_ns: of each moment.
    """
    known = stream_waits(linked).filter(pl.col("until_ns").is_null()).get_column("event_id")
    if known.is_empty() or linked.timeline.tables["syncs"].height:
        nothing = np.empty(0, dtype=np.int64)
        return EdgeList.of(nothing, nothing, EdgeKind.EVENT_WAIT, nothing)
    asked = activities.of_event[known.to_numpy()]
    asked = asked[asked >= works.first] - works.first
    called = np.where(works.call >= 0, times_ns[2 * works.call], works.start_ns)
    asked = asked[works.start_ns[asked] - called[asked] > _LATE_NS]
    last = np.full(len(asked), -1, dtype=np.int64)
    own_end = np.full(len(asked), np.iinfo(np.int64).min, dtype=np.int64)
    for lane in np.unique(works.lane).tolist():
        there = np.flatnonzero(works.lane == lane)
        ordered = there[np.argsort(works.end_ns[there], kind="stable")]
        row = np.searchsorted(works.end_ns[ordered], works.start_ns[asked], side="right") - 1
        found = np.where(row < 0, -1, ordered[np.maximum(row, 0)])
        own = works.lane[asked] == lane
        ended = np.where(found < 0, own_end, works.end_ns[found])
        own_end = np.where(own, ended, own_end)
        later = ~own & (found >= 0) & (called[found] < called[asked])
        later &= (last < 0) | (ended > works.end_ns[last])
        last = np.where(later, found, last)
    ended = works.end_ns[last]
    waited = (last >= 0) & (ended > own_end) & (works.start_ns[asked] - ended <= _SOON_NS)
    before, after = works.first + last[waited], works.first + asked[waited]
    return EdgeList.of(moment(before, Point.END), moment(after, Point.START), EdgeKind.EVENT_WAIT, after)
