"""What is changed between the two programs of a pair, as changes of the dependency graph of the first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from benchmarks.whatif_programs.single_rank import PRODUCT, WIDE
from benchmarks.whatif_programs.two_ranks import SMALL_ALL_REDUCES
from tracebraid.model.expressions import as_text
from tracebraid.model.graph.codes import EdgeKind, Point
from tracebraid.model.graph.dependency_graph import DependencyGraph, Edges

__all__ = ["CHANGES", "Change"]

_Flags = NDArray[np.bool_]
_Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Change:
    """A change.

    Args:
        text: what it does, in words.
        apply: makes the graph with it.
    """

    text: str
    apply: Callable[[DependencyGraph], DependencyGraph]


def scaled(wanted: pl.Expr, factor: float) -> Callable[[DependencyGraph], DependencyGraph]:
    """The work of activities times a factor."""

    def apply(graph: DependencyGraph) -> DependencyGraph:
        return _scaled_edges(graph, _activities(graph, wanted)[graph.edges.activity], factor)

    return apply


def barrier_removed(graph: DependencyGraph) -> DependencyGraph:
    """Nobody waits for barriers, which take no time."""
    barrier = _activities(graph, _named("gloo:barrier", "c10d::barrier"))
    waits = graph.edges.kind == EdgeKind.COMMUNICATION_WAIT
    kept = _with_edges(graph, ~(waits & barrier[graph.edges.activity]))
    return _scaled_edges(kept, barrier[kept.edges.activity], 0.0)


def waits_moved(graph: DependencyGraph) -> DependencyGraph:
    """Each step waits at its end for its all-reduces."""
    waits = graph.edges.kind == EdgeKind.COMMUNICATION_WAIT
    ends, rank = graph.edges.before[waits], _ranks(graph)[graph.edges.before[waits]]
    after = np.empty(len(ends), dtype=np.int64)
    for row, (end, own) in enumerate(zip(ends.tolist(), rank.tolist(), strict=True)):
        of_rank = graph.steps.filter(pl.col("rank") == own).get_column("host_end_moment").to_numpy()
        after[row] = of_rank[np.searchsorted(of_rank, end)]
    return _with_edges(graph, ~waits, ends, after)


def loaded_ahead(graph: DependencyGraph) -> DependencyGraph:
    """Batches are loaded on a thread of their own, one after the other; the loop waits for its batch."""
    loads = _activities(graph, _named("load"))
    of_load = _inside(graph, np.flatnonzero(loads))[graph.edges.activity]
    ends = graph.moment_of[np.flatnonzero(loads), Point.END].astype(np.int64)
    spans = graph.activities.filter(pl.Series(loads)).select(pl.col("end_ns") - pl.col("start_ns"))
    main = _scaled_edges(graph, of_load, 0.0)
    return _with_edges(
        main, np.ones(len(main.edges), np.bool_), ends[:-1], ends[1:], spans.to_series().to_numpy()[1:]
    )


def merged(graph: DependencyGraph) -> DependencyGraph:
    """The all-reduces of a step cost as much as a single one of them."""
    ops = graph.activities.filter(_named("c10d::allreduce_"))
    first = ops.group_by("rank", as_text("step")).agg(pl.col("start_ns").min())
    steps = graph.activities.filter(as_text("name").str.starts_with("ProfilerStep#"))
    spans = first.join(
        steps.select("rank", pl.col("end_ns"), step=as_text("name")), on=["rank", "step"], how="inner"
    )
    ranks, times, after = _ranks(graph), graph.moments.time_ns, graph.after
    during = np.zeros(len(graph.moments), dtype=np.bool_)
    for own, start, end in spans.select("rank", "start_ns", "end_ns").iter_rows():
        during |= (ranks == own) & (times > start) & (times <= end)
    factor = 1 / SMALL_ALL_REDUCES
    residual = np.where(during, graph.moments.residual_ns * factor, graph.moments.residual_ns)
    moments = replace(graph.moments, residual_ns=residual.astype(np.int64))
    return replace(_scaled_edges(graph, during[after], factor), moments=moments)


def _named(*names: str) -> pl.Expr:
    return as_text("name").is_in(names)


def _activities(graph: DependencyGraph, wanted: pl.Expr) -> _Flags:
    """Whether each activity is wanted."""
    return graph.activities.select(wanted.fill_null(False)).to_series().to_numpy()


def _ranks(graph: DependencyGraph) -> _Ints:
    """The rank of each moment, -1 for those of collectives."""
    ranks = graph.activities.get_column("rank").cast(pl.Int64).fill_null(-1).to_numpy()
    of_moment: _Ints = ranks[graph.moments.activity]
    return of_moment


def _inside(graph: DependencyGraph, outer: _Ints) -> _Flags:
    """Whether each activity is one of these, or lies in it on the same thread."""
    lane, rank, start, end = (
        graph.activities.get_column(name).fill_null(-1).to_numpy()
        for name in ("lane", "rank", "start_ns", "end_ns")
    )
    found = np.zeros(len(start), dtype=np.bool_)
    for row in outer.tolist():
        within = (start >= start[row]) & (end <= end[row])
        found |= within & (lane == lane[row]) & (rank == rank[row])
    return found


def _scaled_edges(graph: DependencyGraph, wanted: _Flags, factor: float) -> DependencyGraph:
    work = np.where(wanted, np.rint(graph.edges.work_ns * factor), graph.edges.work_ns).astype(np.int64)
    return replace(graph, edges=replace(graph.edges, work_ns=work))


def _with_edges(
    graph: DependencyGraph,
    kept: _Flags,
    before: _Ints | None = None,
    after: _Ints | None = None,
    work_ns: _Ints | None = None,
) -> DependencyGraph:
    """The graph with some of its edges, and others that go forward in its order."""
    nothing = np.empty(0, dtype=np.int64)
    before, after = (nothing if part is None else part for part in (before, after))
    work = np.zeros(len(before), dtype=np.int64) if work_ns is None else work_ns
    edges = graph.edges
    to = np.concatenate([graph.after[kept], after])
    order = np.argsort(to, kind="stable")
    first = np.searchsorted(to[order], np.arange(len(graph.moments) + 1))
    new = Edges(
        first.astype(np.int64),
        np.concatenate([edges.before[kept], before])[order].astype(np.int32),
        np.concatenate([edges.work_ns[kept], work])[order],
        np.concatenate([edges.kind[kept], np.full(len(before), EdgeKind.THREAD)])[order].astype(np.uint8),
        np.concatenate([edges.activity[kept], graph.moments.activity[after]])[order].astype(np.int32),
    )
    return replace(graph, edges=new)


def _shaped(size: int) -> pl.Expr:
    return as_text("shapes").str.contains(rf"\b{size}\b")


_FOREACH = 52
"""Parameters of the model that `optimizer_foreach` trains: calls that become a single call."""

CHANGES: dict[str, Change] = {
    "loader_sleep": Change("`read` removed", scaled(_named("read"), 0.0)),
    "matmul_halved": Change(f"ops with a size of {WIDE} in half the time", scaled(_shaped(WIDE), 0.5)),
    "op_twice": Change(
        f"aten::mm of {PRODUCT} x {PRODUCT} twice",
        scaled(
            _named("aten::mm")
            & as_text("shapes").str.contains(rf"{PRODUCT}, ?{PRODUCT}\].*{PRODUCT}, ?{PRODUCT}\]"),
            2.0,
        ),
    ),
    "second_thread": Change("`make targets` removed", scaled(_named("make targets"), 0.0)),
    "optimizer_foreach": Change(
        "Python time of the optimizer's step divided by its parameters",
        scaled(_named("Optimizer.step#SGD.step"), 1 / _FOREACH),
    ),
    "layer_removed": Change(f"ops with a size of {WIDE} removed", scaled(_shaped(WIDE), 0.0)),
    "loader_ahead": Change("`load` moved to a thread of its own", loaded_ahead),
    "straggler": Change("`late input` removed", scaled(_named("late input"), 0.0)),
    "all_reduce_halved": Change("gloo:all_reduce in half the time", scaled(_named("gloo:all_reduce"), 0.5)),
    "wait_at_the_end": Change("waits for all-reduces moved to the end of the step", waits_moved),
    "barrier_removed": Change("barriers removed", barrier_removed),
    "all_reduces_merged": Change("all-reduces of a step merged", merged),
}
