"""What each host thread was in at any moment: its innermost event."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["NO_ROW", "HostRows", "ThreadTimeline", "host_rows", "thread_timelines"]

_Ints = NDArray[np.int64]

NO_ROW = -1
"""Stands for no host event."""


@dataclass(frozen=True)
class HostRows:
    """The host events, a row for each of `host_tree`.

    Args:
        event_id: the event of each row, rising.
        parent: row of the innermost event that encloses it; -1 for none.
        lane: its thread.
        start: its start, ns.
        end: its end, cut at its parent's, ns.
        depth: number of events that enclose it.
    """

    event_id: _Ints
    parent: _Ints
    lane: _Ints
    start: _Ints
    end: _Ints
    depth: _Ints

    def rows(self, events: _Ints) -> _Ints:
        """The rows of some events; -1 for those that are no host events with a row."""
        if not len(self.event_id):
            return np.full(len(events), NO_ROW, dtype=np.int64)
        rows = np.minimum(np.searchsorted(self.event_id, events), len(self.event_id) - 1)
        found: _Ints = np.where(self.event_id[rows] == events, rows, NO_ROW)
        return found


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


def host_rows(linked: LinkedTrace) -> HostRows:
    """The host events of a rank, computed once."""
    return linked.derived(_host_rows)


def thread_timelines(linked: LinkedTrace) -> dict[int, ThreadTimeline]:
    """The timeline of each thread that has host events, by its lane."""
    return linked.derived(_thread_timelines)


def _host_rows(linked: LinkedTrace) -> HostRows:
    tree, events = linked.host_tree, linked.timeline.events
    event_id = tree.get_column("event_id").to_numpy()
    parents = tree.get_column("parent_event").fill_null(-1).to_numpy()
    start = events.get_column("ts_ns").to_numpy()[event_id]
    return HostRows(
        event_id,
        np.where(parents < 0, NO_ROW, np.searchsorted(event_id, parents)),
        events.get_column("lane").to_numpy()[event_id],
        start,
        start + tree.get_column("inclusive_ns").to_numpy(),
        tree.get_column("depth").to_numpy(),
    )


def _thread_timelines(linked: LinkedTrace) -> dict[int, ThreadTimeline]:
    """A thread is in an event from its start, and in the event's parent from its end.

    An end that lies in the next event of the same parent changes nothing: siblings may overlap in damaged traces.
    """
    host = host_rows(linked)
    order = np.lexsort((host.event_id, host.depth, host.start, host.lane))
    order = order[host.end[order] > host.start[order]]
    ending = order[~_ends_in_sibling(host, order)][::-1]
    lanes = np.r_[host.lane[ending], host.lane[order]]
    moments = np.r_[host.end[ending], host.start[order]]
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
        host.start[rows][1:] < host.end[rows][:-1]
    )
    return inside
