"""Gain of a step without the time that evidence of advice names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.model.capture_facts import OP_WEIGHT
from tracebraid.model.graph import ActivityKind, DependencyGraph, EdgeKind, Residual
from tracebraid.model.questions import Removal
from tracebraid.model.rows import distinct_rows
from tracebraid.simulation.replay import replay, step_moments

_Ints = NDArray[np.int64]


class Lanes(Struct, frozen=True, eq=False):
    """The lanes of a graph.

    Args:
        lane: of each activity, its lane among those of all ranks; -1: it has none.
        first_ns: the earliest moment of the graph.
        long_ns: more than the graph is long.
        moments: moments by lane and time.
        moment_keys: lane and time of each, as a number.
        works: activities on devices, by lane and start.
        start_keys: lane and start of each.
        end_keys: lane and latest end so far.
    """

    lane: _Ints
    first_ns: int
    long_ns: int
    moments: _Ints
    moment_keys: _Ints
    works: _Ints
    start_keys: _Ints
    end_keys: _Ints

    def key(self, lane: _Ints, time_ns: _Ints) -> _Ints:
        """Lane and time as a number; times outside the graph are moved to its bounds."""
        inside = np.clip(time_ns - self.first_ns, 0, self.long_ns - 1)
        found: _Ints = lane * self.long_ns + inside
        return found

    def moments_within(self, lane: _Ints, start_ns: _Ints, end_ns: _Ints) -> tuple[_Ints, _Ints]:
        """The moments of each interval behind its start, up to its end: the interval, and the moment."""
        low = np.searchsorted(self.moment_keys, self.key(lane, start_ns), side="right")
        high = np.searchsorted(self.moment_keys, self.key(lane, end_ns), side="right")
        interval, position = expanded(low, high)
        return interval, self.moments[position]

    def works_within(self, lane: _Ints, start_ns: _Ints, end_ns: _Ints) -> tuple[_Ints, _Ints]:
        """The device work that runs in each interval: the interval, and the activity."""
        low = np.searchsorted(self.end_keys, self.key(lane, start_ns), side="right")
        high = np.searchsorted(self.start_keys, self.key(lane, end_ns), side="left")
        interval, position = expanded(low, high)
        return interval, self.works[position]


def lane_of(graph: DependencyGraph) -> _Ints:
    """The thread or stream of each activity, numbered over all ranks; -1: it has none."""
    known = pl.col("lane").is_not_null() & pl.col("rank").is_not_null()
    code = pl.when(known).then(pl.struct("rank", "lane").rank("dense").cast(pl.Int64)).otherwise(-1)
    lane: _Ints = graph.activities.select(code.alias("code")).to_series().to_numpy()
    return lane


def lanes_of(graph: DependencyGraph) -> Lanes:
    """The lanes of a graph."""
    table, lane = graph.activities, lane_of(graph)
    times = graph.moments.time_ns
    first_ns = int(times.min()) if len(times) else 0
    long_ns = int(times.max()) - first_ns + 2 if len(times) else 1
    of_moment = lane[graph.moments.activity]
    moment_keys = of_moment * long_ns + (times - first_ns)
    moments = np.argsort(moment_keys, kind="stable")
    works = np.flatnonzero(table.get_column("stream").is_not_null().to_numpy() & (lane >= 0))
    start, end = (lane[works] * long_ns + times[graph.moment_of[works, point]] - first_ns for point in (0, 1))
    order = np.argsort(start, kind="stable")
    ends = np.maximum.accumulate(end[order]) if len(order) else end
    return Lanes(lane, first_ns, long_ns, moments, moment_keys[moments], works[order], start[order], ends)


def expanded(low: _Ints, high: _Ints) -> tuple[_Ints, _Ints]:
    """Each number from `low` up to `high` of each row: the row, and the number."""
    count = np.maximum(high - low, 0)
    row = np.repeat(np.arange(len(count)), count)
    return row, low[row] + np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)


_COLUMNS = {
    "item": pl.Int64(),
    "lane": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "share": pl.Float64(),
    "last": pl.Int64(),
}


class Intervals(Struct, frozen=True, eq=False):
    """Intervals of threads; each array has an entry for each.

    Args:
        item: the item whose evidence it is.
        lane: the thread (`Lanes.lane`).
        start_ns: only events that begin or end after it count.
        end_ns: up to here.
        share: how much of its work goes, 0 to 1.
        last: the last moment that may count.
    """

    item: _Ints
    lane: _Ints
    start_ns: _Ints
    end_ns: _Ints
    share: NDArray[np.float64]
    last: _Ints


def device_cuts(graph: DependencyGraph, lanes: Lanes, known: pl.DataFrame) -> pl.DataFrame:
    """Removed device work: `item`, `part` (an occurrence), `activity`, `cut_ns`, `host_share`."""
    on_device = known.filter(pl.col("on_device") & (pl.col("taken") != Removal.HOST.value))
    copies = on_device.filter(pl.col("taken") == Removal.COPY.value)
    begin_ns = graph.moments.time_ns[graph.moment_of[copies.get_column("activity").to_numpy(), 0]]
    of_copies = (
        copies.with_columns(pl.Series("begin_ns", begin_ns, dtype=pl.Int64))
        .group_by("item", "activity", maintain_order=True)
        .agg(pl.col("saving_ns").filter(pl.col("start_ns") >= pl.col("begin_ns")).sum().alias("cut_ns"))
        .select(
            "item",
            (-1 - pl.col("activity")).alias("part"),
            "activity",
            "cut_ns",
            pl.lit(1.0).alias("host_share"),
        )
    )
    others = on_device.filter(pl.col("taken") != Removal.COPY.value)
    start, end, saving, event = (
        others.get_column(name).to_numpy() for name in ("start_ns", "end_ns", "saving_ns", "activity")
    )
    part, activity = lanes.works_within(lanes.lane[event], start, end)
    times, moment_of = graph.moments.time_ns, graph.moment_of
    begin = np.maximum(times[moment_of[activity, 0]], start[part])
    within = np.maximum(np.minimum(times[moment_of[activity, 1]], end[part]) - begin, 0)
    total = np.bincount(part, within, minlength=len(start))
    share = np.minimum(saving / np.maximum(total, 1.0), 1.0)[part]
    has_host = others.get_column("taken").is_in([Removal.RUN.value, Removal.CALLS.value]).to_numpy()
    of_host = np.where(has_host, saving / np.maximum(end - start, 1), 0.0)[part]
    columns = (others.get_column("item").to_numpy()[part], part, activity, np.rint(within * share), of_host)
    found = pl.DataFrame(dict(zip(of_copies.columns, columns, strict=True)))
    launched = _launched(graph, lanes, known.filter(pl.col("taken") == Removal.CODE.value))
    return pl.concat([of_copies, found.cast(of_copies.schema), launched.cast(of_copies.schema)])


def _launched(graph: DependencyGraph, lanes: Lanes, code: pl.DataFrame) -> pl.DataFrame:
    """All device work that some code launches."""
    activity = np.flatnonzero(graph.activities.get_column("stream").is_not_null().to_numpy())
    start = graph.moment_of[activity, 0].astype(np.int64)
    nth, edge = expanded(graph.edges.first[start], graph.edges.first[start + 1])
    launches = graph.edges.kind[edge] == EdgeKind.LAUNCH
    activity = activity[nth[launches]]
    call = graph.moments.activity[graph.edges.before[edge[launches]]]
    times = graph.moments.time_ns
    keys = lanes.key(lanes.lane[call], times[graph.moment_of[call, 0]])
    order = np.argsort(keys, kind="stable")
    lane = lanes.lane[code.get_column("activity").to_numpy()]
    low, high = (
        np.searchsorted(keys[order], lanes.key(lane, code.get_column(name).to_numpy()))
        for name in ("start_ns", "end_ns")
    )
    row, position = expanded(low, high)
    work = activity[order[position]]
    return pl.DataFrame(
        {
            "item": code.get_column("item").to_numpy()[row],
            "part": row,
            "activity": work,
            "cut_ns": times[graph.moment_of[work, 1]] - times[graph.moment_of[work, 0]],
            "host_share": np.zeros(len(row)),
        }
    )


def host_intervals(
    graph: DependencyGraph, lanes: Lanes, known: pl.DataFrame, works: pl.DataFrame
) -> Intervals:
    """Intervals of threads whose time is removed."""
    on_host = _on_threads(graph, known)
    whole = pl.col("taken") == Removal.EVENT.value
    events = on_host.filter(whole).unique(["item", "activity"])
    stretches = on_host.filter(~whole)
    found = pl.concat(
        [
            _of_events(graph, lanes, events),
            _of_stretches(graph, lanes, stretches),
            _of_launches(graph, lanes, works.filter(pl.col("host_share") > 0)),
        ]
    )
    return Intervals(*(found.get_column(name).to_numpy() for name in _COLUMNS))


def _on_threads(graph: DependencyGraph, known: pl.DataFrame) -> pl.DataFrame:
    """The evidence of host events, and that of device work which names the thread that launched it."""
    launched = known.filter(pl.col("on_device") & (pl.col("taken") == Removal.HOST.value))
    activity = launched.get_column("activity").to_numpy()
    start = graph.moment_of[activity, 0].astype(np.int64)
    nth, edge = expanded(graph.edges.first[start], graph.edges.first[start + 1])
    launches = graph.edges.kind[edge] == EdgeKind.LAUNCH
    call = graph.moments.activity[graph.edges.before[edge[launches]]]
    of_calls = launched[nth[launches]].with_columns(pl.Series("activity", call, dtype=pl.Int64))
    on_threads: pl.DataFrame = pl.concat([known.filter(~pl.col("on_device")), of_calls])
    return on_threads


def _of_events(graph: DependencyGraph, lanes: Lanes, events: pl.DataFrame) -> pl.DataFrame:
    activity = events.get_column("activity").to_numpy()
    moments = graph.moment_of[activity].astype(np.int64)
    times = graph.moments.time_ns[moments]
    share = np.ones(len(activity))
    item = events.get_column("item").to_numpy()
    return _frame(item, lanes.lane[activity], times[:, 0], times[:, 1], share, moments[:, 1])


def _of_stretches(graph: DependencyGraph, lanes: Lanes, stretches: pl.DataFrame) -> pl.DataFrame:
    """The evidence's own time, on the thread of its event: without a device, ops replace kernels."""
    item, activity, start, end, saving = (
        stretches.get_column(name).to_numpy()
        for name in ("item", "activity", "start_ns", "end_ns", "saving_ns")
    )
    share = np.minimum(saving / np.maximum(end - start, 1), 1.0)
    last = np.full(len(item), len(graph.moments), dtype=np.int64)
    return _frame(item, lanes.lane[activity], start, end, share, last)


