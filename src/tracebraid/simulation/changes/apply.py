"""Changes applied to a dependency graph, in their order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.graph.latest_edges import edge_list, with_activities, with_edges, without_edges
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import (
    ActivityKind,
    Change,
    DependencyGraph,
    EdgeKind,
    EdgeList,
    Point,
    Residual,
    moment,
)
from tracebraid.model.rows import distinct_rows
from tracebraid.simulation.changes.communication import (
    BETWEEN_RANKS,
    drop_residuals,
    whole_ns,
    with_totals,
    with_work,
    work_of,
)
from tracebraid.simulation.changes.move import (
    asked_by,
    host_moments,
    launched_by,
    selected,
    with_emptied,
    with_nested,
    without_callers,
)
from tracebraid.simulation.changes.reshaping import IntervalEnd, Reshaped
from tracebraid.simulation.changes.verbs import On, Value, checked, verb, verb_named

_WAITS = (EdgeKind.SYNC, EdgeKind.COMMUNICATION_WAIT, EdgeKind.QUEUE)
_WAITING_KINDS = (EdgeKind.STREAM_ORDER, EdgeKind.EVENT_WAIT, EdgeKind.SYNC)
"""Latencies that remain when their cause is removed: the previous work on the stream is then awaited."""


@verb("remove")
def removed(graph: DependencyGraph, chosen: NDArray[np.bool_]) -> DependencyGraph:
    """Remove events, all they call, and the device work they launch; of communication the op or call that requests it.

    Ops that then call nothing any more go, too, and of the code between ops what usually precedes an op on its thread.
    Order on streams stays, with the gap that is usual there. A removed call waits for nothing; a removed member neither
    waits for others nor holds them.
    """
    gone = with_nested(graph, chosen)
    gone = with_emptied(graph, with_nested(graph, gone | _requests(graph, gone)))
    edges, after = graph.edges, graph.after
    of_removed, waits_removed = gone[edges.activity], gone[graph.moments.activity[after]]
    before_removed = gone[graph.moments.activity[edges.before]]
    on_host = graph.activities.get_column("stream").is_null().to_numpy()
    waiting = np.isin(edges.kind, _WAITS) & waits_removed & on_host[graph.moments.activity[after]]
    kinds = graph.activities.get_column("kind").cast(pl.String)
    member = gone & (kinds == ActivityKind.COMMUNICATION.value).to_numpy()
    is_member = member[graph.moments.activity[after]] | member[graph.moments.activity[edges.before]]
    dropped = waiting | (np.isin(edges.kind, BETWEEN_RANKS) & is_member)
    left_without = before_removed & ~np.isin(edges.kind, _WAITING_KINDS)
    is_latency = (edges.kind != EdgeKind.HOST) & (waits_removed | left_without)
    work = without_callers(graph, gone, np.where(of_removed | is_latency, 0, edges.work_ns))
    late = gone[graph.moments.activity] & (graph.moments.residual != Residual.BEFORE)
    return without_edges(drop_residuals(with_work(graph, work), late), dropped)


def _requests(graph: DependencyGraph, gone: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The ops or calls that requested communication, all of which is gone."""
    asked = asked_by(graph)
    kinds = graph.activities.get_column("kind").cast(pl.String)
    known = (kinds == ActivityKind.COMMUNICATION.value).to_numpy() & (asked >= 0)
    found = np.zeros(len(gone), dtype=np.bool_)
    found[asked[known & gone]] = True
    found[asked[known & ~gone]] = False
    return found


_COMMUNICATES = (ActivityKind.COMMUNICATION.value, ActivityKind.COLLECTIVE.value)


