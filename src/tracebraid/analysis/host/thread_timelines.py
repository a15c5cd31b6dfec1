"""What each host thread was in at any moment: its innermost event."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tracebraid.analysis.host.host_rows import NO_ROW, HostRows, host_rows
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["ThreadTimeline", "by_lane", "innermost_at", "thread_timelines"]

_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class ThreadTimeline:
    """What one thread was in: from each moment on a row of `HostRows`.

    Args:
        moments: when that changed, rising, ns.
        rows: the innermost event from each moment to the next; -1 where there is none.
    """

    moments: _Ints
    rows: _Ints

    def at(self, moments: _Ints) -> _Ints:
        """The innermost event at each moment; -1 where there is none."""
        if not len(self.moments):
            return np.full(len(moments), NO_ROW, dtype=np.int64)
        index = np.searchsorted(self.moments, moments, side="right") - 1
        found: _Ints = np.where(index >= 0, self.rows[np.maximum(index, 0)], NO_ROW)
        return found

    def changes_within(self, starts: _Ints, ends: _Ints) -> tuple[_Ints, _Ints]:
        """The moments at which it changes inside of intervals (start, end): the interval's index, and the moment."""
        first = np.searchsorted(self.moments, starts, side="right")
        count = np.maximum(np.searchsorted(self.moments, ends, side="left") - first, 0)
        index = np.repeat(np.arange(len(starts)), count)
        offset = np.arange(len(index)) - np.repeat(np.cumsum(count) - count, count)
        return index, self.moments[first[index] + offset]


def thread_timelines(linked: LinkedTrace) -> dict[int, ThreadTimeline]:
    """The timeline of each thread that has host events, by its lane."""
    return linked.derived(_thread_timelines)


def innermost_at(linked: LinkedTrace, lanes: _Ints, moments: _Ints) -> _Ints:
    """Row of the innermost host event that each moment of a thread lies in; -1 where there is none.

    Args:
        linked: one rank.
        lanes: the threads.
        moments: for each of them a moment, in ns.
    """
    rows = np.full(len(lanes), NO_ROW, dtype=np.int64)
    timelines = thread_timelines(linked)
    for lane, members in by_lane(lanes):
        if lane in timelines:
            rows[members] = timelines[lane].at(moments[members])
    return rows


def by_lane(lanes: _Ints) -> list[tuple[int, _Ints]]:
    """Each lane with the indices at which it stands."""
    order = np.argsort(lanes, kind="stable")
    bounds = np.flatnonzero(np.diff(lanes[order])) + 1
    return [(int(lanes[members[0]]), members) for members in np.split(order, bounds) if len(members)]


def _thread_timelines(linked: LinkedTrace) -> dict[int, ThreadTimeline]:
    """A thread is in an event from its start, and in the event's parent from its end.

    An end that lies in the next event of the same parent changes nothing: siblings may overlap in damaged traces.
    """
    host = host_rows(linked)
    order = np.lexsort((host.event_id, host.depth, host.start_ns, host.lane))
    order = order[host.end_ns[order] > host.start_ns[order]]
    ending = order[~_ends_in_sibling(host, order)][::-1]
    lanes = np.r_[host.lane[ending], host.lane[order]]
    moments = np.r_[host.end_ns[ending], host.start_ns[order]]
    rows = np.r_[host.parent[ending], order]
    # Ends stand before starts, inner ends first and outer starts first: of equal moments the last counts.
    by_time = np.lexsort((moments, lanes))
    lanes, moments, rows = lanes[by_time], moments[by_time], rows[by_time]
    last = np.ones(len(lanes), dtype=np.bool_)
    last[:-1] = (moments[1:] != moments[:-1]) | (lanes[1:] != lanes[:-1])
    lanes, moments, rows = lanes[last], moments[last], rows[last]
    first = np.flatnonzero(np.r_[True, np.diff(lanes) != 0]) if len(lanes) else np.empty(0, dtype=np.int64)
    bounds = [*first.tolist(), len(lanes)]
    return {
        int(lanes[begin]): ThreadTimeline(moments[begin:end], rows[begin:end])
        for begin, end in pairwise(bounds)
    }


def _ends_in_sibling(host: HostRows, order: _Ints) -> NDArray[np.bool_]:
    """Whether each row, in the order of threads and starts, ends after the next one of its parent has begun."""
    parent = np.where(host.parent[order] < 0, -1 - host.lane[order], host.parent[order])
    by_parent = np.argsort(parent, kind="stable")
    rows = order[by_parent]
    inside = np.zeros(len(order), dtype=np.bool_)
    inside[by_parent[:-1]] = (parent[by_parent][1:] == parent[by_parent][:-1]) & (
        host.start_ns[rows][1:] < host.end_ns[rows][:-1]
    )
    return inside