def _of_launches(graph: DependencyGraph, lanes: Lanes, works: pl.DataFrame) -> pl.DataFrame:
    """Host work from the first to the last op that launches work of an occurrence."""
    activity = works.get_column("activity").to_numpy()
    start = graph.moment_of[activity, 0].astype(np.int64)
    nth, edge = expanded(graph.edges.first[start], graph.edges.first[start + 1])
    launches = graph.edges.kind[edge] == EdgeKind.LAUNCH
    nth, edge = nth[launches], edge[launches]
    call = graph.ops_around(graph.moments.activity[graph.edges.before[edge]])
    moments = graph.moment_of[call].astype(np.int64)
    times = graph.moments.time_ns[moments]
    frame = works.select("item", "part", pl.col("host_share").alias("share"))[nth].with_columns(
        pl.Series("lane", lanes.lane[call]),
        pl.Series("start_ns", times[:, 0]),
        pl.Series("end_ns", times[:, 1]),
        pl.Series("last", moments[:, 1]),
    )
    found = frame.group_by("item", "part", "lane").agg(
        pl.col("start_ns").min(), pl.col("end_ns", "share", "last").max()
    )
    chosen: pl.DataFrame = found.select(pl.col(name).cast(dtype) for name, dtype in _COLUMNS.items())
    return chosen


