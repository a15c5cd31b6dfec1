"""A rank with one compute lane: what ran at once becomes one sequence, as long as it took."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import astuple
from numpy.typing import NDArray

from tracebraid.chakra.codes import Detail
from tracebraid.chakra.exporting.host_tasks import host_owners
from tracebraid.chakra.exporting.reduction import reduced
from tracebraid.chakra.exporting.tasks import (
    NONE,
    Communication,
    TaskKind,
    Tasks,
    communication_rows,
    node_columns,
    rounded_micros,
    step_marks,
)
from tracebraid.chakra.schema import SCHEMA_VERSION, AttributeValue, ChakraRank, NodeDeps
from tracebraid.graph.edge_order import edge_rows, order_of
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import ActivityKind, EdgeKind, Point, RankGraph, moment
from tracebraid.native.loops import native_loop

_Ints = NDArray[np.int64]
_Ids = NDArray[np.int32]


class Awaited(Struct, frozen=True, eq=False):
    """Communication that moments waited for, by its number: its place among the activities that communicate.

    Args:
        last: of each moment, the communication that it waited for last, along the chain of what each moment waited for
            the longest.
        by_lane: of each lane that communicates (a stream, a thread), of each moment, the latest communication that was
            over before it, as what it waited for says.
    """

    last: _Ints
    by_lane: tuple[_Ints, ...]


def awaited(graph: RankGraph, activity: _Ints) -> Awaited:
    """The communication that each moment of a rank waited for."""
    rows = edge_rows([graph.edges], [0], graph.times_ns)
    order = order_of(graph.times_ns, rows.first, rows.before).moments
    ends = moment(activity, Point.END)
    number = np.arange(len(activity))
    own = np.full(len(graph.times_ns), NONE, dtype=np.int64)
    own[ends] = number
    deps = (rows.first, rows.before)
    last = _last(order, deps, rows.work_ns, graph.times_ns, own)
    lane = graph.activities.get_column("lane").fill_null(NONE).to_numpy()[activity]
    found = []
    for each in np.unique(lane).tolist():
        on_lane = number[lane == each]
        by_end = on_lane[np.argsort(graph.times_ns[ends[on_lane]], kind="stable")]
        position = np.full(len(graph.times_ns), NONE, dtype=np.int64)
        position[ends[by_end]] = np.arange(len(by_end))
        latest = _latest(order, deps, position)
        found.append(np.where(latest == NONE, NONE, by_end[latest]))
    return Awaited(last, tuple(found))


@native_loop
def _last(order: _Ids, deps: tuple[_Ints, _Ids], work_ns: _Ints, times_ns: _Ints, own: _Ints) -> _Ints:
    first, before = deps
    found: _Ints = own.copy()
    for row in order:
        if own[row] >= 0:
            continue
        latest = np.int64(-1) << 62
        for edge in range(first[row], first[row + 1]):
            ready = times_ns[before[edge]] + work_ns[edge]
            if ready > latest:
                latest = ready
                found[row] = found[before[edge]]
    return found


@native_loop
def _latest(order: _Ids, deps: tuple[_Ints, _Ids], position: _Ints) -> _Ints:
    first, before = deps
    found: _Ints = position.copy()
    for row in order:
        for edge in range(first[row], first[row + 1]):
            if found[before[edge]] > found[row]:
                found[row] = found[before[edge]]
    return found


_Flags = NDArray[np.bool_]

_LONGEST_LEAD_NS = 100_000
"""Between the end of communication and the start of the next one that waited for it: above this, the graph calls it no
latency (`Residual.UNEXPLAINED`)."""

_NEVER = np.iinfo(np.int64).min


class Issued(Struct, frozen=True, eq=False):
    """Communication, in the order in which it is issued; each array has an entry for each row of it.

    Args:
        at_ns: the time on the lane at which it can start; rising.
        moment: the moment whose waits explain that time.
        over_ns: when it is over on the lane: not later than measured.
        duration_ns: its duration there.
        covered_ns: the rest of its transfer: it ran at the same time as other communication.
        lead_ns: by how much it takes longer than its transfer: the latency of a stream.
        block: rising: each waits for all of the block before its own; those of an event are one.
    """

    at_ns: _Ints
    moment: _Ints
    over_ns: _Ints
    duration_ns: _Ints
    covered_ns: _Ints
    lead_ns: _Ints
    block: _Ints


class _Ready(Struct, frozen=True, eq=False):
    """Earliest start of each communication, by other communication and by everything else.

    Args:
        other_ns: when all else let it start.
        other: the moment that did.
        behind_ns: the end of the communication that is known to have let it start, later than all else; or never.
    """

    other_ns: _Ints
    other: _Ints
    behind_ns: _Ints


def issued(graph: RankGraph, activity: _Ints, communication: pl.DataFrame) -> Issued:
    """Issue time of each communication of a rank, and its duration on a separate lane.

    One that started behind another one, such as the next on its stream, is issued when the lane has come to where it
    was launched, or its inputs were there: with a faster network it starts earlier. Any other is issued when the lane
    has come to its start. None is issued later than its members meet.
    """
    own = moment(activity, Point.START)
    start_ns, end_ns = graph.times_ns[own], graph.times_ns[moment(activity, Point.END)]
    transfer_ns, lasts_ns, early_ns = (
        communication.get_column(name).to_numpy() for name in ("transfer_ns", "lasts_ns", "early_ns")
    )
    over_ns = end_ns - early_ns
    block = np.cumsum(np.r_[False, activity[1:] != activity[:-1]][: len(activity)])
    ready = _ready(graph, activity)
    lead_ns = start_ns - np.maximum(ready.behind_ns, ready.other_ns)
    is_behind = (ready.behind_ns > _NEVER) & (lead_ns >= 0) & (lead_ns <= _LONGEST_LEAD_NS)
    # Where nothing but communication is known to have let it start, no moment says since when the lane could issue it.
    is_behind &= (ready.other != NONE) & communication.get_column("may_lead").to_numpy()
    at_ns = _monotonic(np.minimum(np.where(is_behind, ready.other_ns, start_ns), over_ns - lasts_ns))
    waits = np.where(is_behind, ready.other, own)
    covered_ns, lead_ns = np.maximum(transfer_ns - lasts_ns, 0), np.maximum(lasts_ns - transfer_ns, 0)
    return Issued(at_ns, waits, over_ns, lasts_ns, covered_ns, lead_ns, block)


def _monotonic(times_ns: _Ints) -> _Ints:
    """None before the one ahead of it."""
    latest: _Ints = np.maximum.accumulate(times_ns) if len(times_ns) else times_ns
    return latest


def _ready(graph: RankGraph, activity: _Ints) -> _Ready:
    events, event = np.unique(activity, return_inverse=True)
    starts = moment(events, Point.START)
    position = np.full(len(graph.times_ns), NONE, dtype=np.int64)
    position[starts] = np.arange(len(events))
    communicates = np.zeros(len(graph.times_ns), dtype=np.bool_)
    communicates[moment(events, Point.END)] = True
    edges = graph.edges[position[graph.edges.after] != NONE]
    number, ready_ns = position[edges.after], graph.times_ns[edges.before] + edges.work_ns
    behind = communicates[edges.before]
    ready_behind_ns, last = _latest_of_issued(
        number[behind], ready_ns[behind], edges.before[behind], len(events)
    )
    other_ns, other = _latest_of_issued(
        number[~behind], ready_ns[~behind], edges.before[~behind], len(events)
    )
    is_behind = (last != NONE) & (ready_behind_ns >= other_ns)
    behind_ns = np.where(is_behind, graph.times_ns[last], _NEVER)
    other_ns = np.minimum(other_ns, graph.times_ns[starts])
    return _Ready(other_ns[event], other[event], behind_ns[event])


def _latest_of_issued(number: _Ints, ready_ns: _Ints, before: _Ints, count: int) -> tuple[_Ints, _Ints]:
    """Latest time for each number, and its moment."""
    latest_ns = np.full(count, _NEVER, dtype=np.int64)
    found = np.full(count, NONE, dtype=np.int64)
    order = np.argsort(ready_ns, kind="stable")
    # The last of equal entries stays.
    latest_ns[number[order]], found[number[order]] = ready_ns[order], before[order]
    return latest_ns, found


_OF_DEVICES = (ActivityKind.KERNEL.value, ActivityKind.COPY.value, ActivityKind.COMMUNICATION.value)
_NOT_OF_THREADS = (ActivityKind.THREAD.value, ActivityKind.COMMUNICATION.value)
"""Time of a thread outside every event may be a wait that nothing shows: where nothing else runs, it is a delay."""


class Work(Struct, frozen=True, eq=False):
    """Intervals of work, by their starts; each array has an entry for each.

    Args:
        activity: what does it: row of `ACTIVITIES`.
        start_ns: when it starts, on the rank's own clock.
        end_ns: when it ends.
        measured_ns: how long it was in the trace, which may be longer: of a wait for another stream.
        moment: the moment whose time is `start_ns`: what the work waited for is what that waited for.
    """

    activity: _Ints
    start_ns: _Ints
    end_ns: _Ints
    measured_ns: _Ints
    moment: _Ints

    def __len__(self) -> int:
        return len(self.activity)


def work_of(graph: RankGraph, communicates: _Ints) -> Work:
    """The work of a rank that is no communication."""
    kinds = graph.activities.select(
        as_text("kind").is_in(_OF_DEVICES).fill_null(value=False).alias("works"),
        pl.col("stream").is_not_null().alias("device"),
    )
    works, device = (kinds.get_column(name).to_numpy() for name in kinds.columns)
    edges = graph.edges
    # Of a part of a trace, other work is there for what waits for it.
    chosen = np.zeros(len(works), dtype=np.bool_)
    chosen[edges.activity[edges.kind == EdgeKind.DEVICE]] = True
    # Communication on a device of which no node is known takes its time on the lane.
    chosen &= device & works
    chosen[communicates] = False
    return _of_devices(graph, np.flatnonzero(chosen)) if chosen.any() else _of_threads(graph)


def _of_devices(graph: RankGraph, activity: _Ints) -> Work:
    start, end = graph.times_ns[2 * activity], graph.times_ns[2 * activity + 1]
    measured_ns, edges = end - start, graph.edges
    waits = (edges.kind == EdgeKind.EVENT_WAIT) & (edges.after % 2 == Point.END)
    # Work whose end waits for another stream is nothing but that wait.
    start = np.where(np.isin(activity, edges.after[waits] // 2), end, start)
    order = np.lexsort((activity, start))
    activity = activity[order]
    return Work(activity, start[order], end[order], measured_ns[order], 2 * activity)


def _of_threads(graph: RankGraph) -> Work:
    """The time of each thread in which an event of it does something, by op: up to a wait, or to the next op."""
    edges = graph.edges
    idle = graph.activities.select(as_text("kind").is_in(_NOT_OF_THREADS)).to_series().to_numpy()
    own = np.flatnonzero((edges.kind == EdgeKind.HOST) & (edges.work_ns > 0) & ~idle[edges.activity])
    lane = graph.activities.get_column("lane").fill_null(NONE).to_numpy()[edges.activity[own]]
    owner = host_owners(graph)[edges.activity[own]]
    end = graph.times_ns[edges.after[own]]
    start = end - edges.work_ns[own]
    order = np.lexsort((start, lane))
    own, lane, owner, start, end = own[order], lane[order], owner[order], start[order], end[order]
    goes_on = (lane[1:] == lane[:-1]) & (owner[1:] == owner[:-1]) & (start[1:] == end[:-1])
    first = np.flatnonzero(np.r_[True, ~goes_on][: len(own)])
    last = np.r_[first[1:] - 1, len(own) - 1][: len(first)]
    by_start = np.lexsort((first, start[first]))
    first, last = first[by_start], last[by_start]
    start, end = start[first], end[last]
    moment = edges.before[own[first]].astype(np.int64)
    return Work(owner[first], start, end, end - start, moment)


class Cuts(Struct, frozen=True, eq=False):
    """Cuts of the lane: issued communication, and starts and ends of steps.

    Args:
        time_ns: when.
        moment: the moment that is reached then: what the lane waited for is what that waited for.
    """

    time_ns: _Ints
    moment: _Ints

    def __len__(self) -> int:
        return len(self.time_ns)


class Lane(Struct, frozen=True, eq=False):
    """Entries of the lane in order, as arrays.

    Args:
        start_ns: when it starts; that of the next is never before the end.
        end_ns: when it ends.
        activity: its row of `ACTIVITIES`; -1: a delay.
        moment: the moment that it waited for: of work that of its start, of a delay that of its end.
        communication: the communication, by number, at whose end it starts; -1: it starts when the one before it ends.
        covered_ns: of the first part of work, how much of it other work covers.
        part: of an activity, 0 for the first part of it and rising.
    """

    start_ns: _Ints
    end_ns: _Ints
    activity: _Ints
    moment: _Ints
    communication: _Ints
    covered_ns: _Ints
    part: _Ints

    def __len__(self) -> int:
        return len(self.start_ns)

    def __getitem__(self, rows: _Ints) -> Lane:
        """Some of it."""
        return Lane(*(column[rows] for column in astuple(self)))


def lane_of(work: Work, cuts: Cuts, marks: Cuts, awaited: tuple[_Ints, _Ints], begins_ns: int) -> Lane:
    """The lane of a rank, from its beginning to the last cut or the end of work.

    Work has the part of its time that no work before it covers, and is cut where the lane is. Between works is a delay,
    up to each cut: of it only what lies behind the end of communication, where that is what the lane waited for.
    """
    last, end_ns = awaited
    cuts = Cuts(np.r_[cuts.time_ns, marks.time_ns], np.r_[cuts.moment, marks.moment])
    covered_until = np.maximum.accumulate(np.r_[begins_ns, work.end_ns])[:-1]
    start = np.maximum(work.start_ns, covered_until)
    end = np.maximum(work.end_ns, start)
    order = np.lexsort((cuts.moment, cuts.time_ns))
    cuts = Cuts(cuts.time_ns[order], cuts.moment[order])
    worked = _parts(work, start, end, cuts.time_ns)
    uncovered = np.flatnonzero((end > start) | (start > covered_until))
    delays = _delays((start[uncovered], end[uncovered]), work.moment[uncovered], cuts, begins_ns)
    communication = np.where(delays.moment == NONE, NONE, last[delays.moment])
    over_ns = np.where(communication == NONE, begins_ns, end_ns[communication] if len(end_ns) else begins_ns)
    # Of several that are issued at a moment, one may have waited for what was over later: that says nothing here.
    waited = (over_ns > delays.start_ns) & (over_ns <= delays.end_ns)
    kept = waited | (delays.end_ns > delays.start_ns)
    delays = Lane(
        np.where(waited, over_ns, delays.start_ns),
        delays.end_ns,
        delays.activity,
        delays.moment,
        np.where(waited, communication, NONE),
        delays.covered_ns,
        delays.part,
    )[np.flatnonzero(kept)]
    # Work that starts at the end of a delay without duration is behind it.
    none, zero = np.full(len(marks), NONE, dtype=np.int64), np.zeros(len(marks), dtype=np.int64)
    empty = Lane(marks.time_ns, marks.time_ns, none, marks.moment, none, zero, zero)
    parts = (delays, empty, worked)
    both = Lane(*map(np.concatenate, zip(*map(astuple, parts), strict=True)))
    is_work = np.repeat([0, 1], [len(delays) + len(empty), len(worked)])
    return both[np.lexsort((is_work, both.end_ns, both.start_ns))]


def _parts(work: Work, start: _Ints, end: _Ints, cut_ns: _Ints) -> Lane:
    """The works, cut: as many parts as there are cuts inside, and one more."""
    cut_ns = np.unique(cut_ns)
    first = np.searchsorted(cut_ns, start, side="right")
    inside = np.maximum(np.searchsorted(cut_ns, end, side="left") - first, 0)
    of = np.repeat(np.arange(len(work)), inside + 1)
    part = np.arange(len(of)) - np.repeat(np.cumsum(inside + 1) - inside - 1, inside + 1)
    at = first[of] + part
    if len(cut_ns):
        starts = np.where(part == 0, start[of], cut_ns[np.clip(at - 1, 0, len(cut_ns) - 1)])
        ends = np.where(part == inside[of], end[of], cut_ns[np.clip(at, 0, len(cut_ns) - 1)])
    else:
        starts, ends = start, end
    covered = work.measured_ns - (end - start)
    none = np.full(len(of), NONE, dtype=np.int64)
    return Lane(
        starts,
        ends,
        work.activity[of],
        work.moment[of],
        none,
        np.where(part == 0, covered[of], 0),
        _numbered(work.activity[of]),
    )


def _numbered(activity: _Ints) -> _Ints:
    """Index of each entry among those of the same activity."""
    order = np.argsort(activity, kind="stable")
    ordered = activity[order]
    new = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)])
    number = np.empty(len(activity), dtype=np.int64)
    number[order] = np.arange(len(activity)) - np.repeat(new, np.diff(np.r_[new, len(activity)]))
    return number


def _delays(spans: tuple[_Ints, _Ints], moments: _Ints, cuts: Cuts, begins_ns: int) -> Lane:
    """All time without work, cut, as delays, each with the moment at its end."""
    start, end = spans
    idle_from, idle_to = np.r_[begins_ns, end], np.r_[start, np.iinfo(np.int64).max]
    # At the end of idle time the moment is that of the work that starts there.
    gap = np.searchsorted(idle_from, cuts.time_ns, side="left") - 1
    inside = (gap >= 0) & (cuts.time_ns < idle_to[gap])
    idle = np.flatnonzero(idle_to[:-1] > idle_from[:-1])
    gap, at = np.r_[gap[inside], idle], np.r_[cuts.time_ns[inside], idle_to[idle]]
    moment = np.r_[cuts.moment[inside], moments[idle]]
    order = np.lexsort((at, gap))
    gap, at, moment = gap[order], at[order], moment[order]
    is_first = np.r_[True, gap[1:] != gap[:-1]][: len(gap)]
    begin = np.where(is_first, idle_from[gap], np.r_[0, at[:-1]][: len(at)])
    none, zero = np.full(len(at), NONE, dtype=np.int64), np.zeros(len(at), dtype=np.int64)
    return Lane(begin, at, none, moment, none, zero, zero)


class Ordered(Struct, frozen=True, eq=False):
    """Nodes, each after its dependencies.

    Args:
        entry: of each node, its entry of the lane; -1: it is communication.
        issued: of each node, its entry among what is issued; -1: it is on the lane.
        before: the node that is waited for, of each dependency.
        after: the node that waits.
        contradicted: dropped waits of the lane for communication that is issued after
            them in the order of all ranks.
    """

    entry: _Ints
    issued: _Ints
    before: _Ints
    after: _Ints
    contradicted: int


def ordered(lane: Lane, issued: Issued, waits: tuple[_Ints, _Ints]) -> Ordered:
    """Order and dependencies of nodes."""
    # So many entries of the lane are over when it is issued: in the order of nodes it stands behind the last of them.
    over = np.searchsorted(lane.end_ns, issued.at_ns, side="right")
    entries, numbers = np.arange(len(lane)), np.arange(len(over))
    is_entry = np.r_[np.ones(len(lane), dtype=np.int64), np.zeros(len(over), dtype=np.int64)]
    order = np.lexsort((np.r_[entries, numbers], is_entry, np.r_[entries, over]))
    node = np.empty(len(order), dtype=np.int64)
    node[order] = np.arange(len(order))
    of_entry, of_issued = node[: len(lane)], node[len(lane) :]
    entry, number = waits
    possible = over[number] <= entry
    behind_entry = np.flatnonzero(over > 0)
    behind, between = _between_blocks(issued.block)
    before = [
        of_entry[:-1],
        of_issued[number[possible]],
        of_entry[over[behind_entry] - 1],
        of_issued[behind],
    ]
    after = [of_entry[1:], of_entry[entry[possible]], of_issued[behind_entry], of_issued[between]]
    entry_of, issued_of = (np.full(len(order), NONE, dtype=np.int64) for _ in range(2))
    entry_of[of_entry], issued_of[of_issued] = entries, numbers
    contradicted = int(np.count_nonzero(~possible))
    return Ordered(entry_of, issued_of, np.concatenate(before), np.concatenate(after), contradicted)


def _between_blocks(block: _Ints) -> tuple[_Ints, _Ints]:
    """Pairs of entries: each with all of the block before its own."""
    first = np.searchsorted(block, block - 1, side="left")
    count = np.searchsorted(block, block - 1, side="right") - first
    of = np.repeat(np.arange(len(block)), count)
    return first[of] + np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count), of


def steps_of(
    graph: RankGraph, lane: Lane, nodes: Ordered, late: NDArray[np.int64], issued: pl.Series
) -> pl.Series:
    """The step of each node: of device work, of communication and of delays before these that in which it was issued.

    All else is of the step in which it ends, and so are delays before what was issued in none. What lies between two
    steps is of the second: the time of a step is counted from the end of the one before it.
    """
    stream = np.r_[graph.activities.get_column("stream").is_not_null().to_numpy(), False]
    before_work = (lane.moment != NONE) & (stream[lane.moment // 2] | np.isin(lane.moment, late))
    on_device = np.where(lane.activity != NONE, stream[lane.activity], before_work)
    by_time = (nodes.issued == NONE) & ~np.r_[on_device, False][nodes.entry]
    is_delay = np.r_[lane.activity, 0][nodes.entry] == NONE
    by_time |= is_delay & issued.is_null().to_numpy()
    end_ns = np.r_[lane.end_ns, NONE][nodes.entry]
    marks = step_marks(graph).sort("end_ns", maintain_order=True)
    row = np.searchsorted(marks.get_column("end_ns").to_numpy(), end_ns, side="left")
    is_before = end_ns <= marks.get_column("start_ns").to_numpy().min(initial=np.iinfo(np.int64).max)
    names = np.array([*marks.get_column("step").to_list(), None], dtype=object)
    found = np.where(by_time, names[np.where(is_before, -1, row)], issued.cast(pl.String).to_numpy())
    steps: pl.Series = pl.Series("step", found.tolist(), dtype=pl.String).cast(issued.dtype)
    return steps


def waits_of(lane: Lane, awaited: Awaited, end_ns: _Ints, event: _Ints) -> tuple[_Ints, _Ints]:
    """Entries of a lane, and the issued communication that each waits for.

    An entry waits for what its moment waited for, if that was over when the entry started, and nothing before it on the
    lane has waited for it; and for that at whose end it starts.
    """
    own = np.flatnonzero(lane.communication != NONE)
    entries, events = [own], [lane.communication[own]]
    position = np.empty(len(end_ns), dtype=np.int64)
    position[np.argsort(end_ns, kind="stable")] = np.arange(len(end_ns))
    for latest in awaited.by_lane:
        waited = np.where(lane.moment == NONE, NONE, latest[lane.moment])
        known = (waited != NONE) & (end_ns[waited] <= lane.start_ns)
        newest = np.maximum.accumulate(np.where(known, position[waited], NONE))
        new = np.flatnonzero(newest > np.r_[NONE, newest[:-1]][: len(newest)])
        entries.append(new)
        events.append(waited[new])
    return _of_events(np.concatenate(entries), np.concatenate(events), event)


def _of_events(entry: _Ints, waited: _Ints, event: _Ints) -> tuple[_Ints, _Ints]:
    """The same for each of the entries of an event that is waited for."""
    by_event = np.argsort(event, kind="stable")
    first = np.searchsorted(event[by_event], waited, side="left")
    count = np.searchsorted(event[by_event], waited, side="right") - first
    of = np.repeat(np.arange(len(entry)), count)
    within = np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count)
    return entry[of], by_event[first[of] + within]


def rank_as_lane(graph: RankGraph, communication: pl.DataFrame, begins_ns: int | None = None) -> ChakraRank:
    """The nodes of a rank that computes one thing at a time.

    Work of all streams, or of all threads where no device computes, becomes one sequence by its measured starts. Each
    has the part of its time that no work before it covers, so that the sequence is as long as the time in which the
    rank computed; time in which it did not is a delay, but for that in which it waited for communication.
    """
    rows = _in_graph(communication_rows(graph, communication), graph)
    events, event = np.unique(rows.activity, return_inverse=True)
    waited, sent = awaited(graph, events), issued(graph, rows.activity, communication[rows.row])
    over_ns = np.full(len(events), np.iinfo(np.int64).min)
    np.maximum.at(over_ns, event, sent.over_ns)
    used = _used(graph)
    first_ns = int(graph.times_ns[used].min()) if len(used) else 0
    begins_ns = first_ns if begins_ns is None else min(begins_ns, first_ns)
    cuts = _cuts(graph, sent, used, begins_ns)
    # What ends earlier on the lane than measured ends its step when it did.
    late = moment(events[over_ns < graph.times_ns[moment(events, Point.END)]], Point.END)
    marks = Cuts(graph.times_ns[late], late)
    lane = lane_of(work_of(graph, events), cuts, marks, (waited.last, over_ns), begins_ns)
    nodes = ordered(lane, sent, waits_of(lane, waited, over_ns, event))
    kept = reduced(nodes.before, nodes.after, (nodes.issued != NONE).astype(np.int64))
    deps = NodeDeps.of_pairs(kept.before, kept.after, np.arange(len(nodes.entry)))
    tasks, spans_ns = _tasks(graph, rows, lane, nodes)
    found = node_columns(graph, tasks, spans_ns, communication, Detail.MERGED)
    found = _as_lane(found, lane, sent, nodes).with_columns(
        steps_of(graph, lane, nodes, late, found.get_column("step"))
    )
    return ChakraRank(
        graph.rank,
        SCHEMA_VERSION,
        _counts(lane, nodes),
        found,
        deps,
        NodeDeps.none(len(nodes.entry)),
        graph.findings,
        spans_ns,
    )


def _in_graph(rows: Communication, graph: RankGraph) -> Communication:
    """The rows of what happens here: of a part of a trace, other communication is there for what waits for it."""
    here = np.isin(moment(rows.activity, Point.END), graph.edges.after)
    return Communication(rows.row[here], rows.activity[here])


def _used(graph: RankGraph) -> _Ints:
    """The moments that wait or are waited for, by their times."""
    used = np.unique(np.r_[graph.edges.before, graph.edges.after])
    by_time: _Ints = used[np.argsort(graph.times_ns[used], kind="stable")]
    return by_time


def _cuts(graph: RankGraph, sent: Issued, used: _Ints, begins_ns: int) -> Cuts:
    """Issue times of communication, starts and ends of steps, and the last moment."""
    marks = step_marks(graph).get_column("activity").to_numpy()
    moments = np.r_[moment(marks, Point.START), moment(marks, Point.END)]
    moments = np.r_[moments[np.isin(moments, used)], used[-1:]]
    cuts = Cuts(np.r_[sent.at_ns, graph.times_ns[moments]], np.r_[sent.moment, moments])
    inside = cuts.time_ns > begins_ns
    return Cuts(cuts.time_ns[inside], cuts.moment[inside])


def _tasks(
    graph: RankGraph, rows: Communication, lane: Lane, nodes: Ordered
) -> tuple[Tasks, tuple[_Ints, _Ints]]:
    """The nodes as tasks, and when each starts and ends."""
    entry, sent = np.maximum(nodes.entry, 0), np.maximum(nodes.issued, 0)
    none = np.full(1, NONE, dtype=np.int64)
    is_sent = nodes.issued != NONE
    activity, row = (np.r_[part, none][sent] for part in (rows.activity, rows.row))
    own = np.r_[lane.activity, none][entry]
    of_delay = np.r_[lane.moment, none][entry] // 2
    kind = np.where(own == NONE, int(TaskKind.DEVICE_DELAY), int(TaskKind.DEVICE))
    kind = np.where(is_sent, int(TaskKind.COMMUNICATION), kind)
    owner = np.where(is_sent, activity, np.where(own == NONE, of_delay, own))
    spans = (
        np.where(is_sent, graph.times_ns[2 * owner], np.r_[lane.start_ns, none][entry]),
        np.where(is_sent, graph.times_ns[2 * owner + 1], np.r_[lane.end_ns, none][entry]),
    )
    nothing = np.zeros(len(owner), dtype=np.int64)
    row = np.where(is_sent, row, NONE)
    return Tasks(nothing, nothing, kind, owner, row, is_sent.astype(np.int64)), spans


def _as_lane(found: pl.DataFrame, lane: Lane, sent: Issued, nodes: Ordered) -> pl.DataFrame:
    """Convert durations to us, record cut and covered time, and drop streams."""
    is_sent = nodes.issued != NONE
    of_lane, of_sent = nodes.entry, nodes.issued
    own_ns = np.r_[lane.end_ns - lane.start_ns, NONE][of_lane]
    duration_ns = np.where(is_sent, np.r_[sent.duration_ns, NONE][of_sent], own_ns)
    is_delay = np.r_[lane.activity, NONE][of_lane] == NONE
    kind = np.where(is_sent, 2, is_delay.astype(np.int64))
    parts = np.bincount(lane.activity[lane.activity != NONE], minlength=1)
    several = (lane.activity != NONE) & (parts[np.maximum(lane.activity, 0)] > 1)
    noted = {
        "part": np.r_[np.where(several, lane.part, NONE), NONE][of_lane],
        "covered_ns": np.where(
            is_sent, np.r_[sent.covered_ns, NONE][of_sent], np.r_[lane.covered_ns, NONE][of_lane]
        ),
        "lead_ns": np.r_[sent.lead_ns, NONE][of_sent],
    }
    for name in ("covered_ns", "lead_ns"):
        noted[name] = np.where(noted[name] > 0, noted[name], NONE)
    return found.with_columns(
        pl.Series("duration_ns", duration_ns),
        pl.Series("duration_micros", rounded_micros(duration_ns, kind)),
        pl.Series("attributes", _as_json(noted), dtype=found.schema["attributes"]),
        stream=pl.lit(None, dtype=found.schema["stream"]),
        thread=pl.lit(None, dtype=found.schema["thread"]),
    )


def _as_json(noted: dict[str, _Ints]) -> list[str | None]:
    """The entries that are not -1, as an object for each row that has one."""
    found: list[str | None] = [None] * len(noted["part"])
    for row in np.flatnonzero(np.any([each != NONE for each in noted.values()], axis=0)).tolist():
        found[row] = json.dumps({name: int(each[row]) for name, each in noted.items() if each[row] != NONE})
    return found


def _counts(lane: Lane, nodes: Ordered) -> tuple[tuple[str, AttributeValue], ...]:
    """Account of the rank's time by kind of node."""
    is_work = lane.activity != NONE
    return (
        ("merged_parts", int(np.count_nonzero(lane.part > 0))),
        ("merged_covered_nodes", int(np.count_nonzero(lane.covered_ns > 0))),
        ("merged_covered_ns", int(lane.covered_ns.sum())),
        ("merged_delays", int(np.count_nonzero(~is_work))),
        ("merged_waits_left_out", nodes.contradicted),
    )
