"""From where on a thread's work another one waits for it: a launch after its latency, a hand-over, an anchor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tracebraid.exporters.chakra.nodes.threads import Threads
from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.rank_graph import EdgeList, RankGraph

__all__ = ["Cuts", "HandedOn", "handed_on"]

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

_BETWEEN = (
    EdgeKind.LAUNCH,
    EdgeKind.STREAM_ORDER,
    EdgeKind.STREAM_OVERLAP,
    EdgeKind.EVENT_WAIT,
    EdgeKind.SYNC,
    EdgeKind.THREAD,
    EdgeKind.FORWARD_BACKWARD,
    EdgeKind.COMMUNICATION_WAIT,
    EdgeKind.QUEUE,
)
"""Edges from one thread or work to another; what a thread or work does itself are the others."""

_GOES_ON = (EdgeKind.LAUNCH, EdgeKind.THREAD)
"""Edges of which the thread that is waited for works on: their latency is time of it."""


@dataclass(frozen=True, eq=False)
class Cuts:
    """Points inside the time between two moments of a thread.

    Args:
        position: the thread's position behind each.
        times_ns: when each is, rising in each position.
        first: the number of the first point.
    """

    position: _Ints
    times_ns: _Ints
    first: int


@dataclass(frozen=True, eq=False)
class HandedOn:
    """What waits for what of another thread or work.

    Args:
        before: the point that is waited for: a moment, or one of the cuts.
        after: the moment that waits.
        cuts: of threads, where something waits for a part of their work.
    """

    before: _Ints
    after: _Ints
    cuts: Cuts


def handed_on(graph: RankGraph, threads: Threads, borders_ns: _Ints) -> HandedOn:
    """The edges of a rank between threads and works, with their latencies as time of the thread that works on.

    A launch has a usual latency, and the thread that launched works on meanwhile. Its work starts no sooner than the
    thread has come as far as that: a node for the latency would take a lane of its own. Where the thread waits before
    that, as for the very work that it launched, the time counts up to the wait.

    What waits for nothing that is known, though it is not the first of the rank, waits for the thread that is nearest
    to it in time.

    Args:
        graph: of one rank.
        threads: of the same rank.
        borders_ns: when steps begin and end: threads are cut there, too.
    """
    edges = graph.edges[np.isin(graph.edges.kind, [int(kind) for kind in _BETWEEN])]
    position = threads.position[edges.before]
    goes_on = np.isin(edges.kind, [int(kind) for kind in _GOES_ON]) & (position >= 0) & (edges.work_ns > 0)
    from_position = position[goes_on]
    until_ns = graph.times_ns[edges.before[goes_on]] + edges.work_ns[goes_on]
    orphans, anchor = _anchors(graph, threads, edges)
    anchored = np.flatnonzero(anchor >= 0)
    at_border, border_ns = _at_borders(threads, borders_ns)
    position = np.r_[from_position, anchor[anchored], at_border]
    wanted_ns = np.r_[until_ns, graph.times_ns[orphans[anchored]], border_ns]
    point, cuts = _points(threads, position, wanted_ns, len(graph.times_ns))
    before = edges.before.copy()
    before[goes_on] = point[: len(from_position)]
    of_orphans = point[len(from_position) : len(from_position) + len(anchored)]
    kept = of_orphans != orphans[anchored]
    return HandedOn(
        np.r_[before, of_orphans[kept]],
        np.r_[edges.after, orphans[anchored][kept]],
        cuts,
    )


def _points(threads: Threads, position: _Ints, wanted_ns: _Ints, first: int) -> tuple[_Ints, Cuts]:
    """The point of a thread at a time, or where it waits before that; and those that are between two moments.

    Args:
        threads: of a rank.
        position: from where on.
        wanted_ns: the time; not before that of the position.
        first: the number of the first new point.
    """
    if not len(position):
        nothing = np.empty(0, dtype=np.int64)
        return nothing, Cuts(nothing, nothing, first)
    at_ns = np.minimum(wanted_ns, threads.times_ns[threads.barrier[position]])
    found = np.maximum(threads.first_from(threads.thread[position], at_ns), position)
    inside = np.flatnonzero(threads.times_ns[found] > at_ns)
    point = threads.moments[found]
    pairs, number = np.unique(np.stack([found[inside], at_ns[inside]], axis=1), axis=0, return_inverse=True)
    point[inside] = first + number.reshape(-1)
    return point, Cuts(pairs[:, 0].copy(), pairs[:, 1].copy(), first)


def _anchors(graph: RankGraph, threads: Threads, edges: EdgeList) -> tuple[_Ints, _Ints]:
    """Moments that wait for nothing, though others wait for them, and the position that each is anchored to; -1: none.

    That is the last one until then of the thread that works up to the latest time, of those threads that began before.
    """
    waits = np.zeros(len(graph.times_ns), dtype=np.bool_)
    used = np.zeros(len(graph.times_ns), dtype=np.bool_)
    waits[graph.edges.after] = used[graph.edges.before] = True
    # What is behind the first moment of a thread waits for that, though it is no edge of others.
    orphans = np.flatnonzero(used & ~waits)
    found = np.full(len(orphans), -1, dtype=np.int64)
    reached_ns = np.full(len(orphans), np.iinfo(np.int64).min, dtype=np.int64)
    if not len(threads.moments):
        return orphans, found
    times_ns = graph.times_ns[orphans]
    own = np.where(
        threads.position[orphans] >= 0, threads.thread[threads.position[orphans]], len(threads.first)
    )
    for thread in range(len(threads.first) - 1):
        last = threads.last_until(np.full(len(orphans), thread), times_ns)
        ends_ns = np.minimum(threads.times_ns[threads.barrier[np.maximum(last, 0)]], times_ns)
        better = (last >= 0) & (thread < own) & (ends_ns > reached_ns)
        found[better], reached_ns[better] = last[better], ends_ns[better]
    return orphans, found


def _at_borders(threads: Threads, borders_ns: _Ints) -> tuple[_Ints, _Ints]:
    """The positions of all threads that run at each border, and the border's time."""
    count = len(threads.first) - 1
    if not count or not len(borders_ns):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    thread, border_ns = np.repeat(np.arange(count), len(borders_ns)), np.tile(borders_ns, count)
    last = threads.last_until(thread, border_ns)
    running = last >= 0
    running &= threads.times_ns[threads.barrier[np.maximum(last, 0)]] >= border_ns
    return last[running], border_ns[running]
