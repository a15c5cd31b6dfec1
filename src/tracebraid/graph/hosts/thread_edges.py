"""The time of each thread, from moment to moment: program order, with the innermost event as the owner of the time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.graph.activities import RankActivities
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["thread_edges"]

_Ints = NDArray[np.int64]


def thread_edges(activities: RankActivities, times_ns: _Ints) -> EdgeList:
    """From each moment of a thread to its next, with the time between them as work.

    The work is that of the innermost event which is open meanwhile, and of the thread where none is. Of events that
    overlap without one lying in the other, as in damaged traces, the one that began last is the innermost.

    Args:
        activities: of a rank.
        times_ns: the time of each moment; corrected here where an event ends before it starts.
    """
    host = activities.host
    of_host = times_ns[: 2 * len(host.event_id)].reshape(-1, 2)
    np.maximum(of_host[:, 0], of_host[:, 1], out=of_host[:, 1])
    order = np.lexsort((host.event_id, host.depth, host.start_ns, host.lane))
    thread = activities.first_thread + np.searchsorted(activities.lanes, host.lane)
    np.maximum.at(times_ns, 2 * thread + 1, of_host[:, 1])
    threads = np.unique(thread)
    moments = _nested(order, host.parent, thread, len(threads))
    of_moment = _thread_of_moments(moments, thread, activities.first_thread)
    moments = moments[np.lexsort((times_ns[moments], of_moment))]
    follows = np.ones(len(moments), dtype=np.bool_)
    follows[np.isin(moments, 2 * threads)] = False
    after = np.flatnonzero(follows)
    owner = _innermost(moments, activities.first_thread)[after]
    before = moments[after - 1]
    return EdgeList.of(
        before, moments[after], EdgeKind.HOST, owner, times_ns[moments[after]] - times_ns[before]
    )


def _thread_of_moments(moments: _Ints, thread: _Ints, first_thread: int) -> _Ints:
    """The activity of the thread that each moment is on."""
    activity = moments // 2
    found: _Ints = activity.copy()
    of_host = activity < first_thread
    found[of_host] = thread[activity[of_host]]
    return found


@compiled
def _nested(order: _Ints, parent: _Ints, thread: _Ints, threads: int) -> _Ints:
    """All moments, thread by thread: events in the order of their starts, each around those that lie in it."""
    moments = np.empty(2 * len(order) + 2 * threads, dtype=np.int64)
    open_events = np.empty(len(order) + 1, dtype=np.int64)
    count, depth, current = 0, 0, -1
    for index in range(len(order) + 1):
        event = order[index] if index < len(order) else -1
        begins = event >= 0 and thread[event] != current
        # Close what the next event does not lie in.
        while depth > 0 and (event < 0 or begins or open_events[depth - 1] != parent[event]):
            depth -= 1
            moments[count] = 2 * open_events[depth] + 1
            count += 1
        if current >= 0 and (event < 0 or begins):
            moments[count] = 2 * current + 1
            count += 1
        if event < 0:
            break
        if begins:
            current = thread[event]
            moments[count] = 2 * current
            count += 1
        moments[count] = 2 * event
        open_events[depth] = event
        count, depth = count + 1, depth + 1
    return moments[:count]


@compiled
def _innermost(moments: _Ints, first_thread: int) -> _Ints:
    """The activity that each moment ends the time of: of those that are open before it, the one that began last."""
    found = np.empty(len(moments), dtype=np.int64)
    open_activities = np.empty(len(moments) + 1, dtype=np.int64)
    ended = np.zeros(len(moments) // 2 + 1, dtype=np.bool_)
    depth = 0
    for index in range(len(moments)):
        activity = moments[index] // 2
        if activity >= first_thread and moments[index] % 2 == 0:
            depth = 0
        while depth > 0 and ended[open_activities[depth - 1]]:
            depth -= 1
        found[index] = open_activities[depth - 1] if depth > 0 else activity
        if moments[index] % 2 == 0:
            open_activities[depth] = activity
            depth += 1
        else:
            ended[activity] = True
    return found