def _frame(*columns: _Ints | NDArray[np.float64]) -> pl.DataFrame:
    """Intervals as a frame, from the arrays of `Intervals` in their order."""
    return pl.DataFrame(dict(zip(_COLUMNS, columns, strict=True)), schema_overrides=_COLUMNS)


NOT_WAITED_FOR = -(2**62)
"""Work of an edge that no moment waits for: a replay's times begin at 0."""


class Changes(Struct, frozen=True, eq=False):
    """Removed work, by item.

    Args:
        edges: `item`, `edge`, `work_ns`: the new work, sorted by item.
        moments: `item`, `moment`: those that have no residual, sorted by item.
    """

    edges: pl.DataFrame
    moments: pl.DataFrame

    def edges_of(self, item: int) -> tuple[_Ints, _Ints]:
        """The edges of an item, and their new work."""
        rows = _rows(self.edges, item)
        return rows.get_column("edge").to_numpy(), rows.get_column("work_ns").to_numpy()

    def moments_of(self, item: int) -> _Ints:
        """The moments of an item that are no longer late."""
        found: _Ints = _rows(self.moments, item).get_column("moment").to_numpy()
        return found

    def holds(self, item: int) -> bool:
        """Return whether an edge of the item changes."""
        return not _rows(self.edges, item).is_empty()


