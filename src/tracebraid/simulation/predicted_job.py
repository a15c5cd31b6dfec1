"""A job as it would be traced after changes: when everything happens, and how large its communication is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as replaced

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.graph import Change, DependencyGraph, EdgeKind, EdgeList, Point, RankGraph
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.simulation.changes.communication import work_of
from tracebraid.simulation.changes.parallelism import with_replicas
from tracebraid.simulation.changes.reshaping import Reshaped
from tracebraid.simulation.changes.verbs import text_of, verb_named
from tracebraid.simulation.replay import replayed_times
from tracebraid.simulation.what_if import changed_graph

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_BETWEEN_RANKS = (EdgeKind.ARRIVAL, EdgeKind.TRANSFER)
_OWN = (EdgeKind.HOST, EdgeKind.DEVICE)
_AMOUNTS = ("flops", "bytes")
_FOREVER = np.iinfo(np.int64).max


class PredictedRank(Struct, frozen=True, eq=False):
    """A rank after changes, on the aligned clock of all ranks.

    Args:
        times_ns: of its moments, as in `RankGraph`.
        edges: its edges, with their work.
        amounts: factors of what ops compute: `op_event`, `of_flops`, `of_bytes`; ops that are left out keep theirs.
    """

    times_ns: _Ints
    edges: EdgeList
    amounts: pl.DataFrame

    def graph(self, part: RankGraph) -> RankGraph:
        """The rank's graph at the predicted times."""
        start_ns, end_ns = self.times_ns.reshape(-1, 2).T
        spans = part.activities.with_columns(pl.Series("start_ns", start_ns), pl.Series("end_ns", end_ns))
        return replace(part, activities=spans, times_ns=self.times_ns, edges=self.edges)

    def costs(self, costs: pl.DataFrame) -> pl.DataFrame:
        """`costs_of_ops` at the changed shapes: those of an op change as the op does that counts them."""
        factors = self.amounts.rename({"op_event": "counted_event"})
        joined = costs.join(factors, on="counted_event", how="left", maintain_order="left")
        scaled = [
            (pl.col(name) * pl.col(f"of_{name}").fill_null(1.0)).round().cast(pl.Int64).alias(name)
            for name in _AMOUNTS
        ]
        return joined.select(pl.exclude(*_AMOUNTS, "of_flops", "of_bytes"), *scaled).select(costs.columns)


class PredictedJob(Struct, frozen=True, eq=False):
    """The ranks of a job after changes.

    Args:
        of_rank: each rank.
        ranks: the ranks, linked with each other, all on one clock; without communication that is removed.
        starts: when each rank begins each step: `rank`, `step`, `start_ns`.
        world_size: ranks of the job after it; None: as many as there were.
    """

    of_rank: dict[int, PredictedRank]
    ranks: LinkedRanks
    starts: pl.DataFrame
    world_size: int | None


def predicted_job(graph: DependencyGraph, changes: Sequence[Change]) -> PredictedJob:
    """Predict a job after changes.

    Raises:
        ArgumentError: a change cannot be applied, or changes more than times and sizes: see `Verb.unexported`.
    """
    for change in changes:
        if reason := verb_named(change.verb).unexported:
            raise ArgumentError(f"{text_of(change)} cannot be exported: {reason}")
    world_size = _world_size(graph, changes)
    after, shapes = changed_graph(graph, changes)
    # A replay counts from the first moment of the traces.
    moment_ns = replayed_times(after) + graph.moments.time_ns.min(initial=_FOREVER)
    times_ns = moment_ns[after.moment_of]
    # Communication may end before its last member came, and after a change before its own start.
    times_ns[:, 1] = times_ns.max(axis=1)
    steps = after.steps.drop_nulls("step")
    starts = steps.select(
        "rank",
        pl.col("step").cast(pl.String),
        pl.Series("start_ns", moment_ns[steps.get_column("start_moment").to_numpy()]),
    )
    return PredictedJob(
        _of_ranks(after, times_ns, _amounts(after, shapes)),
        _linked(graph, after, times_ns, shapes),
        starts,
        world_size,
    )


def _world_size(graph: DependencyGraph, changes: Sequence[Change]) -> int | None:
    """Ranks of the job with other replicas; None: no change is of replicas."""
    change = next((each for each in reversed(changes) if each.verb == with_replicas.name), None)
    if change is None or change.value is None or change.before is None:
        return None
    stated = graph.ranks.ranks.get_column("world_size").max()
    world = max(graph.ranks.ranks.height, stated if isinstance(stated, int) else 0)
    if world != change.before:
        raise ArgumentError(
            f"{text_of(change)} cannot be exported: the groups of its {change.before:g} replicas are some of {world} "
            "ranks, and how others would be grouped is not known"
        )
    if change.value < change.before:
        raise ArgumentError(
            f"{text_of(change)} cannot be exported: ranks are added, not removed; open fewer of them, with "
            "--missing shrink"
        )
    return int(change.value)


