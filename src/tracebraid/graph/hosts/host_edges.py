"""What the threads of a host wait for, beside their own program order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tracebraid.graph.activities import RankActivities
from tracebraid.graph.hosts.communication_edges import communication_edges
from tracebraid.graph.hosts.hand_overs import at_thread_starts, closest_hand_overs
from tracebraid.graph.hosts.lock_waits import lock_waits
from tracebraid.graph.hosts.repeated_waits import repeated_waits
from tracebraid.graph.hosts.thread_chains import thread_chains
from tracebraid.graph.hosts.thread_starts import autograd_starts, awaited_starts, python_joins, python_starts
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.rank_graph import EdgeList
from tracebraid.model.linked_trace import LinkedTrace

__all__ = ["host_edges"]

_Ints = NDArray[np.int64]


def host_edges(
    linked: LinkedTrace, activities: RankActivities, threads: EdgeList, others: EdgeList, times_ns: _Ints
) -> EdgeList:
    """The other edges of a rank, with those that threads have to each other.

    Args:
        linked: the rank.
        activities: its activities.
        threads: the program order of its threads.
        others: what linking found to depend on each other.
        times_ns: of each moment.
    """
    if not len(threads):
        return others
    chains = thread_chains(threads, activities, times_ns)
    communication = communication_edges(linked, activities, chains, times_ns)
    joins = python_joins(activities, chains, times_ns)
    found = EdgeList.joined(
        [closest_hand_overs(others, chains), communication, joins, lock_waits(activities, chains)]
    )
    found = EdgeList.joined([found, repeated_waits(activities, chains, found)])
    evidence = (python_starts(activities, chains, times_ns), autograd_starts(others, chains))
    for starts in (*evidence, awaited_starts(found, chains)):
        found = at_thread_starts(found, chains)
        found = EdgeList.joined([found, starts[_without_cause(starts, found)]])
    return found


def _without_cause(starts: EdgeList, found: EdgeList) -> NDArray[np.bool_]:
    """Whether what started a thread is not among the edges yet."""
    caused = found.after[found.kind == EdgeKind.THREAD]
    return ~np.isin(starts.after, caused)
