"""Assign thread time to an op, Python function or thread for nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.chakra.codes import Detail
from tracebraid.chakra.exporting.tasks import (
    NONE,
    Communication,
    TaskKind,
    Tasks,
    Waits,
    communication_rows,
    issued,
    step_marks,
)
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import ActivityKind, EdgeKind, EdgeList, Point, RankGraph, moment
from tracebraid.model.rows import distinct_rows
from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]
_Flags = NDArray[np.bool_]

_NO_POSITION = -1


class Threads(Struct, frozen=True, eq=False, dict=True):
    """Moments of all threads, concatenated; positions are rows of these arrays.

    Args:
        moments: the moment at each position.
        thread: its thread, counted from 0.
        times_ns: its time; never falls along a thread.
        owner: activity to which the time from the position before belongs; -1 at the first of a thread.
        waited: whether the thread waited in all that time.
        first: the first position of each thread, and one entry more.
        position: the position of each moment; -1: it is on no thread.
        communicates: whether the thread communicates after the position.
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
        """Return whether each position is the first of its thread."""
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
    """The threads of a rank, in the order of their first moments."""
    host = graph.edges[graph.edges.kind == EdgeKind.HOST]
    count = len(graph.times_ns)
    edge_to = np.full(count, _NO_POSITION, dtype=np.int64)
    edge_to[host.after] = np.arange(len(host))
    following = np.full(count, _NO_POSITION, dtype=np.int64)
    following[host.before] = host.after
    firsts = np.unique(host.before[edge_to[host.before] < 0])
    firsts = firsts[np.argsort(graph.times_ns[firsts], kind="stable")]
    moments, thread = _followed(firsts, following)
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
    """Return whether the time after each position lies in one of the activities."""
    depth = np.zeros(count, dtype=np.int64)
    start, end = (position[moment(activities, point)] for point in (Point.START, Point.END))
    whole = (start != _NO_POSITION) & (end != _NO_POSITION)
    np.add.at(depth, start[whole], 1)
    np.add.at(depth, end[whole], -1)
    inside: _Flags = np.cumsum(depth) > 0
    return inside


@native_loop
def _followed(firsts: _Ints, following: _Ints) -> tuple[_Ints, _Ints]:
    """The moments from each first one on, thread by thread, and the thread of each."""
    moments, thread = [], []
    for index, first in enumerate(firsts):
        current = first
        while current >= 0:
            moments.append(current)
            thread.append(index)
            current = following[current]
    return np.array(moments, dtype=np.int64), np.array(thread, dtype=np.int64)


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
"""Edges from one thread or work to another; all other edges are within a thread or work."""

_GOES_ON = (EdgeKind.LAUNCH, EdgeKind.THREAD)
"""Edges during whose latency the awaited thread continues to work: the latency is its time."""


class Cuts(Struct, frozen=True, eq=False):
    """Points inside the time between two moments of a thread.

    Args:
        position: the thread's position behind each.
        times_ns: when each is, rising in each position.
        first: the number of the first point.
    """

    position: _Ints
    times_ns: _Ints
    first: int


class ReleasePoints(Struct, frozen=True, eq=False):
    """Dependencies on other threads or device work.

    Args:
        before: the point that is waited for: a moment, or one of the cuts.
        after: the moment that waits.
        cuts: cuts of threads at which others depend on part of their work.
    """

    before: _Ints
    after: _Ints
    cuts: Cuts


