"""The moments of each thread in their order, and until when a thread goes on without waiting."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tracebraid.compiled import compiled
from tracebraid.model.graph.codes import EdgeKind, Point
from tracebraid.model.graph.rank_graph import RankGraph, moment

__all__ = ["Threads", "threads_of"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

_NO_POSITION = -1


@dataclass(frozen=True, eq=False)
class Threads:
    """The moments of all threads, one thread behind the other; positions are rows of these arrays.

    Args:
        moments: the moment at each position.
        thread: its thread, counted from 0.
        times_ns: its time; never falls along a thread.
        owner: activity to which the time from the position before belongs; -1 at the first of a thread.
        waited: whether the thread waited in all that time.
        first: the first position of each thread, and one entry more.
        position: the position of each moment; -1: it is on no thread.
        communicates: whether the thread communicates in the time behind the position.
    """

    moments: _Ints
    thread: _Ints
    times_ns: _Ints
    owner: _Ints
    waited: _Flags
    first: _Ints
    position: _Ints
    communicates: _Flags

    @property
    def is_first(self) -> _Flags:
        """Whether each position is the first of its thread."""
        found = np.zeros(len(self.moments), dtype=np.bool_)
        found[self.first[:-1]] = True
        return found

    @cached_property
    def barrier(self) -> _Ints:
        """The position at which the thread next waits or communicates, or ends, at or after each."""
        every = np.arange(len(self.moments))
        stops = np.ones(len(every), dtype=np.bool_)
        stops[:-1] = self.waited[1:] | self.communicates[:-1] | (self.thread[1:] != self.thread[:-1])
        next_stop = np.where(stops, every, len(every))
        found: _Ints = np.minimum.accumulate(next_stop[::-1])[::-1]
        return found

    def first_from(self, thread: _Ints, times_ns: _Ints) -> _Ints:
        """The first position of each thread that is not earlier than a time; the end of the thread where none is."""
        return np.searchsorted(self._keys, self._key(thread, times_ns, "left"), side="left")

    def last_until(self, thread: _Ints, times_ns: _Ints) -> _Ints:
        """The last position of each thread that is not later than a time; -1: its first is later."""
        found = np.searchsorted(self._keys, self._key(thread, times_ns, "right"), side="left") - 1
        return np.where(found >= self.first[thread], found, _NO_POSITION)

    @cached_property
    def _distinct_ns(self) -> _Ints:
        ordered = np.sort(self.times_ns)
        # Faster than `np.unique`, which hashes.
        distinct: _Ints = ordered[np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)]]
        return distinct

    @cached_property
    def _keys(self) -> _Ints:
        return self._key(self.thread, self.times_ns, "left")

    def _key(self, thread: _Ints, times_ns: _Ints, at: str) -> _Ints:
        """A number that rises with the thread, and in it with time; `right` is that of the next time."""
        rank = np.searchsorted(self._distinct_ns, times_ns, side="left" if at == "left" else "right")
        key: _Ints = thread * (len(self._distinct_ns) + 1) + rank
        return key


def threads_of(graph: RankGraph, communication: _Ints) -> Threads:
    """The threads of a rank, in the order of their first moments.

    Args:
        graph: of one rank.
        communication: the activities that communicate, on threads or elsewhere.
    """
    host = graph.edges[graph.edges.kind == EdgeKind.HOST]
    count = len(graph.times_ns)
    edge_to = np.full(count, _NO_POSITION, dtype=np.int64)
    edge_to[host.after] = np.arange(len(host))
    following = np.full(count, _NO_POSITION, dtype=np.int64)
    following[host.before] = host.after
    firsts = np.unique(host.before[edge_to[host.before] < 0])
    firsts = firsts[np.argsort(graph.times_ns[firsts], kind="stable")]
    moments, thread = _followed(firsts, following, len(host) + len(firsts))
    edge = edge_to[moments]
    times_ns = graph.times_ns[moments]
    owner = np.where(edge < 0, _NO_POSITION, host.activity[edge]) if len(host) else edge
    work_ns = np.where(edge < 0, 0, host.work_ns[edge]) if len(host) else edge
    waited = (edge >= 0) & (work_ns == 0)
    waited[1:] &= times_ns[1:] > times_ns[:-1]
    position = np.full(count, _NO_POSITION, dtype=np.int64)
    position[moments] = np.arange(len(moments))
    first = np.r_[np.searchsorted(thread, np.arange(len(firsts))), len(moments)].astype(np.int64)
    communicates = _inside(position, communication, len(moments))
    return Threads(moments, thread, times_ns, owner, waited, first, position, communicates)


def _inside(position: _Ints, activities: _Ints, count: int) -> _Flags:
    """Whether the time behind each position lies in one of the activities."""
    depth = np.zeros(count, dtype=np.int64)
    start, end = (position[moment(activities, point)] for point in (Point.START, Point.END))
    whole = (start != _NO_POSITION) & (end != _NO_POSITION)
    np.add.at(depth, start[whole], 1)
    np.add.at(depth, end[whole], -1)
    inside: _Flags = np.cumsum(depth) > 0
    return inside


@compiled
def _followed(firsts: _Ints, following: _Ints, count: int) -> tuple[_Ints, _Ints]:
    """The moments from each first one on, thread by thread, and the thread of each."""
    moments, thread = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    filled = 0
    for index in range(len(firsts)):
        current = firsts[index]
        while current >= 0:
            moments[filled], thread[filled] = current, index
            filled += 1
            current = following[current]
    return moments, thread
