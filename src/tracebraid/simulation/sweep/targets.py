"""The groups of work that a sweep makes faster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tracebraid.model.answers.graph.sweep import SweepBy, SweepScope
from tracebraid.model.graph.codes import ActivityKind, EdgeKind
from tracebraid.model.graph.dependency_graph import DependencyGraph
from tracebraid.model.step import PROFILER_STEP, is_step_name

__all__ = ["Partition", "partitions"]

_DEVICE_KINDS = (ActivityKind.KERNEL.value, ActivityKind.COPY.value)
_LATENCIES = (
    EdgeKind.LAUNCH,
    EdgeKind.STREAM_ORDER,
    EdgeKind.STREAM_OVERLAP,
    EdgeKind.STREAM_END,
    EdgeKind.EVENT_WAIT,
    EdgeKind.SYNC,
    EdgeKind.THREAD,
    EdgeKind.FORWARD_BACKWARD,
    EdgeKind.COMMUNICATION_WAIT,
    EdgeKind.QUEUE,
)


@dataclass(frozen=True, eq=False)
class Partition:
    """Groups of edges that have none in common.

    Args:
        by: by what they are grouped.
        scope: which of the work of a group's activities it is.
        names: the names of the groups.
        group: the group of each edge, its entry of `names`; -1: none.
    """

    by: SweepBy
    scope: SweepScope
    names: tuple[str, ...]
    group: NDArray[np.int32]


def partitions(graph: DependencyGraph, annotation: str = PROFILER_STEP) -> Iterator[Partition]:
    """All groups of work of a graph, by each of `SweepBy`; none has edges without work only.

    Args:
        graph: the graph.
        annotation: what marks a step.
    """
    edges = graph.edges
    works = edges.work_ns > 0
    host = works & (edges.kind == EdgeKind.HOST)
    own = works & np.isin(edges.kind, [EdgeKind.HOST, EdgeKind.DEVICE, EdgeKind.TRANSFER])
    rows = graph.activities.select(pl.col("kind", "name", "family", "op", "module", "group").cast(pl.String))
    labels = rows.select(
        op=_of_kind(pl.col("name"), ActivityKind.OP.value),
        in_op="op",
        module="module",
        family=_of_kind(pl.col("family"), *_DEVICE_KINDS),
        kernel=_of_kind(pl.col("name"), *_DEVICE_KINDS),
        python=_of_kind(pl.col("name"), ActivityKind.PYTHON.value),
        call=_of_kind(pl.col("name"), ActivityKind.CALL.value),
        annotation=_of_kind(_step_or_name(annotation), ActivityKind.ANNOTATION.value),
    ).with_columns(_threads(graph), _collectives(graph))
    every = (
        (SweepBy.OP, SweepScope.SELF, "op", host),
        (SweepBy.OP, SweepScope.LAUNCHED, "in_op", own),
        (SweepBy.MODULE, SweepScope.SELF, "module", host),
        (SweepBy.MODULE, SweepScope.LAUNCHED, "module", own),
        (SweepBy.FAMILY, SweepScope.SELF, "family", own),
        (SweepBy.KERNEL, SweepScope.SELF, "kernel", own),
        (SweepBy.COLLECTIVE, SweepScope.SELF, "collective", own),
        (SweepBy.PYTHON, SweepScope.SELF, "python", host),
        (SweepBy.CALL, SweepScope.SELF, "call", host),
        (SweepBy.ANNOTATION, SweepScope.SELF, "annotation", host),
        (SweepBy.THREAD, SweepScope.SELF, "thread", host),
    )
    for by, scope, column, chosen in every:
        names, code = _codes(labels.get_column(column))
        yield Partition(by, scope, names, np.where(chosen, code[edges.activity], np.int32(-1)))
    yield _latencies(graph, works)


def _of_kind(label: pl.Expr, *kinds: str) -> pl.Expr:
    return pl.when(pl.col("kind").is_in(kinds)).then(label)


def _step_or_name(annotation: str) -> pl.Expr:
    return pl.when(is_step_name(pl.col("name"), annotation)).then(pl.lit(annotation)).otherwise("name")


def _threads(graph: DependencyGraph) -> pl.Series:
    """Rank and thread of each activity."""
    rows = graph.activities.select("rank", "lane", pl.col("kind", "name").cast(pl.String))
    threads = rows.filter(pl.col("kind") == ActivityKind.THREAD.value).unique(["rank", "lane"])
    named = threads.select("rank", "lane", thread=pl.format("rank {} {} ({})", "rank", "name", "lane"))
    found = rows.select("rank", "lane").join(named, on=["rank", "lane"], how="left", maintain_order="left")
    return found.get_column("thread")


def _collectives(graph: DependencyGraph) -> pl.Series:
    """Type and group of each activity of communication; of what has no type its name."""
    types = graph.ranks.members.select("rank", "event_id", pl.col("type").cast(pl.String))
    rows = graph.activities.select("rank", "event_id", pl.col("kind", "name", "group").cast(pl.String)).join(
        types.unique(["rank", "event_id"]), on=["rank", "event_id"], how="left", maintain_order="left"
    )
    name = pl.coalesce("type", "name")
    name = pl.when(pl.col("group").is_null()).then(name).otherwise(pl.format("{} {}", name, "group"))
    found = rows.select(_of_kind(name, ActivityKind.COMMUNICATION.value).alias("collective"))
    return found.get_column("collective")


def _codes(labels: pl.Series) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    names = labels.drop_nulls().unique().sort()
    ranked = labels.rank("dense").cast(pl.Int32) - 1
    return tuple(names.to_list()), ranked.fill_null(-1).to_numpy()


def _latencies(graph: DependencyGraph, works: NDArray[np.bool_]) -> Partition:
    code = np.full(max(EdgeKind) + 1, -1, dtype=np.int32)
    code[list(_LATENCIES)] = np.arange(len(_LATENCIES))
    names = tuple(kind.name.lower() for kind in _LATENCIES)
    group = np.where(works, code[graph.edges.kind], np.int32(-1))
    return Partition(SweepBy.LATENCY, SweepScope.SELF, names, group)
