"""Host work that another thread does ahead."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.rewiring import with_activities, with_edges
from tracebraid.model.graph.codes import EdgeKind, Point
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.graph.rank_graph import EdgeList, moment
from tracebraid.simulation.changes.nesting import host_moments
from tracebraid.simulation.changes.work import with_work

__all__ = ["offloaded"]

_Bools = NDArray[np.bool_]
_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Jobs:
    """What is moved: outermost chosen events, thread by thread in their order.

    Args:
        event: the activity of each.
        thread: its thread.
        work_ns: the host's work from its start to its end.
        inside: whether each moment lies behind the start of one of them and not behind its end.
    """

    event: _Ints
    thread: _Ints
    work_ns: _Ints
    inside: _Bools


def offloaded(graph: DependencyGraph, chosen: _Bools, ahead: float) -> DependencyGraph:
    """The chosen host events, with all that they call, run on another thread; their own only takes the results.

    A worker for each thread does them in their order, up to so many ahead: it begins one when it has done the one
    before, and `ahead` results before it was taken. The first begin with the first event: nothing is known of what
    came before. What they launch on devices stays where it is. The worker takes no time from other threads.

    Args:
        graph: the graph.
        chosen: whether each activity is meant.
        ahead: from 1 up.

    Raises:
        ArgumentError: none of them is a host event.
    """
    jobs = _jobs(graph, chosen)
    if not len(jobs.event):
        raise ArgumentError("nothing that was selected is an event of a host thread")
    edges, after = graph.edges, graph.after
    moved = (edges.kind == EdgeKind.HOST) & jobs.inside[after]
    quiet = with_work(graph, np.where(moved, 0, edges.work_ns))
    rows = graph.activities[pl.Series(jobs.event)].with_columns(
        pl.lit(None).alias("event_id"), pl.lit(None).alias("lane")
    )
    count, ends = len(jobs.event), graph.moment_of[jobs.event, Point.END].astype(np.int64)
    worker = graph.activities.height + np.arange(count)
    fresh = len(graph.moments) + moment(np.arange(count, dtype=np.int64), 0)
    begins = np.flatnonzero(np.r_[True, jobs.thread[1:] != jobs.thread[:-1]])
    first = begins[np.cumsum(np.r_[0, jobs.thread[1:] != jobs.thread[:-1]])]
    number = np.arange(count)
    taken = number - int(min(ahead, count))
    starts = graph.moment_of[jobs.event[first], Point.START].astype(np.int64)
    free = np.where(taken >= first, ends[np.maximum(taken, 0)], starts)
    next_of = np.flatnonzero(number > first)
    added = EdgeList.joined(
        [
            EdgeList.of(fresh, fresh + 1, EdgeKind.HOST, worker, jobs.work_ns),
            EdgeList.of(fresh + 1, ends, EdgeKind.THREAD, worker),
            EdgeList.of(free, fresh, EdgeKind.THREAD, worker),
            EdgeList.of(fresh[next_of - 1] + 1, fresh[next_of], EdgeKind.HOST, worker[next_of]),
        ]
    )
    return with_edges(with_activities(quiet, rows), added)


def _jobs(graph: DependencyGraph, chosen: _Bools) -> _Jobs:
    moments, thread = host_moments(graph)
    activity = graph.moments.activity[moments]
    is_start = graph.moments.point[moments] == Point.START
    depth = np.cumsum(np.where(chosen[activity], np.where(is_start, 1, -1), 0))
    begins = np.flatnonzero(chosen[activity] & is_start & (depth == 1))
    closes = np.flatnonzero(chosen[activity] & ~is_start & (depth == 0))
    is_inside = (depth > 0) | (chosen[activity] & ~is_start)
    is_inside[begins] = False
    inside = np.zeros(len(graph.moments), dtype=np.bool_)
    inside[moments] = is_inside
    edges, after = graph.edges, graph.after
    own = edges.kind == EdgeKind.HOST
    of_moment = np.zeros(len(graph.moments), dtype=np.int64)
    np.add.at(of_moment, after[own], edges.work_ns[own])
    total = np.r_[0, np.cumsum(of_moment[moments])]
    return _Jobs(activity[begins], thread[begins], total[closes + 1] - total[begins + 1], inside)
