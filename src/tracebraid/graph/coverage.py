"""Share of the measured time that a dependency graph explains."""

from __future__ import annotations

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import NDArray

from tracebraid.graph.latest_edges import latest_edges
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import DependencyGraph, EdgeKind, Residual, TimePart, Track
from tracebraid.model.schema.links import GRAPH_COVERAGE

_Ints = NDArray[np.int64]

_OWN = (EdgeKind.HOST, EdgeKind.DEVICE, EdgeKind.TRANSFER)
"""Edges whose work is work of the thread or stream, not latency."""


class Intervals(Struct, frozen=True, eq=False):
    """The intervals of all threads and streams, each from a moment to the next one; by thread or stream, then in time.

    An interval is work + latency + waiting + residual, each at least 0 ns.

    Args:
        moment: at which it ends.
        track: the thread or stream: a number of this table alone.
        edge: the longest wait of the moment; -1: none.
        work_ns: work of the thread or stream, by that edge.
        latency_ns: a usual latency, by that edge.
        waiting_ns: time until the awaited moment.
        residual_ns: unexplained time.
    """

    moment: _Ints
    track: _Ints
    edge: _Ints
    work_ns: _Ints
    latency_ns: _Ints
    waiting_ns: _Ints
    residual_ns: _Ints


def intervals(graph: DependencyGraph) -> Intervals:
    """All intervals of a graph; collectives have none, their members do."""
    moments, edges = graph.moments, graph.edges
    track = _tracks(graph.activities)[moments.activity]
    by_track = np.argsort(track, kind="stable")
    by_track = by_track[np.searchsorted(track[by_track], 0) :]
    follows = track[by_track[1:]] == track[by_track[:-1]]
    moment, before = by_track[1:][follows], by_track[:-1][follows]
    span = np.maximum(moments.time_ns[moment] - moments.time_ns[before], 0)
    latest = latest_edges(edges, moments.time_ns)[moment]
    has_edge = latest >= 0
    residual = np.where(has_edge, np.minimum(moments.residual_ns[moment], span), span)
    rest = span - residual
    if not len(edges):
        nothing = np.zeros(len(moment), dtype=np.int64)
        return Intervals(moment, track[moment], latest, nothing, nothing, nothing, residual)
    work = np.where(has_edge, np.minimum(edges.work_ns[latest], rest), 0)
    own = np.isin(edges.kind[latest], [int(kind) for kind in _OWN])
    return Intervals(
        moment, track[moment], latest, np.where(own, work, 0), np.where(own, 0, work), rest - work, residual
    )


def _tracks(activities: pl.DataFrame) -> _Ints:
    """The thread or stream of each activity as a number; -1: it is on none."""
    lanes = activities.select("rank", "lane")
    known = lanes.drop_nulls().unique().sort("rank", "lane").with_row_index("track")
    found = lanes.join(known, on=["rank", "lane"], how="left", maintain_order="left")
    tracks: _Ints = found.get_column("track").cast(pl.Int64).fill_null(-1).to_numpy()
    return tracks


def steps_of_intervals(graph: DependencyGraph, found: Intervals, on_device: NDArray[np.bool_]) -> pl.Series:
    """The step of each interval; null: it is in none.

    Of a thread, that whose window holds its end: from behind the step's start to its end, of windows that overlap the
    last to start. Of a stream, that in which the work was issued with whose start or end it ends.
    """
    names = graph.steps.get_column("step").drop_nulls().unique(maintain_order=True)
    if names.is_empty():
        return pl.Series([None] * len(found.moment), dtype=pl.String)
    number = np.full(len(found.moment), -1, dtype=np.int64)
    numbers = {name: index for index, name in enumerate(names)}
    _on_host(graph, found, number, numbers)
    issued = graph.activities.select(
        as_text("step").replace_strict(numbers, default=-1, return_dtype=pl.Int64)
    ).to_series()
    number = np.where(on_device, issued.to_numpy()[graph.moments.activity[found.moment]], number)
    return names.gather(pl.Series(number).replace(-1, None))


def _on_host(graph: DependencyGraph, found: Intervals, number: _Ints, names: dict[str, int]) -> None:
    """Set the steps of the intervals in windows, of each thread or stream of the rank."""
    times, firsts = graph.moments.time_ns, np.flatnonzero(np.diff(found.track, prepend=-1))
    ends = np.append(firsts[1:], len(found.track))
    rank = graph.activities.get_column("rank").to_numpy()[graph.moments.activity[found.moment[firsts]]]
    windows = graph.steps.drop_nulls("step").with_columns(
        pl.Series("start_ns", times[graph.steps.drop_nulls("step").get_column("start_moment").to_numpy()])
    )
    for step, of_rank, start, end in (
        windows.sort("start_ns", maintain_order=True)
        .select("step", "rank", "start_moment", "host_end_moment")
        .iter_rows()
    ):
        for track in np.flatnonzero(rank == of_rank):
            here = times[found.moment[firsts[track] : ends[track]]]
            first, last = np.searchsorted(here, [times[start], times[end]], side="right")
            number[firsts[track] + first : firsts[track] + last] = names[step]