@verb("as-median")
def as_median(graph: DependencyGraph, chosen: NDArray[np.bool_]) -> DependencyGraph:
    """Give each event the median duration of its counterparts on the ranks that are not selected.

    Counterparts have equal kind, name, op, step and position; threads are the n-th of their rank. Without one, and for
    communication, nothing changes.
    """
    ranks = graph.activities.get_column("rank")
    of_chosen = ranks.filter(pl.Series(chosen)).unique().drop_nulls()
    others = ranks.is_not_null() & ~ranks.is_in(of_chosen.implode()).fill_null(value=True)
    if not others.any():
        raise ArgumentError("there is no other rank to compare with; select fewer, such as as-median rank=3")
    is_thread = pl.col("kind") == ActivityKind.THREAD.value
    name = pl.when(is_thread).then(None).otherwise("name").alias("name")
    table = graph.activities.select("rank", "kind", name, "op", "step").with_columns(
        pl.Series("work_ns", work_of(graph)),
        pl.Series("position", graph.moment_of[:, Point.START], dtype=pl.Int64),
        pl.Series("is_chosen", chosen),
        others.alias("is_other"),
    )
    table = table.with_row_index("activity").filter(
        (pl.col("is_chosen") | pl.col("is_other")) & ~pl.col("kind").cast(pl.String).is_in(_COMMUNICATES)
    )
    key = ["kind", "name", "op", "step"]
    table = table.sort("position").with_columns(pl.int_range(pl.len()).over("rank", *key).alias("number"))
    median = (
        table.filter("is_other").group_by(*key, "number").agg(pl.col("work_ns").median().alias("median_ns"))
    )
    found = (
        table.filter("is_chosen")
        .join(median, on=[*key, "number"], how="inner", nulls_equal=True)
        .select("activity", "median_ns")
    )
    if found.is_empty():
        raise ArgumentError("no selected event has a counterpart on another rank")
    rows = found.get_column("activity").to_numpy()
    totals, matched = np.zeros(len(chosen)), np.zeros(len(chosen), dtype=np.bool_)
    totals[rows], matched[rows] = found.get_column("median_ns").to_numpy(), True
    return with_totals(graph, matched, totals)


_Bools = NDArray[np.bool_]
_Ints = NDArray[np.int64]


@verb("early", on=On.COMMUNICATION)
def started_early(graph: DependencyGraph, chosen: _Bools) -> DependencyGraph:
    """Start communication on a device when its inputs are there, however late the host launches it.

    Inputs are there when the events that the stream waits for have happened; without events, when the last other work
    that its thread launched before has ended. It stays behind its own stream.
    """
    edges, after = graph.edges, graph.after
    kinds = graph.activities.get_column("kind").cast(pl.String)
    meant = chosen & (kinds == ActivityKind.COMMUNICATION.value).to_numpy()
    producer = _last_work_before(graph, (kinds == ActivityKind.COMMUNICATION.value).to_numpy())
    waits_for_event = np.zeros(len(meant), dtype=np.bool_)
    waits_for_event[graph.moments.activity[after[edges.kind == EdgeKind.EVENT_WAIT]]] = True
    meant &= (launched_by(graph) >= 0) & (waits_for_event | (producer >= 0))
    if not meant.any():
        raise ArgumentError("no selected event is device communication with known launch and inputs")
    dropped = (edges.kind == EdgeKind.LAUNCH) & meant[graph.moments.activity[after]]
    starts = graph.moment_of[meant, Point.START].astype(np.int64)
    late = np.zeros(len(graph.moments), dtype=np.bool_)
    late[starts] = graph.moments.residual[starts] == Residual.LAUNCH
    without = np.flatnonzero(meant & ~waits_for_event)
    added = EdgeList.of(
        graph.moment_of[producer[without], Point.END].astype(np.int64),
        graph.moment_of[without, Point.START].astype(np.int64),
        EdgeKind.EVENT_WAIT,
        without,
    )
    return with_edges(without_edges(drop_residuals(graph, late), dropped), added)


def _last_work_before(graph: DependencyGraph, communicates: _Bools) -> _Ints:
    """For each work of a device the last work, other than communication, that its thread launched before; -1: none."""
    by = launched_by(graph)
    work = np.flatnonzero(by >= 0)
    lane = graph.activities.select(pl.struct("rank", "lane").rank("dense")).to_series().to_numpy()
    thread = lane[by[work]].astype(np.int64)
    order = np.lexsort((graph.moment_of[by[work], Point.START], thread))
    work, thread = work[order], thread[order]
    index = np.where(communicates[work], -1, np.arange(len(work)))
    latest = np.maximum.accumulate(np.r_[-1, index[:-1]]) if len(work) else index
    known = (latest >= 0) & (thread[np.maximum(latest, 0)] == thread)
    found = np.full(graph.activities.height, -1, dtype=np.int64)
    found[work] = np.where(known, work[np.maximum(latest, 0)], -1) if len(work) else work
    return found


_WAITING_WAITS = (EdgeKind.SYNC, EdgeKind.COMMUNICATION_WAIT)
"""Kinds of thread waits for issued work."""
_LATE = (Residual.SYNC, Residual.COMMUNICATION)
"""Residuals of threads that were later than such a wait says."""