def _amounts(after: DependencyGraph, shapes: Sequence[Reshaped]) -> pl.DataFrame:
    """Factors of the FLOPs and bytes of each op that has others: `rank`, `op_event`, `of_flops`, `of_bytes`."""
    factors = np.prod([np.ones((after.activities.height, 2)), *(each.of_amounts for each in shapes)], axis=0)
    names = [f"of_{name}" for name in _AMOUNTS]
    rows = after.activities.select("rank", "event_id", "op_event").with_columns(
        *(pl.Series(name, column) for name, column in zip(names, factors.T, strict=True))
    )
    is_changed = (pl.col("event_id") == pl.col("op_event")) & pl.any_horizontal(pl.col(*names) != 1.0)
    return rows.filter(is_changed).select("rank", "op_event", *names)


def _of_ranks(after: DependencyGraph, times_ns: _Ints, amounts: pl.DataFrame) -> dict[int, PredictedRank]:
    """Each rank's part of the graph, whose activities are consecutive."""
    rank = after.activities.get_column("rank").fill_null(-1).to_numpy()
    activity = 2 * after.moments.activity + after.moments.point
    edges, after_moment = after.edges, activity[after.after]
    before_moment = activity[edges.before]
    own_rank = rank[after_moment // 2]
    # What ranks wait for of each other is in the plan of the job.
    inside = (own_rank == rank[before_moment // 2]) & ~np.isin(edges.kind, _BETWEEN_RANKS)
    # To a rank alone its communication is work from its start: that others came later is in the plan, too.
    of_member = np.isin(edges.kind, _OWN) & (after_moment % 2 == Point.END) & _meets(after)[after_moment // 2]
    spans_ns = times_ns.reshape(-1)[after_moment] - times_ns.reshape(-1)[before_moment]
    work_ns = np.where(of_member & (edges.work_ns == 0), spans_ns, edges.work_ns)
    by_rank = np.flatnonzero(inside)[np.argsort(own_rank[inside], kind="stable")]
    numbers, firsts, counts = np.unique(rank, return_index=True, return_counts=True)
    edge_from = np.searchsorted(own_rank[by_rank], numbers)
    edge_to = np.searchsorted(own_rank[by_rank], numbers, side="right")
    changed = amounts.partition_by("rank", as_dict=True, include_key=False)
    found = {}
    for index, number in enumerate(numbers.tolist()):
        if number < 0:
            continue
        first, rows = int(firsts[index]), by_rank[edge_from[index] : edge_to[index]]
        found[number] = PredictedRank(
            times_ns[first : first + int(counts[index])].reshape(-1),
            EdgeList(
                before_moment[rows] - 2 * first,
                after_moment[rows] - 2 * first,
                work_ns[rows],
                edges.kind[rows],
                edges.activity[rows].astype(np.int64) - first,
            ),
            changed.get((number,), amounts.clear().drop("rank")),
        )
    return found


def _linked(
    graph: DependencyGraph, after: DependencyGraph, times_ns: _Ints, shapes: Sequence[Reshaped]
) -> LinkedRanks:
    """The ranks linked as they were, at the predicted times; communication that is removed is not."""
    ranks = graph.ranks
    sizes = np.prod([np.ones(len(times_ns)), *(each.of_sizes for each in shapes)], axis=0)
    rows = graph.activities.select(
        "rank",
        "event_id",
        _start=pl.Series(times_ns[:, 0]),
        _end=pl.Series(times_ns[:, 1]),
        _factor=pl.Series(sizes),
        _removed=pl.Series(_removed(graph, after)),
    ).drop_nulls("event_id")
    joined = ranks.members.join(rows, on=["rank", "event_id"], how="left", maintain_order="left")
    members = joined.filter(~pl.col("_removed").fill_null(value=False)).with_columns(
        pl.coalesce("_start", "start_ns").alias("start_ns"),
        pl.coalesce("_end", "end_ns").alias("end_ns"),
        *(
            (pl.col(name) * pl.col("_factor").fill_null(1.0)).round().cast(pl.Int64).alias(name)
            for name in ("in_bytes", "out_bytes")
        ),
    )
    aligned = ranks.aligned(ranks.ranks, "start_ns", "end_ns")
    return replaced(
        ranks,
        ranks=aligned,
        clocks=ranks.clocks.with_columns(offset_ns=pl.lit(0, dtype=pl.Int64), drift_ppm=pl.lit(0.0)),
        members=members.select(ranks.members.columns),
    )


def _removed(graph: DependencyGraph, after: DependencyGraph) -> _Bools:
    """Whether each activity no longer meets other ranks, or, if it never did, no longer takes time."""
    met, idle = _meets(graph), (work_of(graph) > 0) & (work_of(after) == 0)
    found: _Bools = np.where(met, ~_meets(after), idle)
    return found


def _meets(graph: DependencyGraph) -> _Bools:
    """Whether each activity meets other ranks."""
    found = np.zeros(graph.activities.height, dtype=np.bool_)
    between = np.isin(graph.edges.kind, _BETWEEN_RANKS)
    for moments in (graph.edges.before[between], graph.after[between]):
        found[graph.moments.activity[moments]] = True
    return found