class Cuts(Struct, frozen=True, eq=False):
    """Removal of each item.

    Args:
        items: the items with known removals, ascending.
        every: all that changes.
        of_device: removed work on devices only.
        host_events: of each item, how many Python functions, and ops of their weight, lie in what it takes away.
    """

    items: list[int]
    every: Changes
    of_device: Changes
    host_events: Mapping[int, float]


def cuts_of(graph: DependencyGraph, removals: Mapping[str, Removal], parts: pl.DataFrame) -> Cuts:
    """Compute the removal of each item."""
    known = _with_activities(graph, removals, parts)
    lanes = lanes_of(graph)
    works = device_cuts(graph, lanes, known)
    intervals = host_intervals(graph, lanes, known, works)
    on_host = _host_cuts(graph, lanes, intervals)
    on_device = _device_edges(graph, works)
    arrivals = _arrivals(graph, removals, parts)
    items = known.get_column("item").unique().sort().to_list()
    return Cuts(
        items,
        _changes([on_host, on_device], arrivals),
        _changes([on_device], arrivals.clear()),
        _host_events(graph, lanes, intervals),
    )


def _changes(cuts: Sequence[tuple[pl.DataFrame, pl.DataFrame]], arrivals: pl.DataFrame) -> Changes:
    """The edges and moments of several kinds of cuts together."""
    edges = pl.concat([edges for edges, _ in cuts]).group_by("item", "edge").agg(pl.col("work_ns").min())
    moments = pl.concat([*(moments for _, moments in cuts), arrivals]).unique()
    return Changes(edges.sort("item"), moments.sort("item"))


def _host_events(graph: DependencyGraph, lanes: Lanes, intervals: Intervals) -> dict[int, float]:
    """Count the Python functions, and ops by weight, in the intervals of each item, on the rank with the most.

    Each has two moments. The maximum, because a step waits only once for work that ranks do at the same time.
    """
    row, moment = lanes.moments_within(intervals.lane, intervals.start_ns, intervals.end_ns)
    is_frame = (graph.activities.get_column("kind").cast(pl.String) == ActivityKind.PYTHON.value).to_numpy()
    weight = np.where(is_frame, 1.0, OP_WEIGHT)[graph.moments.activity[moment]]
    rank = graph.activities.get_column("rank").gather(graph.moments.activity[moment]).to_numpy()
    (items, _), pair = distinct_rows(intervals.item[row], rank)
    events = _sums(pair, weight * intervals.share[row] / 2)
    most: dict[int, float] = {}
    for item, count in zip(items.tolist(), events.tolist(), strict=True):
        most[item] = max(count, most.get(item, 0.0))
    return most