def release_points(graph: RankGraph, threads: Threads, borders_ns: _Ints) -> ReleasePoints:
    """The edges of a rank between threads and works, with their latencies as time of the thread that works on.

    A launch has a usual latency, and the thread that launched works on meanwhile. Its work starts no sooner than the
    thread has come as far as that: a node for the latency would take a lane of its own. Where the thread waits before
    that, as for the very work that it launched, the time counts up to the wait.

    What waits for nothing that is known, though it is not the first of the rank, waits for the thread that is nearest
    to it in time.
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
    return ReleasePoints(
        np.r_[before, of_orphans[kept]],
        np.r_[edges.after, orphans[anchored][kept]],
        cuts,
    )


def _points(threads: Threads, position: _Ints, wanted_ns: _Ints, first: int) -> tuple[_Ints, Cuts]:
    """The point of a thread at a time, or where it waits before that; and those that are between two moments."""
    if not len(position):
        nothing = np.empty(0, dtype=np.int64)
        return nothing, Cuts(nothing, nothing, first)
    at_ns = np.minimum(wanted_ns, threads.times_ns[threads.barrier[position]])
    found = np.maximum(threads.first_from(threads.thread[position], at_ns), position)
    inside = np.flatnonzero(threads.times_ns[found] > at_ns)
    point = threads.moments[found]
    (position, moment_ns), number = distinct_rows(found[inside], at_ns[inside])
    point[inside] = first + number
    return point, Cuts(position, moment_ns, first)


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


def host_owners(graph: RankGraph) -> _Ints:
    """Activity whose node contains the host time of each activity.

    That of a call in an op is the op's; annotations are no work of their own: between ops it is the thread's.
    """
    rows = graph.activities.select("event_id", "op_event", "lane", as_text("kind"), "stream")
    own = np.arange(rows.height)
    event, op = (rows.get_column(name).fill_null(-1).to_numpy() for name in ("event_id", "op_event"))
    of_event = np.full(max(int(event.max(initial=-1)), int(op.max(initial=-1))) + 1, -1, dtype=np.int64)
    of_event[event[event >= 0]] = own[event >= 0]
    of_op = np.where(op >= 0, of_event[op], -1) if len(of_event) else own
    kind = rows.get_column("kind")
    is_thread = (kind == ActivityKind.THREAD.value).fill_null(value=False).to_numpy()
    lane = rows.get_column("lane").fill_null(0).to_numpy()
    thread_of = np.full(int(lane.max(initial=0)) + 1, -1, dtype=np.int64)
    thread_of[lane[is_thread]] = own[is_thread]
    gap = (kind == ActivityKind.ANNOTATION.value).fill_null(value=False).to_numpy() & (thread_of[lane] >= 0)
    communicates = (kind == ActivityKind.COMMUNICATION.value).fill_null(value=False).to_numpy()
    found: _Ints = np.where(gap, thread_of[lane], own)
    return np.where((of_op >= 0) & ~communicates, of_op, found)


class DeviceTasks(Struct, frozen=True, eq=False):
    """Tasks of devices.

    Args:
        tasks: their work.
        waits: from work that is nothing but a wait to its end.
        waiting: the activities that are nothing but waits.
        times_ns: of a new point for each of these.
    """

    tasks: Tasks
    waits: Waits
    waiting: _Ints
    times_ns: _Ints


def device_tasks(graph: RankGraph, waited: _Ints, lane: _Ints, first: int) -> DeviceTasks:
    """All work that devices do, each from its start to its end.

    What is nothing but a wait for other work takes no time of its own: its end waits for the other work.
    """
    work = np.unique(graph.edges.activity[graph.edges.kind == EdgeKind.DEVICE]).astype(np.int64)
    start, end = moment(work, Point.START), moment(work, Point.END)
    waits = np.isin(end, waited)
    fresh = first + np.arange(np.count_nonzero(waits))
    until = end.copy()
    until[waits] = fresh
    return DeviceTasks(
        Tasks.of((start, until), TaskKind.DEVICE, work, lane=lane[work]),
        Waits(fresh, end[waits]),
        work[waits],
        graph.times_ns[start[waits]],
    )


def stream_lanes(graph: RankGraph, first: int) -> _Ints:
    """Serial section of its stream for each activity, in which each work waits for the previous end; -1: none."""
    edges = graph.edges[graph.edges.kind == EdgeKind.STREAM_ORDER]
    pairs = pl.DataFrame(
        {"before": edges.before // 2, "after": edges.after // 2, "at_ns": graph.times_ns[edges.after]}
    ).sort("at_ns", maintain_order=True)
    pairs = pairs.unique("before", keep="first", maintain_order=True)
    pairs = pairs.unique("after", keep="last", maintain_order=True)
    before, after = (pairs.get_column(name).to_numpy() for name in ("before", "after"))
    works = np.flatnonzero(graph.activities.get_column("stream").is_not_null().to_numpy())
    lane = np.full(graph.activities.height, NONE, dtype=np.int64)
    roots = works[~np.isin(works, after)]
    lane[roots] = first + np.arange(len(roots))
    # By the time at which they start: each behind the work before it.
    for work, earlier in zip(after.tolist(), before.tolist(), strict=True):
        lane[work] = lane[earlier]
    return lane


class Line(Struct, frozen=True, eq=False):
    """Moments and cuts of all threads in order, concatenated.

    Args:
        point: the point.
        times_ns: when it is.
        thread: its thread.
        is_first: whether it is the first of its thread.
        waited: whether the thread waited since the point before.
        owner: activity to which the time since the point before belongs.
        communicates: whether the thread communicates after the point.
    """

    point: _Ints
    times_ns: _Ints
    thread: _Ints
    is_first: _Flags
    waited: _Flags
    owner: _Ints
    communicates: _Flags

    def __len__(self) -> int:
        return len(self.point)

    def rows(self, points: _Ints) -> _Ints:
        """The row of each point; -1: it is on no thread."""
        found = np.full(int(max(points.max(initial=-1), self.point.max(initial=-1))) + 1, -1, dtype=np.int64)
        found[self.point] = np.arange(len(self.point))
        rows: _Ints = found[points]
        return rows

    def ends(self) -> _Flags:
        """Return whether a row is the first or last of its thread, or an end of a wait."""
        found = self.is_first | self.waited
        found[:-1] |= self.is_first[1:] | self.waited[1:]
        found[-1:] = True
        return found

    def changes(self, owners: _Ints) -> _Flags:
        """Return whether the activity changes at each row."""
        lasts = np.zeros(len(self.point), dtype=np.bool_)
        lasts[1:] = (self.times_ns[1:] > self.times_ns[:-1]) & ~self.is_first[1:]
        rows = np.flatnonzero(lasts)
        owner = owners[self.owner[rows]]
        found = np.zeros(len(self.point), dtype=np.bool_)
        found[rows[:-1]] = owner[1:] != owner[:-1]
        return found


class HostTasks(Struct, frozen=True, eq=False):
    """Tasks of threads.

    Args:
        tasks: their work.
        waits: pairs of points between which a thread is idle.
    """

    tasks: Tasks
    waits: Waits


def line_of(threads: Threads, cuts: Cuts) -> Line:
    """The moments and cuts of all threads in their order."""
    position = np.r_[cuts.position, np.arange(len(threads.moments))]
    times_ns = np.r_[cuts.times_ns, threads.times_ns]
    point = np.r_[cuts.first + np.arange(len(cuts.position)), threads.moments]
    order = np.lexsort((times_ns, position))
    at = position[order]
    is_cut = point[order] >= cuts.first
    return Line(
        point[order],
        times_ns[order],
        threads.thread[at],
        threads.is_first[at],
        threads.waited[at],
        threads.owner[at],
        threads.communicates[at] & ~is_cut,
    )


def host_tasks(line: Line, is_cut: _Flags, taken: _Flags, owners: _Ints) -> HostTasks:
    """The work between cuts, and the waits."""
    cut = np.flatnonzero(is_cut)
    begin, end = cut[:-1], cut[1:]
    own = ~line.is_first[end] & ~taken[end]
    begin, end = begin[own], end[own]
    lasts = line.times_ns[end] > line.times_ns[begin]
    works = lasts & ~line.waited[end]
    span = (line.point[begin[works]], line.point[end[works]])
    activity = owners[line.owner[_first_that_lasts(line, begin[works])]]
    tasks = Tasks.of(span, TaskKind.HOST, activity, lane=line.thread[end[works]])
    return HostTasks(tasks, Waits(line.point[begin[~works]], line.point[end[~works]]))


def _first_that_lasts(line: Line, begin: _Ints) -> _Ints:
    """The first row behind each that is later than it."""
    every = np.arange(len(line))
    later = np.zeros(len(line), dtype=np.bool_)
    later[1:] = line.times_ns[1:] > line.times_ns[:-1]
    following = np.minimum.accumulate(np.where(later, every, len(line))[::-1])[::-1]
    found: _Ints = following[begin + 1]
    return found


class Network(Struct, frozen=True, eq=False):
    """Work between points in time.

    Args:
        times_ns: of each point.
        tasks: the work.
        waits: points that wait for others.
        activity: the activity of each point, to which delays belong.
        lane: its lane.
        unordered: rows of communication that could not wait until the one ahead of them was issued.
    """

    times_ns: _Ints
    tasks: Tasks
    waits: Waits
    activity: _Ints
    lane: _Ints
    unordered: int


def network_of(
    graph: RankGraph, communication: pl.DataFrame, detail: Detail, borders_ns: Sequence[int] | _Ints = ()
) -> Network:
    """The work of a rank, and which of its points wait for others; no work of a thread goes on over a border."""
    named = communication_rows(graph, communication)
    threads = threads_of(graph, np.unique(named.activity))
    of_steps = step_marks(graph).select("start_ns", "end_ns").to_numpy().reshape(-1)
    borders_ns = np.union1d(of_steps, np.asarray(borders_ns, dtype=np.int64))
    released = release_points(graph, threads, borders_ns)
    line, owners = line_of(threads, released.cuts), host_owners(graph)
    lane = stream_lanes(graph, len(threads.first) - 1)
    times_ns = np.r_[graph.times_ns, released.cuts.times_ns]
    works = device_tasks(graph, released.after, lane, len(times_ns))
    times_ns = np.r_[times_ns, works.times_ns]
    rows = _in_graph(named, line, works.tasks)
    is_cut = _cuts(line, released, rows, borders_ns)
    if detail is Detail.FULL:
        is_cut |= line.changes(owners) & ~line.communicates
    taken, held = _under_way(line, rows, is_cut)
    host = host_tasks(line, is_cut, taken, owners)
    lane_of_point = np.r_[
        np.repeat(lane, 2), threads.thread[released.cuts.position], lane[works.waiting], lane[rows.activity]
    ]
    lane_of_point[line.point] = line.thread
    begins = moment(rows.activity, Point.START)
    moved_ns = communication.get_column("moved_ns").fill_null(0).to_numpy()[rows.row]
    spans = (begins, moment(rows.activity, Point.END))
    communicates = issued(rows, spans, times_ns, lane_of_point[begins], moved_ns)
    computes = works.tasks[~np.isin(works.tasks.activity, rows.activity)]
    moments = np.arange(len(graph.times_ns)) // 2
    return Network(
        np.r_[times_ns, communicates.times_ns],
        Tasks.joined([host.tasks, computes, communicates.tasks]),
        Waits.joined(
            [Waits(released.before, released.after), held, host.waits, works.waits, communicates.waits]
        ),
        np.r_[moments, threads.owner[released.cuts.position], works.waiting, rows.activity],
        lane_of_point,
        communicates.unordered,
    )


def _in_graph(rows: Communication, line: Line, works: Tasks) -> Communication:
    """The rows of events that threads or devices do here, from their start to their end."""
    start, end = (line.rows(moment(rows.activity, point)) for point in (Point.START, Point.END))
    on_thread = (start != NONE) & (end != NONE)
    there = on_thread | np.isin(rows.activity, works.activity)
    return Communication(rows.row[there], rows.activity[there])


def _cuts(line: Line, released: ReleasePoints, rows: Communication, borders_ns: _Ints) -> _Flags:
    """Cuts of a thread: meetings, and starts and ends of waits, steps or communication."""
    found = line.ends()
    for points in (
        released.before,
        released.after,
        moment(rows.activity, Point.START),
        moment(rows.activity, Point.END),
    ):
        at = line.rows(points)
        found[at[at != NONE]] = True
    found |= np.isin(line.times_ns, borders_ns)
    return found


def _under_way(line: Line, rows: Communication, is_cut: _Flags) -> tuple[_Flags, Waits]:
    """The points of the line at which communication ends, and what the thread does meanwhile, which ends before it.

    Communication begins when its thread begins it, for that is when other ranks may go on; what something else waits
    for inside it is time of the thread beside it.
    """
    end = line.rows(moment(rows.activity, Point.END))
    on_thread = end != NONE
    cuts = np.flatnonzero(is_cut)
    taken = np.zeros(len(line), dtype=np.bool_)
    taken[end[on_thread]] = True
    last = line.point[cuts[np.searchsorted(cuts, end[on_thread]) - 1]]
    inside = last != moment(rows.activity[on_thread], Point.START)
    return taken, Waits(last[inside], moment(rows.activity[on_thread], Point.END)[inside])
