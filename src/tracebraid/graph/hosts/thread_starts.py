"""What started a thread: the first of its moments waits for that."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.graph.activities import RankActivities
from tracebraid.graph.hosts.thread_chains import ThreadChains
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import ActivityKind, EdgeKind, Point
from tracebraid.model.graph.rank_graph import EdgeList, moment

__all__ = ["autograd_starts", "awaited_starts", "python_joins", "python_starts"]

_Ints = NDArray[np.int64]

_STARTS = r"(?:^|[/\\])threading\.py\(\d+\): start$"
_JOINS = r"(?:^|[/\\])threading\.py\(\d+\): join$"
"""Frames of Python's `Thread.start` and `Thread.join`."""

_JOINED_WITHIN_NS = 5_000_000
"""How long before the end of a join the joined thread's last moment lies at most: Python's switch interval."""


def autograd_starts(edges: EdgeList, chains: ThreadChains) -> EdgeList:
    """To the start of each thread that runs backward ops of another: from that one's last moment before.

    Args:
        edges: those of `EdgeKind.FORWARD_BACKWARD` say whose backward ops a thread runs.
        chains: the moments of all threads.
    """
    pairs = edges[edges.kind == EdgeKind.FORWARD_BACKWARD]
    before, after = chains.position[pairs.before], chains.position[pairs.after]
    known = (before >= 0) & (after >= 0)
    forward, backward = chains.thread[before[known]], chains.thread[after[known]]
    threads = np.unique(np.stack([forward, backward], axis=1)[forward != backward], axis=0)
    return _started(chains, threads[:, 0], threads[:, 1])


def awaited_starts(edges: EdgeList, chains: ThreadChains) -> EdgeList:
    """To the start of each thread that another waits for later: from that one's last moment before.

    Who waits for a thread gave it the work; of several the first to wait counts.

    Args:
        edges: those of `EdgeKind.THREAD` say who waits for whom.
        chains: the moments of all threads.
    """
    waits = edges[edges.kind == EdgeKind.THREAD]
    before, after = chains.position[waits.before], chains.position[waits.after]
    known = np.flatnonzero((before >= 0) & (after >= 0))
    known = known[np.argsort(chains.times_ns[after[known]], kind="stable")]
    waited_for, waiter = chains.thread[before[known]], chains.thread[after[known]]
    started, first = np.unique(waited_for[waited_for != waiter], return_index=True)
    return _started(chains, waiter[waited_for != waiter][first], started)


def python_starts(activities: RankActivities, chains: ThreadChains, times_ns: _Ints) -> EdgeList:
    """To the start of each thread: from inside the last call of Python's `Thread.start` that another had begun.

    Each call starts one thread, in the order of calls.

    Args:
        activities: of a rank.
        chains: the moments of its threads.
        times_ns: of each moment.
    """
    calls = _frames(activities, _STARTS)
    begun_ns = times_ns[moment(calls, Point.START)]
    calls = calls[np.argsort(begun_ns, kind="stable")]
    starter, started = [], []
    free = len(calls)
    for thread in np.argsort(chains.times_ns[chains.first[:-1]], kind="stable")[::-1].tolist():
        if not free:
            break
        start_ns = chains.times_ns[chains.first[thread]]
        ended_ns = times_ns[moment(calls[:free], Point.END)]
        may = (times_ns[moment(calls[:free], Point.START)] <= start_ns) & (ended_ns >= start_ns)
        may &= _threads_of(calls[:free], chains) != thread
        if may.any():
            free = int(np.flatnonzero(may)[-1])
            starter.append(int(_threads_of(calls[free : free + 1], chains)[0]))
            started.append(thread)
    return _started(chains, np.array(starter, dtype=np.int64), np.array(started, dtype=np.int64))


def python_joins(activities: RankActivities, chains: ThreadChains, times_ns: _Ints) -> EdgeList:
    """To the end of each call of Python's `Thread.join`: from the end of the thread that ended last inside it.

    Args:
        activities: of a rank.
        chains: the moments of its threads.
        times_ns: of each moment.
    """
    calls = _frames(activities, _JOINS)
    ends = chains.moments[chains.first[1:] - 1]
    ended_ns, joined_ns = times_ns[ends], times_ns[moment(calls, Point.END)][:, None]
    inside = (ended_ns >= times_ns[moment(calls, Point.START)][:, None]) & (ended_ns <= joined_ns)
    inside &= (joined_ns - ended_ns <= _JOINED_WITHIN_NS) & (
        np.arange(len(ends)) != _threads_of(calls, chains)[:, None]
    )
    last = np.where(inside, ended_ns, np.iinfo(np.int64).min).argmax(axis=1)
    joined = inside.any(axis=1)
    last = last[joined]
    return _edges(ends[last], _first_after(calls[joined], ended_ns[last], chains))


def _first_after(calls: _Ints, times_ns: _Ints, chains: ThreadChains) -> _Ints:
    """The first moment, later than a time, of the thread of each call: functions inside it end before it does."""
    position = chains.last_until(_threads_of(calls, chains), times_ns) + 1
    return chains.moments[np.minimum(position, chains.position[moment(calls, Point.END)])]


def _frames(activities: RankActivities, name: str) -> _Ints:
    """The calls of Python functions with a name that matches, rising."""
    rows = activities.table.select(as_text("kind", "name"))
    wanted = (pl.col("kind") == ActivityKind.PYTHON.value) & pl.col("name").str.contains(name)
    return np.flatnonzero(rows.select(wanted.fill_null(False)).to_series().to_numpy())


def _threads_of(activities: _Ints, chains: ThreadChains) -> _Ints:
    return chains.thread[chains.position[moment(activities, Point.START)]]


def _started(chains: ThreadChains, starter: _Ints, started: _Ints) -> EdgeList:
    """From the last moment of each starting thread to the start of the thread that it started."""
    first = chains.first[started]
    position = chains.last_until(starter, chains.times_ns[first])
    known = position >= 0
    return _edges(chains.moments[position[known]], chains.moments[first[known]])


def _edges(before: _Ints, after: _Ints) -> EdgeList:
    return EdgeList.of(before, after, EdgeKind.THREAD, after // 2)
