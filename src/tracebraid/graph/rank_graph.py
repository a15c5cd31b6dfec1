"""The part of one rank in a dependency graph."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.analysis.device import device_events
from tracebraid.analysis.launches.queues import MAX_QUEUE_LENGTH, NEARLY_FULL, SLOW
from tracebraid.analysis.time.idle.stream_waits import stream_waits
from tracebraid.graph.activities import RankActivities, rank_activities
from tracebraid.graph.hosts.backend_ranges import backend_ranges
from tracebraid.graph.hosts.host_edges import host_edges, without_waiting
from tracebraid.graph.hosts.thread_edges import late_ends, thread_chains, thread_edges
from tracebraid.graph.latencies import with_latencies, with_long_calls
from tracebraid.model.expressions import as_text
from tracebraid.model.finding import Finding
from tracebraid.model.finding_code import FindingCode
from tracebraid.model.graph import EdgeKind, EdgeList, Point, RankGraph, moment
from tracebraid.model.linked_trace import LinkedTrace

_Ints = NDArray[np.int64]


class DeviceWorks(Struct, frozen=True, eq=False):
    """The work of devices, in the order of its activities.

    Args:
        first: the first activity.
        lane: the stream: row of `lanes`.
        start_ns: start.
        end_ns: end.
        call: activity of the call that launched it; -1: not in the trace.
    """

    first: int
    lane: _Ints
    start_ns: _Ints
    end_ns: _Ints
    call: _Ints

    def __len__(self) -> int:
        return len(self.lane)


def device_works(linked: LinkedTrace, activities: RankActivities, times_ns: _Ints) -> DeviceWorks:
    """The work of devices with the times that the graph has."""
    events = device_events(linked)
    call = events.get_column("call_event").fill_null(-1).to_numpy()
    first = activities.first_device
    return DeviceWorks(
        first,
        events.get_column("lane").to_numpy(),
        times_ns[2 * first :: 2],
        times_ns[2 * first + 1 :: 2],
        np.where(call < 0, -1, activities.of_event[call]),
    )


def device_edges(works: DeviceWorks, others: EdgeList, times_ns: _Ints) -> EdgeList:
    """Edges from the start of device work to its end, and between overlapping works of a stream.

    A programmatic launch starts a kernel before the one before it has ended, when that allows it: from start to start,
    with a lag that belongs to the first. It goes on when the first has ended: from end to end, with what is left of
    it as work, which is all the work that it has of its own then. Works of one launch of a graph overlap because
    they are branches: neither waits for the other. What is a wait for another stream has no work of its own.
    """
    before, after = _overlapping(works)
    own_ns = works.end_ns - works.start_ns
    ends_later = works.end_ns[after] >= works.end_ns[before]
    first, second = before[ends_later], after[ends_later]
    rest_ns = works.end_ns[second] - works.end_ns[first]
    own_ns[second] = np.minimum(own_ns[second], rest_ns)
    own_ns[_waits(others) - works.first] = 0
    work = works.first + np.arange(len(works))
    start, end = moment(work, Point.START), moment(work, Point.END)
    lag_ns = works.start_ns[after] - works.start_ns[before]
    # The lag is what it waited for only if its launch had come by the time that the first work began.
    called = np.where(works.call[after] >= 0, times_ns[2 * works.call[after]], works.start_ns[before])
    lag_ns = np.where(called <= works.start_ns[before], lag_ns, 0)
    return EdgeList.joined(
        [
            EdgeList.of(start, end, EdgeKind.DEVICE, work, own_ns),
            EdgeList.of(start[before], start[after], EdgeKind.STREAM_OVERLAP, work[before], lag_ns),
            EdgeList.of(end[first], end[second], EdgeKind.STREAM_END, work[second], rest_ns),
        ]
    )


def _waits(others: EdgeList) -> _Ints:
    """Device work that only waits for other work."""
    waits = (others.kind == EdgeKind.EVENT_WAIT) & (others.after % 2 == Point.END)
    work: _Ints = others.after[waits] // 2
    return work


def _overlapping(works: DeviceWorks) -> tuple[_Ints, _Ints]:
    """Pairs of works of different launches, of which one starts on a stream while the one before it runs."""
    order = np.lexsort((np.arange(len(works)), works.start_ns, works.lane))
    before, after = order[:-1], order[1:]
    overlap = (works.lane[before] == works.lane[after]) & (works.start_ns[after] < works.end_ns[before])
    together = (works.call[before] == works.call[after]) & (works.call[after] >= 0)
    pairs = overlap & ~together
    return before[pairs], after[pairs]


def first_of_launches(edges: EdgeList, works: DeviceWorks) -> EdgeList:
    """The edges without launches of work that follows other work of the same call on its stream."""
    after = edges.after // 2 - works.first
    ordered = edges.kind == EdgeKind.STREAM_ORDER
    follows = np.zeros(len(works), dtype=np.bool_)
    behind, ahead = after[ordered], edges.before[ordered] // 2 - works.first
    same = (works.call[behind] == works.call[ahead]) & (works.call[behind] >= 0)
    follows[behind[same]] = True
    return edges[~_launches_of(edges, after, follows)]


def _launches_of(edges: EdgeList, work: NDArray[np.int64], chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    launches = np.flatnonzero(edges.kind == EdgeKind.LAUNCH)
    found = np.zeros(len(edges), dtype=np.bool_)
    found[launches] = chosen[work[launches]]
    return found


_SOON_NS = 10_000
"""Work that waited for an event starts within this after it: recorded waits take 1 to 5 µs, V100 to MI300X."""

_LATE_NS = 50_000
"""Delay from which a start is too late for its launch alone: launches take 5 to 35 µs, V100 to MI300X."""


def inferred_waits(
    linked: LinkedTrace, activities: RankActivities, works: DeviceWorks, times_ns: _Ints
) -> EdgeList:
    """Edges from the end of work to the start of work of another stream, if all of the following hold.

    The host told the stream to wait for an event, right before this launch, and the trace has no record of which; the
    work started later than its launch and its stream explain; the last work of another stream to end before that, of
    what was launched before, ended at most 10 µs ahead, and after the stream's own last work.
    """
    known = stream_waits(linked).filter(pl.col("until_ns").is_null()).get_column("event_id")
    if known.is_empty() or linked.timeline.tables["syncs"].height:
        nothing = np.empty(0, dtype=np.int64)
        return EdgeList.of(nothing, nothing, EdgeKind.EVENT_WAIT, nothing)
    asked = activities.of_event[known.to_numpy()]
    asked = asked[asked >= works.first] - works.first
    called = np.where(works.call >= 0, times_ns[2 * works.call], works.start_ns)
    asked = asked[works.start_ns[asked] - called[asked] > _LATE_NS]
    last = np.full(len(asked), -1, dtype=np.int64)
    own_end = np.full(len(asked), np.iinfo(np.int64).min, dtype=np.int64)
    for lane in np.unique(works.lane).tolist():
        there = np.flatnonzero(works.lane == lane)
        ordered = there[np.argsort(works.end_ns[there], kind="stable")]
        row = np.searchsorted(works.end_ns[ordered], works.start_ns[asked], side="right") - 1
        found = np.where(row < 0, -1, ordered[np.maximum(row, 0)])
        own = works.lane[asked] == lane
        ended = np.where(found < 0, own_end, works.end_ns[found])
        own_end = np.where(own, ended, own_end)
        later = ~own & (found >= 0) & (called[found] < called[asked])
        later &= (last < 0) | (ended > works.end_ns[last])
        last = np.where(later, found, last)
    ended = works.end_ns[last]
    waited = (last >= 0) & (ended > own_end) & (works.start_ns[asked] - ended <= _SOON_NS)
    before, after = works.first + last[waited], works.first + asked[waited]
    return EdgeList.of(moment(before, Point.END), moment(after, Point.START), EdgeKind.EVENT_WAIT, after)


def queue_edges(works: DeviceWorks, activities: pl.DataFrame, times_ns: _Ints) -> EdgeList:
    """Edges from the start of work that made room in a full queue to the end of the waiting call.

    As in the analysis `full_queue`: when the call began, nearly 1,024 launches of its stream had not started; it
    took four times the median of the calls of its name that met no full queue; and work of the stream started
    before it returned.
    """
    calls, room = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for lane in np.unique(works.lane).tolist():
        found = _in_full_queue(works, np.flatnonzero((works.lane == lane) & (works.call >= 0)), times_ns)
        calls.append(found[0])
        room.append(found[1])
    call, work = np.concatenate(calls), np.concatenate(room)
    slow = _slow(call, works, activities, times_ns)
    before, after = moment(works.first + work[slow], Point.START), moment(call[slow], Point.END)
    return EdgeList.of(before, after, EdgeKind.QUEUE, call[slow])


def _in_full_queue(works: DeviceWorks, launched: _Ints, times_ns: _Ints) -> tuple[_Ints, _Ints]:
    """Calls that met a nearly full queue, and the last work of the stream to start before each returned."""
    if len(launched) < NEARLY_FULL * MAX_QUEUE_LENGTH:
        return launched[:0], launched[:0]
    by_start = launched[np.argsort(works.start_ns[launched], kind="stable")]
    calls, first = np.unique(works.call[by_start], return_index=True)
    starts = works.start_ns[by_start]
    began, returned = times_ns[2 * calls], times_ns[2 * calls + 1]
    order = np.argsort(began, kind="stable")
    waiting = np.empty(len(calls), dtype=np.int64)
    waiting[order] = np.arange(len(calls)) - np.searchsorted(
        np.sort(starts[first]), began[order], side="right"
    )
    last = np.searchsorted(starts, returned, side="right") - 1
    met = (waiting >= NEARLY_FULL * MAX_QUEUE_LENGTH) & (last >= 0) & (starts[last] > began)
    return calls[met], by_start[last[met]]


def _slow(call: _Ints, works: DeviceWorks, activities: pl.DataFrame, times_ns: _Ints) -> NDArray[np.bool_]:
    if not len(call):
        return np.zeros(0, dtype=np.bool_)
    every = np.unique(works.call[works.call >= 0])
    rows = pl.DataFrame(
        {
            "name": activities.select(as_text("name")).to_series().gather(every),
            "lasted_ns": times_ns[2 * every + 1] - times_ns[2 * every],
            "met": np.isin(every, call),
        }
    )
    usual = pl.col("lasted_ns").filter(~pl.col("met")).median().over("name")
    slow = rows.select((pl.col("lasted_ns") >= SLOW * usual).fill_null(False)).to_series().to_numpy()
    found: NDArray[np.bool_] = slow[np.searchsorted(every, call)]
    return found


_NO_STREAM = -1


def recorded_waits(linked: LinkedTrace, activities: RankActivities, works: DeviceWorks) -> EdgeList:
    """Edges from the last work of the other stream that ends before a wait, to the end of the wait.

    Such a wait is device work with `wait_on_stream`. That of which the other stream's work had ended before it began
    waited for nothing.
    """
    work = linked.timeline.device_work.select("event_id", "stream", "wait_on_stream")
    stream = np.full(len(works), _NO_STREAM, dtype=np.int64)
    other = stream.copy()
    rows = activities.of_event[work.get_column("event_id").to_numpy()]
    known = rows >= works.first
    for column, array in (("stream", stream), ("wait_on_stream", other)):
        array[rows[known] - works.first] = work.get_column(column).fill_null(_NO_STREAM).to_numpy()[known]
    before, after = [np.empty(0, dtype=np.int64)], [np.empty(0, dtype=np.int64)]
    for number in np.unique(other[other != _NO_STREAM]).tolist():
        asked = np.flatnonzero(other == number)
        there = np.flatnonzero(stream == number)
        found = _last_to_end(works, there, works.end_ns[asked])
        waited = (found >= 0) & (works.end_ns[found] > works.start_ns[asked])
        before.append(found[waited])
        after.append(asked[waited])
    first, second = (moment(works.first + np.concatenate(part), Point.END) for part in (before, after))
    return EdgeList.of(first, second, EdgeKind.EVENT_WAIT, second // 2)


def _last_to_end(works: DeviceWorks, there: _Ints, until_ns: _Ints) -> _Ints:
    """The last of some works to end before each of some times; -1 where none has."""
    if not len(there):
        return np.full(len(until_ns), -1, dtype=np.int64)
    ordered = there[np.argsort(works.end_ns[there], kind="stable")]
    row = np.searchsorted(works.end_ns[ordered], until_ns, side="right") - 1
    return np.where(row < 0, -1, ordered[row])


def forward_edges(
    edges: EdgeList, times_ns: NDArray[np.int64], path: str
) -> tuple[EdgeList, tuple[Finding, ...]]:
    """The edges that go forward in time, and a finding for each kind of those that do not."""
    forward = times_ns[edges.before] <= times_ns[edges.after]
    counts = np.bincount(edges.kind[~forward], minlength=len(EdgeKind))
    findings = tuple(
        Finding.of(FindingCode.DEPENDENCY_BACKWARD, path, count=int(counts[kind]), kind=kind.name.lower())
        for kind in EdgeKind
        if counts[kind]
    )
    return edges[forward], findings


_KINDS = {
    "launch": EdgeKind.LAUNCH,
    "stream_order": EdgeKind.STREAM_ORDER,
    "event_wait": EdgeKind.EVENT_WAIT,
    "sync": EdgeKind.SYNC,
    "inter_thread": EdgeKind.THREAD,
    "forward_backward": EdgeKind.FORWARD_BACKWARD,
}
_END = "end"


def dependency_edges(dependencies: pl.DataFrame, activities: RankActivities) -> EdgeList:
    """The dependencies of a linked trace as edges without work."""
    kinds = {kind: int(code) for kind, code in _KINDS.items()}
    codes = dependencies.select(
        as_text("kind").replace_strict(kinds, default=None, return_dtype=pl.UInt8)
    ).to_series()
    before, after = (_moments(dependencies, point, activities) for point in ("before", "after"))
    known = codes.is_not_null().to_numpy() & (before >= 0) & (after >= 0)
    found = EdgeList(
        before, after, np.zeros(len(before), dtype=np.int64), codes.fill_null(0).to_numpy(), after // 2
    )
    return found[known]


def _moments(dependencies: pl.DataFrame, which: str, activities: RankActivities) -> NDArray[np.int64]:
    activity = activities.of_event[dependencies.get_column(f"{which}_event").to_numpy()]
    is_end = dependencies.select(as_text(f"{which}_moment") == _END).to_series().to_numpy()
    return np.where(activity < 0, -1, moment(activity, is_end.astype(np.int64)))


def rank_graph(linked: LinkedTrace) -> RankGraph:
    """Build a rank's activities and the dependencies of their moments."""
    activities = rank_activities(linked)
    times_ns = _times(activities)
    activities, threads = _threads(linked, activities, times_ns)
    others = dependency_edges(linked.dependencies, activities)
    others = host_edges(linked, activities, threads, others, times_ns)
    works = device_works(linked, activities, times_ns)
    others = EdgeList.joined(
        [
            first_of_launches(others, works),
            queue_edges(works, activities.table, times_ns),
            recorded_waits(linked, activities, works),
            inferred_waits(linked, activities, works, times_ns),
        ]
    )
    _end_before_next(others, times_ns, 2 * activities.first_device)
    others, findings = forward_edges(others, times_ns, linked.timeline.path)
    edges = [without_waiting(threads, others, times_ns), device_edges(works, others, times_ns), others]
    learned = with_latencies(EdgeList.joined(edges), times_ns, activities.table)
    findings = (*activities.findings, *findings)
    found = with_long_calls(learned.edges, times_ns, activities.table)
    return RankGraph(
        linked.rank,
        activities.table,
        times_ns,
        found,
        learned.latencies,
        findings,
        linked.annotation,
        linked.capture_facts,
    )


