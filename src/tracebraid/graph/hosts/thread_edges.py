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

    The work is that of the innermost event which is open meanwhile, and of the thread where none is.

    Args:
        activities: of a rank.
        times_ns: the time of each moment; corrected here where an event starts before its parent, or ends behind it.
    """
    host = activities.host
    order = np.lexsort((host.event_id, host.depth, host.start_ns, host.lane))
    thread = activities.first_thread + np.searchsorted(activities.lanes, host.lane)
    before, after, work, owner = _walk(order, host.parent, thread, times_ns)
    return EdgeList.of(before, after, EdgeKind.HOST, owner, work)


@compiled
def _walk(order: _Ints, parent: _Ints, thread: _Ints, times_ns: _Ints) -> tuple[_Ints, _Ints, _Ints, _Ints]:
    """The edges of all threads, event by event in the order of their starts; each thread begins and ends itself."""
    most = 2 * len(order) + 2 * len(np.unique(thread))
    before, after = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    work, owner = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    count, last, current = 0, -1, -1
    open_events = np.empty(len(order) + 1, dtype=np.int64)
    depth = 0
    for index in range(len(order) + 1):
        event = order[index] if index < len(order) else -1
        begins = event >= 0 and (current < 0 or thread[event] != current)
        # Close what the next event does not lie in.
        while depth > 0 and (event < 0 or begins or open_events[depth - 1] != parent[event]):
            depth -= 1
            ended = open_events[depth]
            end = 2 * ended + 1
            times_ns[end] = max(times_ns[end], times_ns[last])
            before[count], after[count], owner[count] = last, end, ended
            work[count] = times_ns[end] - times_ns[last]
            count, last = count + 1, end
        if current >= 0 and (event < 0 or begins):
            end = 2 * current + 1
            times_ns[end] = max(times_ns[end], times_ns[last])
            before[count], after[count], owner[count] = last, end, current
            work[count] = times_ns[end] - times_ns[last]
            count += 1
        if event < 0:
            break
        if begins:
            current, last = thread[event], 2 * thread[event]
            times_ns[last] = times_ns[2 * event]
        start = 2 * event
        times_ns[start] = max(times_ns[start], times_ns[last])
        before[count], after[count] = last, start
        owner[count] = open_events[depth - 1] if depth > 0 else current
        work[count] = times_ns[start] - times_ns[last]
        count, last = count + 1, start
        open_events[depth] = event
        depth += 1
    return before[:count], after[:count], work[:count], owner[:count]
