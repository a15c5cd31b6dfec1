"""The moments of each thread in their order, to be searched by time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracebraid.graph.activities import RankActivities
from tracebraid.model.graph.rank_graph import EdgeList

__all__ = ["NO_POSITION", "ThreadChains", "thread_chains"]

_Ints = NDArray[np.int64]

NO_POSITION = -1
"""Stands for no moment of a thread."""


@dataclass(frozen=True, eq=False)
class ThreadChains:
    """The moments of all threads, one thread behind the other; positions are rows of these arrays.

    Args:
        moments: the moment at each position.
        thread: its thread, counted from 0 in the order of the rank's lanes.
        times_ns: its time; rises along each thread.
        owner: activity to which the time from the position before belongs; -1 at the first of a thread.
        first: the first position of each thread, and one entry more.
        position: the position of each moment of the rank; -1: it is on no thread.
    """

    moments: _Ints
    thread: _Ints
    times_ns: _Ints
    owner: _Ints
    first: _Ints
    position: _Ints

    def last_until(self, thread: _Ints, times_ns: _Ints) -> _Ints:
        """The last position of each thread that is not later than a time; -1: its first is later.

        Args:
            thread: threads.
            times_ns: a time for each.
        """
        found = np.searchsorted(self._keys, self._key(thread, times_ns), side="right") - 1
        return np.where(found >= self.first[thread], found, NO_POSITION)

    @cached_property
    def _distinct_ns(self) -> _Ints:
        ordered = np.sort(self.times_ns)
        # Faster than `np.unique`, which hashes: most times differ.
        distinct: _Ints = ordered[np.diff(ordered, prepend=ordered[:1] - 1) != 0]
        return distinct

    @cached_property
    def _keys(self) -> _Ints:
        return self._key(self.thread, self.times_ns)

    def _key(self, thread: _Ints, times_ns: _Ints) -> _Ints:
        """Numbers that rise with the thread, then with the time: ranks of times, which cannot overflow."""
        rank = np.searchsorted(self._distinct_ns, times_ns, side="right")
        return thread * (len(self._distinct_ns) + 1) + rank


def thread_chains(edges: EdgeList, activities: RankActivities, times_ns: _Ints) -> ThreadChains:
    """The chains that the edges of threads form.

    Args:
        edges: of threads, thread by thread in the order of time, as `thread_edges` gives them.
        activities: of the same rank.
        times_ns: of each moment.
    """
    count = len(activities.lanes)
    starts = 2 * (activities.first_thread + np.arange(count, dtype=np.int64))
    begins = np.flatnonzero(np.isin(edges.before, starts))
    moments = np.insert(edges.after, begins, edges.before[begins])
    owner = np.insert(edges.activity, begins, -1)
    is_first = owner < 0
    thread_of_start = moments[is_first] // 2 - activities.first_thread
    thread = thread_of_start[np.cumsum(is_first) - 1] if len(moments) else np.empty(0, dtype=np.int64)
    position = np.full(len(times_ns), NO_POSITION, dtype=np.int64)
    position[moments] = np.arange(len(moments))
    first = np.append(np.flatnonzero(is_first), len(moments))
    return ThreadChains(moments, thread, times_ns[moments], owner, first, position)