def late_communication(linked: LinkedTrace) -> pl.DataFrame:
    """Communication of the host that is over before its end is noted, as in the rank's graph: event_id, end_ns."""
    if backend_ranges(linked).is_empty():
        return pl.DataFrame(schema={"event_id": pl.Int64, "end_ns": pl.Int64})
    activities = rank_activities(linked)
    times_ns = _times(activities)
    ends, end_ns = _late_ends(linked, activities, thread_edges(activities, times_ns), times_ns)
    events = activities.table.get_column("event_id").gather(ends // 2)
    return pl.DataFrame([events, pl.Series("end_ns", end_ns, dtype=pl.Int64)])


def _threads(
    linked: LinkedTrace, activities: RankActivities, times_ns: _Ints
) -> tuple[RankActivities, EdgeList]:
    """The program order of threads; communication of the host ends no later than who waits for it resumes."""
    threads = thread_edges(activities, times_ns)
    ends, end_ns = _late_ends(linked, activities, threads, times_ns)
    if not len(ends):
        return activities, threads
    times_ns[ends] = end_ns
    table = activities.table.with_columns(pl.Series("end_ns", times_ns[1::2]))
    return replace(activities, table=table), thread_edges(activities, times_ns)


def _late_ends(
    linked: LinkedTrace, activities: RankActivities, threads: EdgeList, times_ns: _Ints
) -> tuple[_Ints, _Ints]:
    if not len(threads) or backend_ranges(linked).is_empty():
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing
    return late_ends(linked, activities, thread_chains(threads, activities, times_ns), times_ns)


def _times(activities: RankActivities) -> _Ints:
    """The times of all moments."""
    return np.ascontiguousarray(activities.table.select("start_ns", "end_ns").to_numpy()).reshape(-1)


def _end_before_next(edges: EdgeList, times_ns: _Ints, first_of_device: int) -> None:
    """Clip the end of device work to the start of its dependents: rounding moves it up to 1 µs later."""
    ends = edges[(edges.before >= first_of_device) & (edges.before % 2 == 1)]
    np.minimum.at(times_ns, ends.before, times_ns[ends.after])
    starts = times_ns[first_of_device::2]
    times_ns[first_of_device + 1 :: 2] = np.maximum(times_ns[first_of_device + 1 :: 2], starts)
