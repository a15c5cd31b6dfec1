"""A job as it would be traced after changes: when everything happens, and how large its communication is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as replaced
from math import prod

import numpy as np
import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from tracebraid.errors import ArgumentError
from tracebraid.model.collectives import GROUP_OF_RANK, HOST, Division
from tracebraid.model.expressions import as_text
from tracebraid.model.graph import (
    ActivityKind,
    Change,
    DependencyGraph,
    EdgeKind,
    EdgeList,
    Point,
    RankGraph,
    moment,
)
from tracebraid.model.linked_ranks import LinkedRanks
from tracebraid.model.pipeline import PipelineWork
from tracebraid.model.schema.links import MEMBERS
from tracebraid.simulation.changes.communication import BETWEEN_RANKS, work_of
from tracebraid.simulation.changes.pipeline import pipeline_work
from tracebraid.simulation.changes.reshaping import Reshaped
from tracebraid.simulation.changes.shapes import batch_scaled, with_hidden
from tracebraid.simulation.changes.tensor import with_tensor
from tracebraid.simulation.changes.verbs import checked_together, divides, text_of, verb_named
from tracebraid.simulation.replay import replayed_times
from tracebraid.simulation.what_if import changed_graph

_Ints = NDArray[np.int64]
_Bools = NDArray[np.bool_]
_Floats = NDArray[np.float64]
_OWN = (EdgeKind.HOST, EdgeKind.DEVICE)
_AMOUNTS = ("flops", "bytes")
_FOREVER = np.iinfo(np.int64).max


class PredictedRank(Struct, frozen=True, eq=False):
    """A rank after changes, on the aligned clock of all ranks.

    Args:
        added: `ACTIVITIES` that its trace lacks; they come behind those of the trace.
        times_ns: of its moments, as in `RankGraph`.
        edges: its edges, with their work.
        amounts: factors of what ops compute: `op_event`, `of_flops`, `of_bytes`; ops that are left out keep theirs.
        pipeline: what of it each stage of a pipeline does; None: it becomes none.
    """

    added: pl.DataFrame
    times_ns: _Ints
    edges: EdgeList
    amounts: pl.DataFrame
    pipeline: PipelineWork | None = None

    def graph(self, part: RankGraph) -> RankGraph:
        """The rank's graph at the predicted times."""
        start_ns, end_ns = self.times_ns.reshape(-1, 2).T
        activities = pl.concat([part.activities, self.added]).with_columns(
            pl.Series("start_ns", start_ns), pl.Series("end_ns", end_ns)
        )
        return replace(part, activities=activities, times_ns=self.times_ns, edges=self.edges)

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
        divisions: by which each of these becomes several.
    """

    of_rank: dict[int, PredictedRank]
    ranks: LinkedRanks
    starts: pl.DataFrame
    world_size: int | None
    divisions: tuple[Division, ...]


def predicted_job(graph: DependencyGraph, changes: Sequence[Change]) -> PredictedJob:
    """Predict a job after changes.

    Raises:
        ArgumentError: a change cannot be applied, or changes more than times and sizes: see `Verb.unexported`.
    """
    for change in changes:
        if reason := verb_named(change.verb).unexported:
            raise ArgumentError(f"{text_of(change)} cannot be exported: {reason}")
    world_size = _world_size(graph, changes)
    # Stages are divided when all else is known.
    splits = [change for change in changes if verb_named(change.verb).stages]
    checked_together(changes)
    others = [change for change in changes if change not in splits]
    after, shapes = changed_graph(graph, others) if others else (graph, ())
    after = _with_events(graph, after)
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
    of_rank = _of_ranks(graph, after, times_ns, _amounts(after, shapes))
    for split in splits:
        work = pipeline_work(after, times_ns, split, _of_activations(others))
        of_rank = {rank: replace(each, pipeline=work[rank]) for rank, each in of_rank.items()}
    return PredictedJob(
        of_rank,
        _linked(graph, after, times_ns, shapes),
        starts,
        world_size,
        _divisions(changes),
    )


def _divisions(changes: Sequence[Change]) -> tuple[Division, ...]:
    """By which each rank becomes several: ranks of a tensor are next to each other, stages behind all others."""
    found = [
        Division(
            change.verb,
            int(change.value or 1),
            is_inner=change.verb == with_tensor.name,
            are_stages=verb_named(change.verb).stages,
        )
        for change in changes
        if divides(change)
    ]
    return tuple(sorted(found, key=lambda division: (division.are_stages, not division.is_inner)))


def _of_activations(changes: Sequence[Change]) -> float:
    """New size of what goes from block to block of a model, over that in the traces."""
    verbs = (batch_scaled.name, with_hidden.name)
    return prod((change.value or 1) / (change.before or 1) for change in changes if change.verb in verbs)


def _world_size(graph: DependencyGraph, changes: Sequence[Change]) -> int | None:
    """Ranks of the job whose groups get other ranks; None: those of none do."""
    stated = graph.ranks.ranks.get_column("world_size").max()
    traced = max(graph.ranks.ranks.height, stated if isinstance(stated, int) else 0)
    world = traced
    for change in changes:
        if not verb_named(change.verb).network or divides(change):
            continue
        before, after = (int(size) for size in (change.before or 0, change.value or 0))
        if world != before:
            raise ArgumentError(
                f"{text_of(change)} cannot be exported: groups of {before} of {world} ranks get others, and how these "
                "would be grouped is not known"
            )
        if after < before:
            raise ArgumentError(
                f"{text_of(change)} cannot be exported: ranks are added, not removed; open fewer of them, with "
                "--missing shrink"
            )
        world = after
    return None if world == traced else world


def _with_events(graph: DependencyGraph, after: DependencyGraph) -> DependencyGraph:
    """The graph in which communication that the traces lack has events, and a thread that they lack has a lane."""
    rows = after.activities.with_columns(_new=pl.int_range(pl.len()) >= graph.activities.height)
    communicates = pl.col("_new") & (as_text("kind") == ActivityKind.COMMUNICATION.value)
    last_event, last_lane = (pl.col(name).max().over("rank").fill_null(-1) for name in ("event_id", "lane"))
    numbered = rows.with_columns(
        pl.when(communicates)
        .then(last_event + communicates.cum_sum().over("rank"))
        .otherwise("event_id")
        .alias("event_id"),
        pl.when("_new").then(pl.coalesce("lane", last_lane + 1)).otherwise("lane").alias("lane"),
    )
    return replace(after, activities=numbered.select(after.activities.columns))


def _amounts(after: DependencyGraph, shapes: Sequence[Reshaped]) -> pl.DataFrame:
    """Factors of the FLOPs and bytes of each op that has others: `rank`, `op_event`, `of_flops`, `of_bytes`."""
    factors = _product([each.of_amounts for each in shapes], (after.activities.height, 2))
    names = [f"of_{name}" for name in _AMOUNTS]
    rows = after.activities.select("rank", "event_id", "op_event").with_columns(
        *(pl.Series(name, column) for name, column in zip(names, factors.T, strict=True))
    )
    is_changed = (pl.col("event_id") == pl.col("op_event")) & pl.any_horizontal(pl.col(*names) != 1.0)
    return rows.filter(is_changed).select("rank", "op_event", *names)


def _product(factors: Sequence[_Floats], shape: tuple[int, ...]) -> _Floats:
    """The product of factors of activities; what a later change adds has none of the earlier."""
    found = np.ones(shape)
    for each in factors:
        found[: len(each)] *= each
    return found


def _of_ranks(
    graph: DependencyGraph, after: DependencyGraph, times_ns: _Ints, amounts: pl.DataFrame
) -> dict[int, PredictedRank]:
    """Each rank's part of the graph."""
    rank = after.activities.get_column("rank").fill_null(-1).to_numpy()
    by_rank = np.argsort(rank, kind="stable")
    numbers, firsts, counts = np.unique(rank[by_rank], return_index=True, return_counts=True)
    place = np.empty(len(rank), dtype=np.int64)
    place[by_rank] = np.arange(len(rank)) - np.repeat(firsts, counts)
    activity, point = after.moments.activity, after.moments.point.astype(np.int64)
    edges, after_moment = after.edges, after.after
    by, of = activity[after_moment], activity[edges.before]
    # What ranks wait for of each other is in the plan of the job.
    inside = (rank[by] == rank[of]) & ~np.isin(edges.kind, BETWEEN_RANKS)
    # To a rank alone its communication is work from its start: that others came later is in the plan, too.
    of_member = np.isin(edges.kind, _OWN) & (point[after_moment] == Point.END) & _meets(after)[by]
    spans_ns = times_ns[by, point[after_moment]] - times_ns[of, point[edges.before]]
    work_ns = np.where(of_member & (edges.work_ns == 0), spans_ns, edges.work_ns)
    chosen = np.flatnonzero(inside)[np.argsort(rank[by[inside]], kind="stable")]
    edge_from, edge_to = (np.searchsorted(rank[by[chosen]], numbers, side=side) for side in ("left", "right"))
    changed = amounts.partition_by("rank", as_dict=True, include_key=False)
    found = {}
    for index, number in enumerate(numbers.tolist()):
        if number < 0:
            continue
        own = by_rank[firsts[index] : firsts[index] + counts[index]]
        rows = chosen[edge_from[index] : edge_to[index]]
        found[number] = PredictedRank(
            after.activities[pl.Series(own[own >= graph.activities.height])],
            times_ns[own].reshape(-1),
            EdgeList(
                moment(place[of[rows]], point[edges.before[rows]]),
                moment(place[by[rows]], point[after_moment[rows]]),
                work_ns[rows],
                edges.kind[rows],
                place[edges.activity[rows]],
            ),
            changed.get((number,), amounts.clear().drop("rank")),
        )
    return found


