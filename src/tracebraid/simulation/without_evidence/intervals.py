"""The device work that evidence names, and the intervals of threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.graph.codes import EdgeKind
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.without_evidence.on_lanes import Lanes, expanded
from tracebraid.simulation.without_evidence.taken_away import TakenAway

__all__ = ["Intervals", "device_cuts", "host_intervals"]

_Ints = NDArray[np.int64]

_COLUMNS = {
    "item": pl.Int64(),
    "lane": pl.Int64(),
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "share": pl.Float64(),
    "last": pl.Int64(),
}


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals of threads; each array has an entry for each.

    Args:
        item: the item whose evidence it is.
        lane: the thread (`Lanes.lane`).
        start_ns: what begins or ends behind it counts.
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
    """How much of device work goes: `item`, `part` (an occurrence), `activity`, `cut_ns`, `host_share`.

    Args:
        graph: the graph.
        lanes: its lanes.
        known: the evidence with `activity`, `on_device` and `taken`.
    """
    on_device = known.filter("on_device")
    copies = on_device.filter(pl.col("taken") == TakenAway.COPY.value).unique(["item", "activity"])
    long = pl.Series(_long(graph, copies.get_column("activity").to_numpy()))
    of_copies = copies.select(
        "item",
        (-1 - pl.col("activity")).alias("part"),
        "activity",
        long.alias("cut_ns"),
        pl.lit(1.0).alias("host_share"),
    )
    others = on_device.filter(pl.col("taken") != TakenAway.COPY.value)
    start, end, saving, event = (
        others.get_column(name).to_numpy() for name in ("start_ns", "end_ns", "saving_ns", "activity")
    )
    part, activity = lanes.works_within(lanes.lane[event], start, end)
    times, moment_of = graph.moments.time_ns, graph.moment_of
    begin = np.maximum(times[moment_of[activity, 0]], start[part])
    within = np.maximum(np.minimum(times[moment_of[activity, 1]], end[part]) - begin, 0)
    total = np.bincount(part, within, minlength=len(start))
    share = np.minimum(saving / np.maximum(total, 1.0), 1.0)[part]
    has_host = (others.get_column("taken") == TakenAway.RUN.value).to_numpy()
    of_host = np.where(has_host, saving / np.maximum(end - start, 1), 0.0)[part]
    columns = (others.get_column("item").to_numpy()[part], part, activity, np.rint(within * share), of_host)
    found = pl.DataFrame(dict(zip(of_copies.columns, columns, strict=True)))
    return pl.concat([of_copies, found.cast(of_copies.schema)])


def host_intervals(
    graph: DependencyGraph, lanes: Lanes, known: pl.DataFrame, works: pl.DataFrame
) -> Intervals:
    """The intervals of threads whose time goes.

    Args:
        graph: the graph.
        lanes: its lanes.
        known: the evidence with `activity`, `on_device` and `taken`.
        works: what `device_cuts` found.
    """
    on_host = known.filter(~pl.col("on_device"))
    whole = pl.col("taken") == TakenAway.EVENT.value
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


def _of_events(graph: DependencyGraph, lanes: Lanes, events: pl.DataFrame) -> pl.DataFrame:
    activity = events.get_column("activity").to_numpy()
    moments = graph.moment_of[activity].astype(np.int64)
    times = graph.moments.time_ns[moments]
    share = np.ones(len(activity))
    item = events.get_column("item").to_numpy()
    return _frame(item, lanes.lane[activity], times[:, 0], times[:, 1], share, moments[:, 1])


def _of_stretches(graph: DependencyGraph, lanes: Lanes, stretches: pl.DataFrame) -> pl.DataFrame:
    """The evidence's own time, on the thread of its event: where there is no device, ops stand for kernels."""
    item, activity, start, end, saving = (
        stretches.get_column(name).to_numpy()
        for name in ("item", "activity", "start_ns", "end_ns", "saving_ns")
    )
    share = np.minimum(saving / np.maximum(end - start, 1), 1.0)
    last = np.full(len(item), len(graph.moments), dtype=np.int64)
    return _frame(item, lanes.lane[activity], start, end, share, last)


def _of_launches(graph: DependencyGraph, lanes: Lanes, works: pl.DataFrame) -> pl.DataFrame:
    """What the host does from the first op that launches work of an occurrence to the last."""
    activity = works.get_column("activity").to_numpy()
    start = graph.moment_of[activity, 0].astype(np.int64)
    nth, edge = expanded(graph.edges.first[start], graph.edges.first[start + 1])
    launches = graph.edges.kind[edge] == EdgeKind.LAUNCH
    nth, edge = nth[launches], edge[launches]
    call = _ops_of(graph, graph.moments.activity[graph.edges.before[edge]])
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


def _ops_of(graph: DependencyGraph, call: _Ints) -> _Ints:
    """The innermost ops around calls; a call without an op is its own."""
    table = graph.activities.select("rank", "event_id", "op_event")
    numbers = table.select("rank", pl.col("event_id").alias("op_event"), pl.int_range(pl.len()).alias("op"))
    rows = table[call].select("rank", "op_event").with_columns(pl.Series("call", call))
    found = rows.join(numbers.drop_nulls(), on=["rank", "op_event"], how="left", maintain_order="left")
    return found.select(pl.coalesce("op", "call").cast(pl.Int64)).to_series().to_numpy()


def _long(graph: DependencyGraph, activity: _Ints) -> _Ints:
    times = graph.moments.time_ns[graph.moment_of[activity]]
    found: _Ints = times[:, 1] - times[:, 0]
    return found


def _frame(
    item: _Ints, lane: _Ints, start_ns: _Ints, end_ns: _Ints, share: NDArray[np.float64], last: _Ints
) -> pl.DataFrame:
    columns = (item, lane, start_ns, end_ns, share, last)
    return pl.DataFrame(dict(zip(_COLUMNS, columns, strict=True)), schema_overrides=_COLUMNS)