@verb("no-sync")
def without_sync(graph: DependencyGraph, chosen: NDArray[np.bool_]) -> DependencyGraph:
    """Let the host go on without waiting for devices."""
    edges, after = graph.edges, graph.after
    dropped = (edges.kind == EdgeKind.SYNC) & chosen[graph.moments.activity[after]]
    if not dropped.any():
        raise ArgumentError(
            "none of the selected events waits for a device; select calls that do, by name or op"
        )
    waited = np.zeros(len(graph.moments), dtype=np.bool_)
    waited[after[dropped]] = True
    waited &= graph.moments.residual == Residual.SYNC
    return without_edges(drop_residuals(graph, waited), dropped)


@verb("defer")
def deferred(graph: DependencyGraph, chosen: NDArray[np.bool_]) -> DependencyGraph:
    """Let threads wait for devices, and for host communication, at the end of the step instead.

    Nothing in the rest of the step needs the result. Waits after the last step stay. Select the call that waits for a
    device, or the communication of the host that is waited for.
    """
    edges, after = graph.edges, graph.after
    by = np.where(edges.kind == EdgeKind.SYNC, graph.moments.activity[after], edges.activity)
    waits = np.flatnonzero(np.isin(edges.kind, _WAITING_WAITS) & chosen[by])
    until = _ends_of_steps(graph, after[waits].astype(np.int64))
    waits, until = waits[until >= 0], until[until >= 0]
    if not len(waits):
        raise ArgumentError(
            "no thread waits in a step for a selected event; select calls that wait for a device, or "
            "communication of the host, by name or op"
        )
    late = np.zeros(len(graph.moments), dtype=np.bool_)
    late[after[waits]] = True
    late &= np.isin(graph.moments.residual, _LATE)
    moved = edge_list(graph)[waits]
    moved.after[:] = until
    dropped = np.zeros(len(edges), dtype=np.bool_)
    dropped[waits] = True
    return with_edges(without_edges(drop_residuals(graph, late), dropped), moved)