def _linked(
    graph: DependencyGraph, after: DependencyGraph, times_ns: _Ints, shapes: Sequence[Reshaped]
) -> LinkedRanks:
    """The ranks linked as they were, at the predicted times, with what is added and without what is removed."""
    ranks, traced = graph.ranks, graph.activities.height
    sizes = _product([each.of_sizes for each in shapes], (len(times_ns),))
    rows = after.activities.select(
        "rank",
        "event_id",
        _start=pl.Series(times_ns[:, 0]),
        _end=pl.Series(times_ns[:, 1]),
        _factor=pl.Series(sizes * _of_merged(graph, after)),
        _removed=pl.Series(_removed(graph, after)),
    ).drop_nulls("event_id")
    every = pl.concat([ranks.members, _members_of(after.activities[traced:])])
    joined = every.join(rows, on=["rank", "event_id"], how="left", maintain_order="left")
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


_DEVICE = "0"
"""Device of collectives that the traces lack, where it is not the host."""


def _members_of(added: pl.DataFrame) -> pl.DataFrame:
    """`MEMBERS` of collectives that the traces lack, each in the group of those that divide its rank."""
    own = added.filter(as_text("kind") == ActivityKind.COMMUNICATION.value)
    rows = own.select(
        "rank",
        "event_id",
        as_text("step"),
        as_text("type"),
        as_text("name"),
        "start_ns",
        "end_ns",
        pl.format(GROUP_OF_RANK, "group", "rank").alias("group"),
        pl.format("[{}]", "rank").alias("group_ranks"),
        pl.col("group").alias("process_group"),
        pl.when(pl.col("stream").is_null()).then(pl.lit(HOST)).otherwise(pl.lit(_DEVICE)).alias("device"),
        pl.coalesce("stream", "lane").cast(pl.String).alias("stream"),
        *(pl.col("size_bytes").alias(name) for name in ("in_bytes", "out_bytes")),
    )
    return MEMBERS.conform(rows, fill_missing=True)


def _of_merged(graph: DependencyGraph, after: DependencyGraph) -> _Floats:
    """New bytes of each activity that is merged with others, over the old."""
    was, now = (
        each.activities.get_column("size_bytes").fill_null(0).to_numpy()[: graph.activities.height]
        for each in (graph, after)
    )
    found = np.ones(after.activities.height)
    found[: len(was)] = np.where(was > 0, now / np.maximum(was, 1), 1.0)
    return found


def _removed(graph: DependencyGraph, after: DependencyGraph) -> _Bools:
    """Whether each activity no longer meets other ranks, or, if it never did, no longer takes time."""
    traced = graph.activities.height
    found = ~_meets(after)
    idle = (work_of(graph) > 0) & (work_of(after)[:traced] == 0)
    found[:traced] = np.where(_meets(graph), found[:traced], idle)
    return found


def _meets(graph: DependencyGraph) -> _Bools:
    """Whether each activity meets other ranks."""
    found = np.zeros(graph.activities.height, dtype=np.bool_)
    between = np.isin(graph.edges.kind, BETWEEN_RANKS)
    for moments in (graph.edges.before[between], graph.after[between]):
        found[graph.moments.activity[moments]] = True
    return found