def _sums(group: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of each group, added in the order of the rows: Polars adds in an order that depends on its threads."""
    sums: NDArray[np.float64] = np.bincount(group, weights=values).astype(np.float64)
    return sums


def _rows(frame: pl.DataFrame, item: int) -> pl.DataFrame:
    column = frame.get_column("item")
    low = int(column.search_sorted(item, side="left"))
    return frame.slice(low, int(column.search_sorted(item, side="right")) - low)


def _with_activities(
    graph: DependencyGraph, removals: Mapping[str, Removal], parts: pl.DataFrame
) -> pl.DataFrame:
    """Evidence with known removal: on aligned clocks, with `activity`, `on_device` and `taken`."""
    names = {name: taken.value for name, taken in removals.items()}
    activities = graph.activities.select(
        "rank",
        "event_id",
        pl.int_range(pl.len()).cast(pl.Int64).alias("activity"),
        pl.col("stream").is_not_null().alias("on_device"),
    ).drop_nulls()
    taken = pl.col("detector").cast(pl.String).replace_strict(names, default=None, return_dtype=pl.String)
    found = parts.with_columns(taken.alias("taken")).filter(pl.col("taken").is_not_null())
    found = graph.ranks.aligned(found, "start_ns", "end_ns")
    of_rank = pl.col("taken") == Removal.RANK.value
    on_lane = found.filter(~of_rank).join(
        activities, on=["rank", "event_id"], how="inner", maintain_order="left"
    )
    everywhere = found.filter(of_rank).join(_of_lanes(graph), on="rank", how="inner", maintain_order="left")
    is_call = (pl.col("taken") == Removal.CALLS.value) & ~pl.col("on_device")
    threads = _of_lanes(graph, also_communicating=True).filter(~pl.col("on_device"))
    calls = (
        on_lane.filter(is_call).drop("activity", "on_device").join(threads, on="rank", maintain_order="left")
    )
    on_lane = pl.concat([on_lane.filter(~is_call), calls.select(on_lane.columns)])
    by_device = pl.when("on_device").then(pl.lit(Removal.WORK.value)).otherwise(pl.lit(Removal.HOST.value))
    return pl.concat([on_lane, everywhere.with_columns(by_device.alias("taken")).select(on_lane.columns)])


def _arrivals(graph: DependencyGraph, removals: Mapping[str, Removal], parts: pl.DataFrame) -> pl.DataFrame:
    """Starts of communication for which a rank is late, with unknown dependencies."""
    names = [name for name, taken in removals.items() if taken is Removal.RANK]
    events = graph.activities.select("rank", "event_id").with_row_index("activity").drop_nulls()
    found = parts.filter(pl.col("detector").cast(pl.String).is_in(names)).select("item", "rank", "event_id")
    found = found.join(events, on=["rank", "event_id"], how="inner")
    start = graph.moment_of[found.get_column("activity").to_numpy(), 0]
    return _moments(found.get_column("item").to_numpy(), start)


def _of_lanes(graph: DependencyGraph, also_communicating: bool = False) -> pl.DataFrame:
    """An activity of each thread and stream, those that communicate only if asked: `rank`, `activity`, `on_device`."""
    communicates = pl.col("kind").cast(pl.String) == ActivityKind.COMMUNICATION.value
    return (
        graph.activities.with_row_index("activity")
        .filter(pl.col("lane").is_not_null() & pl.col("rank").is_not_null())
        .group_by("rank", "lane")
        .agg(
            communicates.any().alias("communicates"),
            pl.col("activity").last().cast(pl.Int64),
            pl.col("stream").is_not_null().any().alias("on_device"),
        )
        .filter(~pl.col("communicates") | also_communicating)
        .sort("rank", "lane")
    )


def _host_cuts(
    graph: DependencyGraph, lanes: Lanes, intervals: Intervals
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Intervals in which a thread's work is reduced by a share, without waits and residuals."""
    row, moment = lanes.moments_within(intervals.lane, intervals.start_ns, intervals.end_ns)
    kept = moment <= intervals.last[row]
    row, moment = row[kept], moment[kept]
    first = graph.edges.first
    nth, edge = expanded(first[moment], first[moment + 1])
    is_host = graph.edges.kind[edge] == EdgeKind.HOST
    # What begins a thread has nothing else to wait for.
    goes_on = np.zeros(len(moment), dtype=np.bool_)
    goes_on[nth[is_host]] = True
    chosen = is_host | goes_on[nth]
    nth, edge, is_host = nth[chosen], edge[chosen], is_host[chosen]
    cut = np.where(is_host, graph.edges.work_ns[edge] * intervals.share[row[nth]], np.inf)
    (items, edges), pair = distinct_rows(intervals.item[row[nth]], edge)
    cuts = _sums(pair, cut)
    own = graph.edges.work_ns[edges]
    finite = np.where(np.isinf(cuts), 0.0, np.minimum(cuts, own))
    work = np.where(np.isinf(cuts), NOT_WAITED_FOR, own - np.rint(finite).astype(np.int64))
    late = goes_on & (graph.moments.residual[moment] != Residual.BEFORE)
    return (
        _edges(items, edges, work),
        _moments(intervals.item[row[late]], moment[late]),
    )


def _device_edges(graph: DependencyGraph, works: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Device work ends by its cut earlier after its own start, whatever other ranks do."""
    summed = works.group_by("item", "activity").agg(pl.col("cut_ns").sum())
    item, activity, cut = (summed.get_column(name).to_numpy() for name in ("item", "activity", "cut_ns"))
    start, end = graph.moment_of[activity, 0], graph.moment_of[activity, 1].astype(np.int64)
    times = graph.moments.time_ns
    left = np.maximum(times[end] - times[start] - cut, 0)
    nth, edge = expanded(graph.edges.first[end], graph.edges.first[end + 1])
    own = graph.edges.before[edge] == start[nth]
    has_own = np.zeros(len(end), dtype=np.bool_)
    has_own[nth[own]] = True
    waits = ~own & (graph.edges.kind[edge] == EdgeKind.TRANSFER) & has_own[nth]
    work = np.where(own, left[nth], NOT_WAITED_FOR)
    chosen = own | waits
    return (
        _edges(item[nth[chosen]], edge[chosen], work[chosen]),
        _moments(item[has_own], end[has_own]),
    )


def _edges(item: _Ints, edge: _Ints, work: _Ints) -> pl.DataFrame:
    columns = {"item": item, "edge": edge, "work_ns": work}
    return pl.DataFrame({name: np.asarray(values, dtype=np.int64) for name, values in columns.items()})


def _moments(item: _Ints, moment: _Ints) -> pl.DataFrame:
    columns = {"item": item, "moment": moment}
    return pl.DataFrame({name: np.asarray(values, dtype=np.int64) for name, values in columns.items()})


def gains_of(graph: DependencyGraph, removals: Mapping[str, Removal], parts: pl.DataFrame) -> pl.DataFrame:
    """Compute the gain of the last step's end: `item`, `gain_ns`, `device_gain_ns`, `host_events` (removed).

    `device_gain_ns` is the gain if only device work is removed: then the profiler's cost of host events is irrelevant.

    Items that the graph cannot replay have no row.

    Each item costs a pass over the edges. Residuals outside the evidence stay.
    """
    cuts = cuts_of(graph, removals, parts)
    moments = step_moments(graph.steps)
    ends = np.unique(np.concatenate([moments.host_end, moments.device_end]))
    work, residual = graph.edges.work_ns.copy(), graph.moments.residual_ns.copy()
    whole = _end_ns(graph, work, residual, ends)
    every, of_device = cuts.every, cuts.of_device
    gains = [max(whole - _without(graph, every, item, (work, residual), ends), 0) for item in cuts.items]
    device_gains = [
        max(whole - _without(graph, of_device, item, (work, residual), ends), 0)
        if cuts.host_events.get(item) and of_device.holds(item)
        else 0
        for item in cuts.items
    ]
    events = [cuts.host_events.get(item, 0.0) for item in cuts.items]
    return pl.DataFrame(
        {"item": cuts.items, "gain_ns": gains, "device_gain_ns": device_gains, "host_events": events},
        schema={
            "item": pl.Int64,
            "gain_ns": pl.Int64,
            "device_gain_ns": pl.Int64,
            "host_events": pl.Float64,
        },
    )


def _without(
    graph: DependencyGraph, changes: Changes, item: int, arrays: tuple[_Ints, _Ints], ends: _Ints
) -> int:
    """Compute the end of the last step without an item; the arrays are modified and restored."""
    work, residual = arrays
    edges, new_work = changes.edges_of(item)
    moments = changes.moments_of(item)
    work[edges], residual[moments] = new_work, 0
    found = _end_ns(graph, work, residual, ends)
    work[edges], residual[moments] = graph.edges.work_ns[edges], graph.moments.residual_ns[moments]
    return found


def _end_ns(graph: DependencyGraph, work: _Ints, residual: _Ints, ends: _Ints) -> int:
    times = replay(graph.edges.first, graph.edges.before, work, residual)
    return int(times[ends].max()) if len(ends) else 0