TRANSFER = "transfer"
TRANSFER_BOUND = "transfer_bound"
"""Work of collectives: of all ranks of the group, and an upper bound where ranks are missing."""


def coverage_of(graph: DependencyGraph) -> pl.DataFrame:
    """`GRAPH_COVERAGE`: of each rank and step, what the time of its threads and streams is made of.

    The time of a thread or stream is cut at each of its moments. Of an interval that ends with a moment, the
    moment's residual comes last, at most the interval; before it what its latest edge has as work, at most the rest;
    what remains is waiting for what that edge comes from. So rows add up to the time, to the ns.
    """
    found = intervals(graph)
    edge = np.maximum(found.edge, 0)
    has_edges = len(graph.edges) > 0
    kind = graph.edges.kind[edge] if has_edges else np.zeros(len(edge), dtype=np.uint8)
    origins = _origins(graph, found)
    by_edge = _codes(kind, EdgeKind)
    rows = [
        _part(origins, TimePart.WORK, _owners(graph, edge, kind) if has_edges else by_edge, found.work_ns),
        _part(origins, TimePart.LATENCY, by_edge, found.latency_ns),
        _part(origins, TimePart.WAITING, by_edge, found.waiting_ns),
        _part(
            origins,
            TimePart.RESIDUAL,
            _codes(graph.moments.residual[found.moment], Residual),
            found.residual_ns,
        ),
    ]
    by_step = pl.concat(rows)
    if not graph.is_whole:
        by_step = by_step.filter(pl.col("step").is_not_null())
    every = by_step.with_columns(pl.lit(None, dtype=pl.String).alias("step"))
    listed = pl.concat([every, by_step.filter(pl.col("step").is_not_null())])
    summed = listed.group_by("step", "rank", "track", "part", "kind").agg(pl.col("ns").sum())
    whole = pl.col("ns").sum().over("step", "rank", "track")
    return GRAPH_COVERAGE.conform(
        summed.with_columns((pl.col("ns") / whole).alias("share")).sort(
            *("rank", _order(graph), "track", _rank_of_part(), "ns", "kind"),
            descending=[False, False, True, False, True, False],
        )
    )


def _part(origins: pl.DataFrame, part: TimePart, kind: pl.Series, ns: _Ints) -> pl.DataFrame:
    """The sums of a part of the intervals."""
    return (
        origins.with_columns(kind.alias("kind"), pl.Series("ns", ns))
        .filter(pl.col("ns") > 0)
        .group_by("step", "rank", "track", "kind")
        .agg(pl.col("ns").sum())
        .with_columns(as_text("kind"), pl.lit(part.value).alias("part"))
    )


def _origins(graph: DependencyGraph, found: Intervals) -> pl.DataFrame:
    """Step, rank and track of each interval."""
    activity = graph.moments.activity[found.moment]
    rank = graph.activities.get_column("rank").to_numpy()[activity]
    on_device = graph.activities.get_column("stream").is_not_null().to_numpy()[activity]
    step = steps_of_intervals(graph, found, on_device)
    return pl.DataFrame(
        {
            "step": step,
            "rank": pl.Series(rank).cast(pl.Int64),
            "track": pl.Series(np.where(on_device, 1, 0)).replace_strict(
                {0: Track.HOST.value, 1: Track.DEVICE.value}, return_dtype=pl.String
            ),
        }
    )


def _codes(codes: NDArray[np.uint8], names: type[EdgeKind] | type[Residual]) -> pl.Series:
    listed = pl.Series([name.name.lower() for name in names], dtype=pl.String).cast(pl.Categorical())
    found: pl.Series = listed.gather(pl.Series(codes).cast(pl.UInt32))
    return found


def _owners(graph: DependencyGraph, edge: _Ints, kind: NDArray[np.uint8]) -> pl.Series:
    """The kind of the activity that does the work of each edge."""
    bound = graph.ranks.collectives.select(
        "collective", pl.coalesce(pl.col("missing").list.len() > 0, pl.lit(value=True)).alias("is_bound")
    )
    owner = graph.activities.select("kind", "collective")[graph.edges.activity[edge]]
    named = owner.join(bound, on="collective", how="left", maintain_order="left").select(
        pl.when(pl.Series(kind == EdgeKind.TRANSFER))
        .then(pl.when("is_bound").then(pl.lit(TRANSFER_BOUND)).otherwise(pl.lit(TRANSFER)))
        .otherwise(as_text("kind"))
        .alias("kind")
    )
    return named.to_series()


def _order(graph: DependencyGraph) -> pl.Expr:
    """All of a rank first, then its steps in their order."""
    steps = graph.steps.get_column("step").drop_nulls().unique(maintain_order=True).to_list()
    numbers = {step: number for number, step in enumerate(steps)}
    return pl.col("step").replace_strict(numbers, default=-1, return_dtype=pl.Int64)


def _rank_of_part() -> pl.Expr:
    numbers = {part.value: number for number, part in enumerate(TimePart)}
    return pl.col("part").replace_strict(numbers, return_dtype=pl.Int64)
