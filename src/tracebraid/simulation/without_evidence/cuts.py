"""The edges that evidence shortens or does not need, and the moments that are no longer late."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.graph.codes import EdgeKind, Residual
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.simulation.without_evidence.intervals import Intervals, device_cuts, host_intervals
from tracebraid.simulation.without_evidence.on_lanes import Lanes, expanded, lanes_of
from tracebraid.simulation.without_evidence.taken_away import TAKEN_AWAY

__all__ = ["NOT_WAITED_FOR", "Cuts", "cuts_of"]

_Ints = NDArray[np.int64]

NOT_WAITED_FOR = -(2**62)
"""Work of an edge that no moment waits for: a replay's times begin at 0."""


@dataclass(frozen=True, eq=False)
class Cuts:
    """What changes, by item.

    Args:
        items: the items of which anything is known, ascending.
        edges: `item`, `edge`, `work_ns`: the new work, sorted by item.
        moments: `item`, `moment`: those that have no residual, sorted by item.
    """

    items: list[int]
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


def cuts_of(graph: DependencyGraph, parts: pl.DataFrame) -> Cuts:
    """What the evidence of each item takes away.

    Args:
        graph: of the ranks of the evidence.
        parts: see `gains_of`.
    """
    known = _with_activities(graph, parts)
    lanes = lanes_of(graph)
    works = device_cuts(graph, lanes, known)
    on_host = _host_cuts(graph, lanes, host_intervals(graph, lanes, known, works))
    on_device = _device_edges(graph, works)
    edges = pl.concat([on_host[0], on_device[0]]).group_by("item", "edge").agg(pl.col("work_ns").min())
    moments = pl.concat([on_host[1], on_device[1]]).unique()
    items = known.get_column("item").unique().sort().to_list()
    return Cuts(items, edges.sort("item"), moments.sort("item"))


def _rows(frame: pl.DataFrame, item: int) -> pl.DataFrame:
    column = frame.get_column("item")
    low = int(column.search_sorted(item, side="left"))
    return frame.slice(low, int(column.search_sorted(item, side="right")) - low)


def _with_activities(graph: DependencyGraph, parts: pl.DataFrame) -> pl.DataFrame:
    """The evidence of which it is known what goes: on aligned clocks, with `activity`, `on_device` and `taken`."""
    names = {name: taken.value for name, taken in TAKEN_AWAY.items()}
    activities = graph.activities.select(
        "rank",
        "event_id",
        pl.int_range(pl.len()).cast(pl.Int64).alias("activity"),
        pl.col("stream").is_not_null().alias("on_device"),
    ).drop_nulls()
    taken = pl.col("detector").cast(pl.String).replace_strict(names, default=None, return_dtype=pl.String)
    found = parts.with_columns(taken.alias("taken")).filter(pl.col("taken").is_not_null())
    found = graph.ranks.aligned(found, "start_ns", "end_ns")
    return found.join(activities, on=["rank", "event_id"], how="inner", maintain_order="left")


def _host_cuts(
    graph: DependencyGraph, lanes: Lanes, intervals: Intervals
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """In each interval a thread works less by its share, waits for no other, and is not late."""
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
    frame = pl.DataFrame({"item": intervals.item[row[nth]], "edge": edge, "cut": cut})
    summed = frame.group_by("item", "edge").agg(pl.col("cut").sum())
    own = graph.edges.work_ns[summed.get_column("edge").to_numpy()]
    cuts = summed.get_column("cut").to_numpy()
    finite = np.where(np.isinf(cuts), 0.0, np.minimum(cuts, own))
    work = np.where(np.isinf(cuts), NOT_WAITED_FOR, own - np.rint(finite).astype(np.int64))
    late = goes_on & (graph.moments.residual[moment] != Residual.BEFORE)
    return (
        _edges(summed.get_column("item").to_numpy(), summed.get_column("edge").to_numpy(), work),
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