def _ends_of_steps(graph: DependencyGraph, moments: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the host's end of each moment's step, on its rank; -1 after the last step."""
    ranks = graph.activities.get_column("rank").cast(pl.Int64).fill_null(-1).to_numpy()
    of_moment = ranks[graph.moments.activity[moments]]
    found = np.full(len(moments), -1, dtype=np.int64)
    for rank in np.unique(of_moment).tolist():
        ends = graph.steps.filter(pl.col("rank") == rank).get_column("host_end_moment").drop_nulls()
        ordered = np.append(np.sort(ends.to_numpy().astype(np.int64)), -1)
        own = of_moment == rank
        found[own] = ordered[np.searchsorted(ordered[:-1], moments[own])]
    return found


@verb("fuse", Value.COUNT, factor=True)
def fused(graph: DependencyGraph, chosen: _Bools, most: float, factor: float = 1.0) -> DependencyGraph:
    """Fuse N consecutive kernels of a stream in a step into one, of F times their duration (default 1).

    The kernel starts when all inputs are there, with the launch of the first; calls of the others take no time, gaps
    between them are gone, ops stay.
    """
    first = _first_of_fused(graph, chosen, int(most))
    kernels = np.flatnonzero(first >= 0)
    later = np.zeros(graph.activities.height, dtype=np.bool_)
    later[kernels] = first[kernels] != kernels
    if not later.any():
        raise ArgumentError("no two of the selected kernels follow each other on a stream within a step")
    fused_to = np.where(first >= 0, first, np.arange(len(first)))
    edges, moments = edge_list(graph), graph.moments
    owner, by = edges.activity, moments.activity[edges.after]
    of = moments.activity[edges.before]
    is_device = edges.kind == EdgeKind.DEVICE
    total = np.zeros(len(first), dtype=np.int64)
    np.add.at(total, fused_to[owner[is_device]], edges.work_ns[is_device])
    in_fused = (first >= 0) & (np.bincount(fused_to, minlength=len(first))[fused_to] > 1)
    becomes = is_device & in_fused[owner]
    work = edges.work_ns.copy()
    work[becomes] = whole_ns(np.where(later, 0.0, total * factor)[owner[becomes]])
    calls = np.zeros(len(first), dtype=np.bool_)
    calls[launched_by(graph)[later]] = True
    inside = later[by] & (fused_to[of] == fused_to[by]) & ~is_device
    work = np.where(inside | ((edges.kind == EdgeKind.HOST) & calls[owner]), 0, work)
    launches = (edges.kind == EdgeKind.LAUNCH) & later[by]
    is_start = moments.point[edges.after] == Point.START
    inputs = (edges.kind == EdgeKind.EVENT_WAIT) & later[by] & is_start & ~inside
    moved = edges[inputs]
    moved.after[:] = graph.moment_of[fused_to[by[inputs]], Point.START]
    late = later[moments.activity] & (moments.residual != Residual.BEFORE)
    return with_edges(without_edges(drop_residuals(with_work(graph, work), late), launches | inputs), moved)


def _first_of_fused(graph: DependencyGraph, chosen: _Bools, most: int) -> _Ints:
    """Return the first kernel of each selected kernel's fusion; -1 for others."""
    table = graph.activities.select("rank", "lane", "step", pl.col("kind").cast(pl.String), "stream")
    device = np.flatnonzero(table.get_column("stream").is_not_null().to_numpy())
    keys = table.select(
        lane=pl.struct("rank", "lane").rank("dense").cast(pl.Int64),
        run=pl.struct("rank", "lane", "step").rank("dense"),
    )
    lane, run = (keys.get_column(name).to_numpy()[device] for name in keys.columns)
    order = np.lexsort((graph.moment_of[device, Point.START], lane))
    device, run = device[order], run[order]
    kernel = chosen[device] & (table.get_column("kind") == ActivityKind.KERNEL.value).to_numpy()[device]
    follows = np.r_[False, kernel[1:] & kernel[:-1] & (run[1:] == run[:-1])] if len(device) else kernel
    index = np.arange(len(device))
    begin = np.maximum.accumulate(np.where(follows, 0, index)) if len(device) else index
    begin += (index - begin) // most * most
    found = np.full(graph.activities.height, -1, dtype=np.int64)
    found[device[kernel]] = device[begin[kernel]]
    return found


@verb("graph-launch")
def launched_as_graphs(graph: DependencyGraph, chosen: _Bools) -> DependencyGraph:
    """Launch device work as graphs: one call from a wait for a device to the next.

    Between the first and last call of a region the host does nothing; latencies stay those of single launches.
    """
    by = launched_by(graph)
    work = np.flatnonzero(chosen & (by >= 0))
    calls = np.unique(by[work])
    moments, thread = host_moments(graph)
    rank = np.full(len(graph.moments), -1, dtype=np.int64)
    rank[moments] = np.arange(len(moments))
    first, last = _bounds(graph, calls, rank, _regions(graph, calls, rank, thread))
    if (first == last).all():
        raise ArgumentError(
            "no thread launches several of the selected kernels between two waits for a device"
        )
    edges, after = graph.edges, graph.after
    captured = _captured(graph, rank, first, last)
    quiet = (edges.kind == EdgeKind.HOST) & captured[after]
    first_of = np.arange(graph.activities.height, dtype=np.int64)
    first_of[calls] = first
    moved = (edges.kind == EdgeKind.LAUNCH) & chosen[graph.moments.activity[after]]
    start = graph.moment_of[first_of[graph.moments.activity[edges.before]], Point.START]
    before = np.where(moved, start, edges.before).astype(np.int32)
    found = with_work(graph, np.where(quiet, 0, edges.work_ns))
    return replace(found, edges=replace(found.edges, before=before))


def _regions(graph: DependencyGraph, calls: _Ints, rank: _Ints, thread: _Ints) -> _Ints:
    """Return the region number of each call."""
    edges, after = graph.edges, graph.after
    syncs = np.zeros(len(thread), dtype=np.int64)
    waits = rank[after[edges.kind == EdgeKind.SYNC]]
    syncs[waits[waits >= 0]] = 1
    starts = rank[graph.moment_of[calls, Point.START]]
    keys = graph.activities.select("step")[pl.Series(calls)].with_columns(
        pl.Series("thread", thread[starts]), pl.Series("waits", np.cumsum(syncs)[starts])
    )
    found: _Ints = keys.select(pl.struct("step", "thread", "waits").rank("dense")).to_series().to_numpy()
    return found.astype(np.int64) - 1


def _bounds(graph: DependencyGraph, calls: _Ints, rank: _Ints, region: _Ints) -> tuple[_Ints, _Ints]:
    """The first and the last call of the region of each call."""
    order = np.argsort(rank[graph.moment_of[calls, Point.START]], kind="stable")
    count = int(region.max(initial=-1)) + 1
    first, last = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    last[region[order]] = calls[order]
    first[region[order[::-1]]] = calls[order[::-1]]
    return first[region], last[region]


def _captured(graph: DependencyGraph, rank: _Ints, first: _Ints, last: _Ints) -> _Bools:
    """Return whether each moment lies behind the first call of a region and not behind the last."""
    opens = np.zeros(len(graph.moments) + 1, dtype=np.int64)
    (first, last), _ = distinct_rows(first, last)
    np.add.at(opens, rank[graph.moment_of[first, Point.END]] + 1, 1)
    np.add.at(opens, rank[graph.moment_of[last, Point.END]] + 1, -1)
    inside = np.cumsum(opens) > 0
    found: _Bools = (rank >= 0) & inside[np.maximum(rank, 0)]
    return found


class _Jobs(Struct, frozen=True, eq=False):
    """Select the moved events: outermost selected events, by thread in order.

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


_LOADS_ALONE = "enumerate(DataLoader)#_SingleProcess"
"""Start of the name of an annotation in which a `DataLoader` without workers makes a batch."""
_RECEIVE_NS = 1_000_000
"""Main process's work on a batch of a `DataLoader`'s workers: its queue, and the memory that is shared. Measured with
small batches on two cores: 0.8 to 1.3 ms beside a model (the pair `loader_workers`), 1.5 to 2 ms after a pause."""


@verb("offload", Value.COUNT, default=1.0)
def offloaded(graph: DependencyGraph, chosen: _Bools, ahead: float) -> DependencyGraph:
    """Let another thread do host work, with all it calls, N results ahead (default 1).

    Device work launched there stays. A worker for each thread begins an event when it has done the one before, and N
    results before it was taken; it takes no time from other threads. A batch of a `DataLoader` comes from another
    process, and receiving it takes 1 ms. Refused where it leaves a rank no other host work.
    """
    jobs = _jobs(graph, chosen)
    if not len(jobs.event):
        raise ArgumentError("no selected event is on a host thread")
    _check_left(graph, jobs)
    edges, after = graph.edges, graph.after
    moved = (edges.kind == EdgeKind.HOST) & jobs.inside[after]
    ends = graph.moment_of[jobs.event, Point.END].astype(np.int64)
    loads = graph.activities.select(as_text("name").str.starts_with(_LOADS_ALONE).fill_null(False))
    received_ns = _RECEIVE_NS * loads.to_series().to_numpy()[jobs.event].astype(np.int64)
    left_ns = np.zeros(len(graph.moments), dtype=np.int64)
    left_ns[ends] = received_ns
    quiet = with_work(graph, np.where(moved, left_ns[after], edges.work_ns))
    rows = graph.activities[pl.Series(jobs.event)].with_columns(
        pl.lit(None).alias("event_id"), pl.lit(None).alias("lane")
    )
    count = len(jobs.event)
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
            EdgeList.of(fresh + 1, ends, EdgeKind.THREAD, worker, received_ns),
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


def _check_left(graph: DependencyGraph, jobs: _Jobs) -> None:
    """Raise unless each rank keeps host work that no selected event holds."""
    rank = graph.activities.get_column("rank").fill_null(-1).to_numpy()
    moments = host_moments(graph)[0]
    stay = graph.moments.activity[moments[~jobs.inside[moments]]]
    left = np.setdiff1d(stay, jobs.event)
    if not np.isin(rank[jobs.event], rank[left]).all():
        raise ArgumentError(
            "offload: the selected events hold all host work of a rank, which another thread would do no sooner: "
            "select part of it, such as name='enumerate(DataLoader)*'"
        )


class Changed(NamedTuple):
    """A changed graph, the selected activities, and of a change of shape all that it changes."""

    graph: DependencyGraph
    chosen: _Bools
    reshaped: Reshaped | None = None


def changed(graph: DependencyGraph, change: Change, end: IntervalEnd | None = None) -> Changed:
    """Apply a change; of a change of shape the predicted work, or that at an end of its interval."""
    change = checked(change)
    named = verb_named(change.verb)
    if named.on is On.SHAPES:
        sizes = [size for size in (change.before, change.value) if size is not None]
        reshaped: Reshaped = named.apply(graph, *sizes, *([change.network] if named.network else []))
        return Changed(reshaped.at(end), reshaped.chosen, reshaped)
    chosen = selected(graph, change.where)
    if named.on is not On.ALL:
        kinds = graph.activities.get_column("kind").cast(pl.String)
        chosen &= (kinds == ActivityKind.COMMUNICATION.value).to_numpy()
    values = [value for value in (change.value, change.factor) if value is not None]
    return Changed(named.apply(graph, chosen, *values), chosen)
